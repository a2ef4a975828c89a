//! How the predicted time depends on one size while the others are fixed. The epilogue is included if its
//! costs are known.

use std::sync::Arc;

use diode_core::{Epilogue, Field, Micros, Problem, ProblemFields, Tflops};
use diode_model::Model;
use diode_ranking::{Line, Ranked, Row};
use leptos::prelude::*;

use super::super::fields::Fields;
use crate::charts::{self, SizePoint};
use crate::components::{CaveatMark, Chips, Choice, Explained};
use crate::format;
use crate::ranking::rank_in_turns;

/// The sizes are the powers of two up to this exponent, and the middles between them.
const LAST_POWER: u32 = 16;

/// The sizes that may vary, under the names that the reader chooses from.
const SIZES: [(&str, Field); 3] = [("M", Field::M), ("N", Field::N), ("K", Field::K)];

#[component]
pub(super) fn Along(fields: Fields, model: Arc<Model>, is_open: RwSignal<bool>) -> impl IntoView {
    let (along, shows) = (RwSignal::new("M".to_owned()), RwSignal::new("rate".to_owned()));
    let field = move || {
        let along = along.get();
        SIZES.into_iter().find(|(name, _)| *name == along).map_or(Field::M, |(_, field)| field)
    };
    let (run, rows) = (RwSignal::new(0_u32), RwSignal::new(Vec::<Row>::new()));
    let total = RwSignal::new(0);
    let problem = Memo::new(move |_| fields.problem().ok().filter(|_| is_open.get()));
    Effect::new(move |_| {
        let Some(problem) = problem.get() else { return };
        let tf32 = !fields.tf32.with(String::is_empty);
        // If the epilogue is invalid, the form says so.
        let epilogue = fields.epilogue().unwrap_or(Epilogue::None);
        let lines = varied(&problem, field());
        run.update(|run| *run += 1);
        rows.set(Vec::new());
        total.set(lines.len());
        let own = run.get_untracked();
        rank_in_turns(Arc::clone(&model), lines, tf32, epilogue, move |more| {
            let is_current = run.try_get_untracked() == Some(own);
            if is_current {
                rows.update(|rows| rows.extend(more));
            }
            is_current
        });
    });
    let chart = move || {
        let size = size_of(&problem.get()?, field());
        let done = rows.with(Vec::len) == total.get();
        done.then(|| rows.with(|rows| drawn(rows, field(), size, shows.get() == "rate")))
    };
    let sizes = SIZES.map(|(name, _)| (name.to_owned(), name.to_owned())).into();
    let values: Vec<Choice> =
        [("rate", "rate"), ("time", "time")].map(|(value, text)| (value.to_owned(), text.to_owned())).into();
    view! {
        <section class="section" aria-label="Along a size" data-testid="along">
            <div class="row">
                <Chips label="Size that varies" choices=sizes current=along choose=move |value| along.set(value) />
                <Chips label="Shows" choices=values current=shows choose=move |value| shows.set(value) />
            </div>
            <div class="along">{chart}</div>
        </section>
    }
}

/// The problem with several values of one size, its own value among them.
fn varied(problem: &Problem, field: Field) -> Vec<Line> {
    let mut sizes: Vec<u64> = (0..=LAST_POWER)
        .flat_map(|power| [Some(1_u64 << power), (power > 0).then(|| 3_u64 << (power - 1))])
        .flatten()
        .filter(|size| *size <= 1 << LAST_POWER)
        .chain([size_of(problem, field)])
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    let line = |size: u64| {
        let mut fields: ProblemFields = problem.clone().into_fields();
        match field {
            Field::M => fields.m = size,
            Field::N => fields.n = size,
            _ => fields.k = size,
        }
        Line::new(1, Problem::new(fields).map_err(|error| error.to_string()))
    };
    sizes.into_iter().map(line).collect()
}

fn size_of(problem: &Problem, field: Field) -> u64 {
    match field {
        Field::M => problem.m,
        Field::N => problem.n,
        _ => problem.k,
    }
}

fn drawn(rows: &[Row], field: Field, own: u64, rate: bool) -> impl IntoView + use<> {
    let ranked: Vec<&Ranked> = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).collect();
    let name = field.as_str();
    let both: Vec<(SizePoint, Option<String>)> = ranked
        .iter()
        .filter_map(|ranked| {
            let triton = ranked.triton()?;
            let (config, triton_us) = (triton.config, triton.total().0);
            let size = size_of(&ranked.problem, field);
            let point = SizePoint {
                size,
                is_own: size == own,
                flops: ranked.problem.flops(),
                config: config.label(),
                triton_us,
                library_us: ranked.library.map(|library| library.total().0),
            };
            Some((point, ranked.caveat.clone()))
        })
        .collect();
    let (points, caveats): (Vec<SizePoint>, Vec<Option<String>>) = both.into_iter().unzip();
    let starred = caveats.iter().flatten().count() as u64;
    let hint = (starred > 0).then(|| {
        let sizes = format::counted(starred, "size");
        view! { <p class="hint">{format!("The times of {sizes} are uncertain. Stars in the table say why.")}</p> }
    });
    let table = points.iter().zip(caveats).map(|(point, caveat)| {
        let rate = |us: f64| format::three_digits(Tflops::from_work(point.flops, Micros(us)).0);
        view! {
            <tr class:is-best=point.is_own>
                <td class="num">{format::count(point.size)}</td>
                <td class="mono">{point.config.clone()}</td>
                <td class="num">
                    {format::time(point.triton_us)} {caveat.map(|caveat| view! { <CaveatMark caveat /> })}
                </td>
                <td class="num">{rate(point.triton_us)}</td>
                <td class="num">{point.library_us.map_or_else(|| "–".to_owned(), format::time)}</td>
            </tr>
        }
    });
    let table = table.collect_view();
    view! {
        {charts::along_size(&points, name, rate)}
        {hint}
        <details>
            <summary>"The same as a table"</summary>
            <div class="table-box" tabindex="0">
                <table>
                    <thead>
                        <tr>
                            <th class="num">{name}</th>
                            <th>"Best Triton config"</th>
                            <th class="num">"Predicted"</th>
                            <th class="num">"TFLOP/s"</th>
                            <th class="num"><Explained text="Library" why="Predicted time of the library" /></th>
                        </tr>
                    </thead>
                    <tbody>{table}</tbody>
                </table>
            </div>
        </details>
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::{DType, Op};

    #[test]
    fn one_size_varies_and_has_its_own_value() {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 100, 32, DType::BFloat16)).unwrap();
        let lines = varied(&problem, Field::N);
        let problems: Vec<Problem> = lines.into_iter().map(|line| line.problem.unwrap()).collect();
        assert!(problems.iter().all(|one| (one.m, one.k) == (64, 32)));
        let sizes: Vec<u64> = problems.iter().map(|one| one.n).collect();
        assert_eq!(sizes[..6], [1, 2, 3, 4, 6, 8]);
        assert!(sizes.contains(&100) && sizes.last() == Some(&65_536) && sizes.is_sorted());
    }
}
