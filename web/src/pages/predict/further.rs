//! Further parts of Predict, which the reader can open: how the time depends on a size, and the predictions of
//! other models. They are in the piece of the other pages.

use std::sync::Arc;

use diode_api::{ModelState, ModelSummary};
use diode_core::{Epilogue, Field, Micros, Problem, ProblemFields, Tflops};
use diode_model::{Answer, Model, Question, Ranker};
use diode_worker::{Line, Row};
use leptos::prelude::*;
use leptos::reactive::computed::ScopedFuture;
use leptos::task::spawn_local;

use crate::charts::SizePoint;
use crate::components::{CaveatMark, Skeleton, chips, head, num, table, unnamed};
use crate::pages::predict::fields::Fields;
use crate::remote::{Load, remote_model};
use crate::scheduler::rank_in_slices;
use crate::{app, charts, components, format};

/// The problem and the model that the further parts are about.
#[derive(Clone)]
pub(crate) struct About {
    pub(super) fields: Fields,
    pub(super) summary: ModelSummary,
    pub(super) model: Arc<Model>,
    /// All models of the server.
    pub(super) models: Arc<Vec<ModelSummary>>,
    /// Whether the reader has opened the parts. While they are closed, nothing is predicted for them.
    pub(super) is_open: RwSignal<bool>,
}

#[derive(Clone, Copy, PartialEq)]
enum Stage {
    Closed,
    OnItsWay,
    There,
    NotFetched,
}

/// The further parts, which are fetched when the reader opens them.
#[component]
pub(super) fn Further(about: About) -> impl IntoView {
    let is_open = about.is_open;
    let stage = RwSignal::new(Stage::Closed);
    let content = StoredValue::new_local(None::<AnyView>);
    // The content is owned by this component and lasts as long as it. If the effect owned the content, the
    // content would end when the effect runs again.
    let owner = Owner::current().map(|owner| owner.downgrade());
    let fetch = move || {
        let Some(owner) = owner.as_ref().and_then(WeakOwner::upgrade) else { return };
        stage.set(Stage::OnItsWay);
        let fetched = owner.with(|| ScopedFuture::new_untracked(app::further(about.clone())));
        spawn_local(async move {
            let next = match fetched.await {
                Ok(view) => {
                    content.try_set_value(Some(view));
                    Stage::There
                }
                Err(app::NotFetched) => Stage::NotFetched,
            };
            // The page may be gone by now.
            stage.try_set(next);
        });
    };
    Effect::new(move |_| {
        if is_open.get() && matches!(stage.get_untracked(), Stage::Closed | Stage::NotFetched) {
            fetch();
        }
    });
    let shown = move || match stage.get() {
        Stage::Closed => None,
        Stage::OnItsWay => Some(view! { <Skeleton height="24rem" /> }.into_any()),
        Stage::There => content.try_update_value(Option::take).flatten(),
        Stage::NotFetched => {
            let sentence = "The server could not be reached. Close this and open it again for another try.";
            Some(view! { <p class="error-text" role="alert">{sentence}</p> }.into_any())
        }
    };
    let open = is_open.get_untracked();
    // Browsers send this event also for an element that is open from the start.
    view! {
        <details class="card" data-testid="further" open=open on:toggle=move |event| is_open.set(components::is_open(&event))>
            <summary>"How the time follows a size, and what other models predict"</summary>
            {shown}
        </details>
    }
}

pub(crate) fn further_view(about: About) -> AnyView {
    let About { fields, summary, model, models, is_open } = about;
    let is_followed = move || fields.epilogue() != Ok(Epilogue::None);
    view! {
        <div class="section further">
            <Along fields model is_open />
            <p class="hint" class:hidden=move || !is_followed()>"The times of the models below are of the multiplication alone."</p>
            <OtherModels fields summary models is_open />
        </div>
    }
    .into_any()
}

/// The sizes are the powers of two up to this exponent, and the middles between them.
const LAST_POWER: u32 = 16;

/// The sizes that may vary, under the names that the reader chooses from.
const SIZES: [(&str, Field); 3] = [("M", Field::M), ("N", Field::N), ("K", Field::K)];

