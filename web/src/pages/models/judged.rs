//! A model's predictions compared with the measured times, problem by problem. The browser computes them.

use std::collections::BTreeMap;
use std::sync::Arc;

use diode_api::{ModelSummary, ProblemPoint};
use diode_core::{Epilogue, ProblemGroup};
use diode_model::Model;
use diode_worker::{Line, Row};
use leptos::prelude::*;

use crate::charts::{self, Agreement};
use crate::components::{Head, Loaded, empty, head, num, table};
use crate::format;
use crate::query::{link, problem_page};
use crate::remote::{Load, remote_list, remote_model};
use crate::scheduler::rank_in_slices;

/// If there are more problems than this, an even sample of them is predicted.
const MOST: usize = 600;
/// The number of rows for the worst problems.
const WORST: usize = 10;

#[component]
pub(super) fn Judged(summary: ModelSummary) -> impl IntoView {
    let id = summary.id.to_string();
    let model = remote_model(move || Some(id.clone()));
    let slug = summary.hardware.to_string();
    let path = format!("/hardware/{slug}/problems");
    let points = remote_list::<ProblemPoint>(move || {
        // A model predicts times by the method of its training data. Times by another method cannot be
        // compared with them.
        let method = model.value()?.metadata().training.method.to_string();
        Some(link(&path, [("method", method)]))
    });
    let shown = move |points: Arc<Vec<ProblemPoint>>| {
        let slug = slug.clone();
        model.value().map(|file| view! { <Predicted model=Arc::clone(&file.model) points slug /> })
    };
    let missing = || empty("Nothing to compare with", "Nothing was measured on this hardware.");
    let waits = move || !matches!(model.get(), Load::Failed(_));
    view! {
        <section class="card" data-testid="judged">
            <h2>"Predicted and measured"</h2>
            {move || if waits() {
                view! { <Loaded remote=points height="40rem" missing children=shown.clone() /> }.into_any()
            } else {
                empty("Nothing to compare with", "The model could not be loaded.")
            }}
        </section>
    }
}

/// An even sample of `most` elements, in order.
fn sample<T>(all: Vec<T>, most: usize) -> Vec<T> {
    let (count, most) = (all.len(), most.max(1));
    let chosen = |place: &usize| (place * most) / count != ((place + 1) * most) / count;
    let keep = |(place, one): (usize, T)| (count <= most || chosen(&place)).then_some(one);
    all.into_iter().enumerate().filter_map(keep).collect()
}

#[component]
fn Predicted(model: Arc<Model>, points: Arc<Vec<ProblemPoint>>, slug: String) -> impl IntoView {
    let comparable: Vec<&ProblemPoint> = points.iter().filter(|point| point.triton_us.is_some()).collect();
    let known = comparable.len();
    let without = without_a_model(&points);
    // Only the sample is copied.
    let chosen: Arc<Vec<ProblemPoint>> = Arc::new(sample(comparable, MOST).into_iter().cloned().collect());
    if chosen.is_empty() {
        return empty(
            "Nothing to compare with",
            "No problem of this hardware was measured by the model's method.",
        );
    }
    let lines = (1..).zip(chosen.iter());
    // A config that rounds to TF32 is set beside the prediction for configs that do.
    let line = |(number, point): (usize, &ProblemPoint)| Line {
        number,
        problem: Ok(point.problem.clone()),
        tf32: point.triton_rounds,
    };
    let lines = lines.map(line).collect();
    let rows = RwSignal::new(Vec::<Row>::new());
    rank_in_slices(model, lines, false, Epilogue::None, move |more| {
        rows.try_update(|rows| rows.extend(more)).is_some()
    });
    let total = chosen.len();
    let result = move || {
        let done = rows.with(Vec::len);
        if done < total {
            let said = format!("{} of {} predicted", format::count(done as u64), format::count(total as u64));
            return view! { <p class="hint" style="min-height: 40rem">{said}</p> }.into_any();
        }
        let judged = rows.with(|rows| judged(rows, &chosen, &slug));
        view! { <Outcome judged known total /> }.into_any()
    };
    view! { {without.map(|said| view! { <p class="hint" data-testid="without">{said}</p> })} {result} }
        .into_any()
}

