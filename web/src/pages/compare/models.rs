//! Two models, compared by the measured times of problems on which they were not trained.

use std::sync::Arc;

use diode_api::{EvaluationReport, ModelSummary};
use leptos::prelude::*;

use super::pair::Compared;
use crate::components::{Loaded, empty};
use crate::format;
use crate::pages::TOP_K;
use crate::pages::compare::pair::chosen_pair;
use crate::pages::predict::model_choice;
use crate::remote::remote;

#[component]
pub(super) fn ModelPair() -> impl IntoView {
    let all = remote::<Vec<ModelSummary>>(|| Some("/models".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Models all /> } /> }
}

#[component]
fn Models(all: Arc<Vec<ModelSummary>>) -> impl IntoView {
    let usual: Vec<String> = all.iter().map(|model| model.id.to_string()).collect();
    let [Some(usual_a), Some(usual_b)] = [1, 0].map(|place| usual.get(place).cloned()) else {
        return empty(
            "Two models are needed",
            view! { "This server has fewer. " <a href="/models#train">"Train one"</a> "." },
        );
    };
    let (a, b, fields) = chosen_pair("Model", all.iter().map(model_choice).collect(), [usual_a, usual_b]);
    let table = move || {
        let find = |id: &str| all.iter().find(|model| model.id.as_str() == id).cloned();
        match (a.with(|id| find(id)), b.with(|id| find(id))) {
            (Some(one), Some(other)) => view! {
                {side_by_side(&one, &other)}
                {picks(&one, &other, a, b)}
            }
            .into_any(),
            _ => empty("There is no such model", "Choose another above."),
        }
    };
    view! {
        {fields}
        <section class="section" aria-label="The two models">{table}</section>
    }
    .into_any()
}

/// Compares the first picks of both models by their measured times.
fn picks(one: &ModelSummary, other: &ModelSummary, a: Memo<String>, b: Memo<String>) -> AnyView {
    if one.hardware != other.hardware {
        return view! { <p class="hint">"Of two models of one hardware, the measured times of what they pick first are compared here, too."</p> }
            .into_any();
    }
    let names = [one, other].map(model_choice);
    let name = Callback::new(move |id: String| {
        names.iter().find(|(own, _)| *own == id).map_or(id.clone(), |(_, text)| text.clone())
    });
    view! {
        <h2>"What they pick first"</h2>
        <p class="hint">"Its measured time on at most 200 problems. The models may have been trained on them."</p>
        <Compared what="models" a b name of_models=one.hardware.to_string() />
    }
    .into_any()
}

/// A figure of an evaluation.
struct Figure {
    name: String,
    value: fn(&EvaluationReport, &str) -> Option<f64>,
    /// The number of picks that the figure is about.
    picks: &'static str,
    written: fn(f64) -> String,
    more_is_better: bool,
}

fn figures() -> Vec<Figure> {
    let share = |name: String, picks, value| Figure {
        name,
        value,
        picks,
        written: format::percent,
        more_is_better: true,
    };
    let named =
        |picks: &str| if picks == "1" { "first pick".to_owned() } else { format!("best of {picks} picks") };
    let mut all: Vec<Figure> = Vec::new();
    for picks in TOP_K {
        all.push(share(format!("of best, {}", named(picks)), picks, |report, k| {
            Some(report.top_k.get(k)?.geomean)
        }));
    }
    for picks in ["1", "5"] {
        all.push(share(format!("worst problem, {}", named(picks)), picks, |report, k| {
            Some(report.top_k.get(k)?.worst)
        }));
        all.push(share(format!("problems within 5 %, {}", named(picks)), picks, |report, k| {
            report.within_5_percent.get(k).copied()
        }));
    }
    let error = |name: &str, value| Figure {
        name: name.to_owned(),
        value,
        picks: "",
        written: format::percent,
        more_is_better: false,
    };
    all.push(error("mean error of time, within 2× of the best", |report, _| Some(report.mape_within_2x)));
    all.push(error("mean error of time, all configs", |report, _| Some(report.mape_all)));
    all.push(Figure {
        name: "rank correlation, median".to_owned(),
        value: |report, _| Some(report.spearman_median),
        picks: "",
        written: |value| format!("{value:.3}"),
        more_is_better: true,
    });
    all
}

/// A fact of a model: its name, and how it is written.
type Fact = (&'static str, fn(&ModelSummary) -> String);

/// The figures and facts of two models.
pub(crate) fn side_by_side(a: &ModelSummary, b: &ModelSummary) -> impl IntoView + use<> {
    let of = |model: &ModelSummary, figure: &Figure| {
        model.evaluation.as_ref().and_then(|report| (figure.value)(report, figure.picks))
    };
    let rows = figures().into_iter().map(|figure| {
        let (left, right) = (of(a, &figure), of(b, &figure));
        let text = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), figure.written);
        let verdict =
            left.zip(right).map_or("–", |(left, right)| verdict(left, right, figure.more_is_better));
        view! {
            <tr>
                <td class="wrap narrow">{figure.name.clone()}</td>
                <td class="num">{text(left)}</td>
                <td class="num">{text(right)}</td>
                <td>{verdict}</td>
            </tr>
        }
    });
    let facts: [Fact; 6] = [
        ("state", |model| model.state.to_string()),
        ("judged by", |model| {
            model.evaluation.as_ref().map(|report| report.split.clone()).unwrap_or_default()
        }),
        ("on problems", |model| {
            model.evaluation.as_ref().map(|report| format::count(report.problems as u64)).unwrap_or_default()
        }),
        ("trained on timings", |model| format::count(model.training_timings)),
        ("parameters", |model| format::count(model.parameters)),
        ("features", |model| model.feature_set.clone()),
    ];
    let facts = facts.into_iter().map(|(name, value)| {
        view! { <tr><td>{name}</td><td class="num wrap narrow">{value(a)}</td><td class="num wrap narrow">{value(b)}</td><td></td></tr> }
    });
    let head = |model: &ModelSummary| {
        let text = format!("{}, {}", model.hardware, format::day(&model.created_at));
        view! { <th class="num wrap narrow"><a href=format!("/models/{}", model.id)>{text}</a></th> }
    };
    let caution = (a.hardware != b.hardware || a.data_digest != b.data_digest).then(|| {
        view! { <p class="note">"They were judged on different problems, so small differences say nothing."</p> }
    });
    view! {
        {caution}
        <div class="table-box" tabindex="0">
            <table data-testid="two-models">
                <thead><tr><th class="wrap narrow">"On problems that they have not seen"</th>{head(a)}{head(b)}<th>"Better"</th></tr></thead>
                <tbody>{rows.collect_view()}{facts.collect_view()}</tbody>
            </table>
        </div>
    }
}

/// Two figures, written as shares of 1, count as the same if they differ by less than this.
const SAME: f64 = 0.002;

fn verdict(left: f64, right: f64, more_is_better: bool) -> &'static str {
    match (right - left, more_is_better) {
        (difference, _) if difference.abs() < SAME => "the same",
        (difference, more) if (difference > 0.0) == more => "right",
        _ => "left",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_better_one_is_named() {
        assert_eq!(verdict(0.97, 0.971, true), "the same");
        assert_eq!(verdict(0.97, 0.98, true), "right");
        assert_eq!(verdict(0.97, 0.98, false), "left");
        assert_eq!(verdict(0.98, 0.97, false), "right");
    }
}