#[component]
fn Along(fields: Fields, model: Arc<Model>, is_open: RwSignal<bool>) -> impl IntoView {
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
        rank_in_slices(Arc::clone(&model), lines, tf32, epilogue, move |more| {
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
    view! {
        <section class="section" aria-label="Along a size" data-testid="along">
            <div class="row">
                {chips("Size that varies", unnamed(SIZES.map(|(name, _)| name)), along)}
                {chips("Shows", unnamed(["rate", "time"]), shows)}
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
    let ranked: Vec<&Answer> = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).collect();
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
    let sizes = points.iter().zip(caveats).map(|(point, caveat)| {
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
    let sizes = sizes.collect_view();
    view! {
        {charts::along_size(&points, name, rate)}
        {hint}
        {table([
                num(name), head("Best Triton config"), num("Predicted"), num("TFLOP/s"),
                num("Library").why("Predicted time of the library"),
            ]).below_chart(sizes)}
    }
}

/// Each model is a file to download, so only this many are shown.
const MOST: usize = 12;

#[component]
fn OtherModels(
    fields: Fields,
    summary: ModelSummary,
    models: Arc<Vec<ModelSummary>>,
    is_open: RwSignal<bool>,
) -> impl IntoView {
    let mut shown: Vec<ModelSummary> = models
        .iter()
        .filter(|model| model.hardware == summary.hardware || model.state == ModelState::Published)
        .cloned()
        .collect();
    // The page's own model comes first, then the others of the same hardware, in the server's order.
    shown.sort_by_key(|model| (model.id != summary.id, model.hardware != summary.hardware));
    shown.truncate(MOST);
    (shown.len() > 1).then(|| {
        let problem = Memo::new(move |_| fields.problem().ok().filter(|_| is_open.get()));
        let tf32 = Signal::derive(move || !fields.tf32.with(String::is_empty));
        let rows = shown.into_iter().map(|model| view! { <OneModel model problem tf32 /> }).collect_view();
        view! {
            <section class="section" aria-label="Models side by side" data-testid="side-by-side-models">
                <h3>"Models side by side"</h3>
                {table([
                    head("Model"), head("State").roomy(), head("First Triton pick"), num("Predicted"),
                    num("Library").why("Predicted time of the library"),
                ]).rows(rows)}
            </section>
        }
    })
}

#[component]
fn OneModel(model: ModelSummary, problem: Memo<Option<Problem>>, tf32: Signal<bool>) -> impl IntoView {
    let id = model.id.to_string();
    let file = {
        let id = id.clone();
        remote_model(move || Some(id.clone()))
    };
    // The ranker is kept between keys, so that only the parts that depend on the shape are computed again.
    let ranker = StoredValue::new(None::<Ranker<Arc<Model>>>);
    let said = move || match (file.get(), problem.get()) {
        (Load::Waiting, _) | (_, None) => Ok(Default::default()),
        (Load::Failed(failure), _) => Err(failure.to_string()),
        (Load::Ready(file), Some(problem)) => {
            let tf32 = tf32.get();
            let predict = |kept: &mut Option<Ranker<Arc<Model>>>| {
                let ranker = kept.get_or_insert_with(|| Ranker::new(Arc::clone(&file.model)));
                predicted(ranker, &problem, tf32)
            };
            ranker.try_update_value(predict).unwrap_or_else(|| Ok(Default::default()))
        }
    };
    let cells = move || match said() {
        Ok(cells) => {
            let [config, time, library] = cells;
            view! {
                <td class="mono">{config}</td>
                <td class="num">{time}</td>
                <td class="num">{library}</td>
            }
            .into_any()
        }
        Err(why) => view! { <td class="dim wrap" colspan="3">{why}</td> }.into_any(),
    };
    view! {
        <tr data-model=id.clone()>
            <td class="wrap narrow"><a href=format!("/models/{id}")>{model.hardware.to_string()}", "{format::day(&model.created_at)}</a></td>
            <td class="roomy">{model.state.to_string()}</td>
            {cells}
        </tr>
    }
}

/// The first Triton pick, its predicted time and the library's.
fn predicted(ranker: &mut Ranker<Arc<Model>>, problem: &Problem, tf32: bool) -> Result<[String; 3], String> {
    // The first two picks are at most one library.
    let question = Question { picks: 2, tf32, ..Question::default() };
    let answer = ranker.answer(problem, &question).map_err(|error| error.to_string())?;
    let triton = answer.triton();
    Ok([
        format::or_dash(triton.map(|pick| pick.config.label())),
        format::or_dash(triton.map(|pick| format::time(pick.alone.0))),
        format::or_dash(answer.library.map(|library| format::time(library.alone.0))),
    ])
}

#[cfg(test)]
mod along_tests {
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