/// How near the library alone and the best Triton config alone come to the faster of the two.
fn without_a_model(points: &[ProblemPoint]) -> Option<String> {
    let both: Vec<[f64; 2]> = points
        .iter()
        // If only one of the two rounds to TF32, the server does not compare them.
        .filter(|point| point.triton_over_library.is_some())
        .filter_map(|point| Some([point.library_us?, point.triton_us?]))
        .collect();
    let shares = |own: usize| {
        let shares = both.iter().map(move |times| times[0].min(times[1]) / times[own]);
        let geomean = (shares.clone().map(f64::ln).sum::<f64>() / both.len() as f64).exp();
        (format::percent(geomean), format::percent(shares.fold(1.0, f64::min)))
    };
    let [library, triton] = [0, 1].map(shares);
    (!both.is_empty()).then(|| {
        format!(
            "Without a model, on {} where both were timed: the library reaches {} of the faster of the two ({} on the \
             worst problem). The best Triton config, which is known only after timing all, reaches {} ({}).",
            format::counted(both.len() as u64, "problem"),
            library.0,
            library.1,
            triton.0,
            triton.1
        )
    })
}

/// One problem, with the group and the size class that it counts for.
struct Judgement {
    shown: Agreement,
    group: ProblemGroup,
    kind: String,
    size: &'static str,
}

impl Judgement {
    /// The logarithm of predicted time / measured time.
    fn log_ratio(&self) -> f64 {
        (self.shown.predicted / self.shown.measured).ln()
    }
}

/// The size classes: an upper bound on the number of operations, and the name.
const SIZES: [(f64, &str); 5] = [
    (1e8, "below 0.1 GFLOP"),
    (1e9, "0.1 to 1 GFLOP"),
    (1e10, "1 to 10 GFLOP"),
    (1e11, "10 to 100 GFLOP"),
    (f64::INFINITY, "100 GFLOP and more"),
];

fn judged(rows: &[Row], points: &[ProblemPoint], slug: &str) -> Vec<Judgement> {
    let both = rows.iter().zip(points).filter_map(|(row, point)| {
        let predicted = row.outcome.as_ref().ok()?.triton()?.total().0;
        let problem = &point.problem;
        let size = SIZES.iter().find(|(bound, _)| problem.flops() < *bound).map_or("", |(_, name)| name);
        Some(Judgement {
            shown: Agreement {
                name: format!(
                    "{} {}{}",
                    point.dims,
                    format::kind(problem),
                    if point.triton_rounds { " TF32" } else { "" }
                ),
                measured: point.triton_us?,
                predicted,
                href: problem_page(&point.problem_id, slug, point.method),
            },
            group: ProblemGroup::for_problem(problem),
            kind: format!("{} {}", problem.op, problem.a_dtype),
            size,
        })
    });
    both.collect()
}

#[component]
fn Outcome(judged: Vec<Judgement>, known: usize, total: usize) -> impl IntoView {
    let groups = by(&judged, |one| one.group.to_string());
    let kinds = by(&judged, |one| one.kind.clone());
    let place = |name: &str| SIZES.iter().position(|(_, own)| *own == name);
    let mut sizes: Vec<_> = by(&judged, |one| one.size.to_owned()).into_iter().collect();
    sizes.sort_by_key(|(name, _)| place(name));
    let all = vec![("all".to_owned(), judged.iter().map(Judgement::log_ratio).collect::<Vec<_>>())];
    let tables = [("Problems", all), ("Sizes", sizes), ("Groups", groups), ("Kinds", kinds)];
    let bodies = tables.into_iter().map(|(name, rows)| {
        let rows = rows.into_iter().map(|(name, ratios)| error_row(name, &ratios)).collect_view();
        view! { <tbody><tr><th colspan="4" scope="colgroup">{name}</th></tr>{rows}</tbody> }
    });
    let bodies = bodies.collect_view();
    let mut order: Vec<&Judgement> = judged.iter().collect();
    order.sort_by(|a, b| b.log_ratio().abs().total_cmp(&a.log_ratio().abs()));
    let worst = order.into_iter().take(WORST).map(|one| problem_row(&one.shown)).collect_view();
    let sample = if total < known {
        format!(
            "An even sample of {} of {}. ",
            format::count(total as u64),
            format::counted(known as u64, "problem")
        )
    } else {
        String::new()
    };
    let said = format!(
        "{sample}Best Triton config of each. The model may have been trained on these problems; what it does on others stands above."
    );
    let problems: Arc<Vec<Agreement>> = Arc::new(judged.into_iter().map(|one| one.shown).collect());
    let chart = charts::of_problems(&problems);
    // Few readers open the table of all problems, and hundreds of rows block a slow computer.
    let is_open = RwSignal::new(false);
    let all = move || is_open.get().then(|| problems.iter().map(problem_row).collect_view());
    view! {
        <p class="hint">{said}</p>
        {chart}
        <details on:toggle=move |_| is_open.set(true)>
            <summary>"The same as a table"</summary>
            {table(problem_heads()).boxed("table-box long").testid("each-problem").rows(all)}
        </details>
        <div class="split even">
            <div class="section">
                <h3>"Error by size and group"</h3>
                {table([
                    head("Problems"), num("Count"), num("Factor").why("Geometric mean of predicted / measured time"),
                    num("Median error").why("Median of the factor between predicted and measured time, as a share"),
                ]).testid("errors").bodies(bodies)}
            </div>
            <div class="section">
                <h3>"Where it is most wrong"</h3>
                <p class="hint">
                    "By the predicted time, among problems that it may have learnt, so it does no better on others. A "
                    "problem's own page predicts by a network that has not learnt it, where there is one."
                </p>
                {table(problem_heads()).testid("worst").rows(worst)}
            </div>
        </div>
    }
}

/// Groups the logarithms of the ratios by a property.
fn by(judged: &[Judgement], property: impl Fn(&Judgement) -> String) -> Vec<(String, Vec<f64>)> {
    let mut found: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for one in judged {
        found.entry(property(one)).or_default().push(one.log_ratio());
    }
    found.into_iter().collect()
}

/// The geometric mean of the ratios, and the median error as a share. Without ratios, they are 1 and 0.
fn errors(log_ratios: &[f64]) -> (f64, f64) {
    let mut sizes: Vec<f64> = log_ratios.iter().map(|ratio| ratio.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let mean = log_ratios.iter().sum::<f64>() / log_ratios.len().max(1) as f64;
    let median = sizes.get(sizes.len() / 2).copied().unwrap_or(0.0);
    (mean.exp(), median.exp() - 1.0)
}

fn error_row(name: String, log_ratios: &[f64]) -> impl IntoView + use<> {
    let (mean, median) = errors(log_ratios);
    view! {
        <tr>
            <td>{name}</td>
            <td class="num">{format::count(log_ratios.len() as u64)}</td>
            <td class="num">{format::factor(mean)}</td>
            <td class="num">{format::percent(median)}</td>
        </tr>
    }
}

fn problem_heads() -> [Head; 4] {
    [head("Problem"), num("Measured"), num("Predicted"), num("Factor").why("Predicted / measured time")]
}

fn problem_row(problem: &Agreement) -> impl IntoView + use<> {
    let Agreement { name, measured, predicted, href } = problem;
    view! {
        <tr>
            <td><a href=href.clone()>{name.clone()}</a></td>
            <td class="num">{format::time(*measured)}</td>
            <td class="num">{format::time(*predicted)}</td>
            <td class="num">{format::factor(predicted / measured)}</td>
        </tr>
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_even_and_as_large_as_asked() {
        let all: Vec<usize> = (0..1000).collect();
        let some = sample(all.clone(), 10);
        assert_eq!(some.len(), 10);
        assert!(some.windows(2).all(|pair| pair[1] - pair[0] == 100), "{some:?}");
        assert_eq!(sample(all.clone(), 1000), all);
        assert_eq!(sample(all.clone(), 7).len(), 7);
        assert!(sample(Vec::<u8>::new(), 7).is_empty());
    }

    #[test]
    fn errors_do_not_cancel_in_the_median() {
        let (mean, median) = errors(&[0.5_f64.ln(), 2_f64.ln(), 2_f64.ln()]);
        assert!((mean - 2_f64.powf(1.0 / 3.0)).abs() < 1e-12 && (median - 1.0).abs() < 1e-12);
    }
}
