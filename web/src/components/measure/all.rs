//! A button for several problems. It asks the agents to measure those problems that nobody has measured.

use std::collections::{BTreeMap, HashSet};

use diode_api::{MeasuringState, Wanted};
use diode_core::Problem;
use diode_core::ids::ProblemId;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::next::WhoMeasures;
use super::{ask, refused, states};
use crate::api::Failure;
use crate::{cache, format};

/// The most problems of one request. More would occupy the agents for days.
const MOST: usize = 1_000;

/// How many problems are in each state, and how many were requested now.
#[derive(Clone, Default)]
struct Outcome {
    asked: u64,
    by_state: BTreeMap<MeasuringState, u64>,
}

#[derive(Clone)]
enum Stage {
    Offered,
    /// The number of problems whose state is known by now.
    Asking(usize),
    Asked(Outcome),
    TooMany(usize),
    Refused(Failure),
}

#[component]
pub(crate) fn MeasureAll(
    /// The slug of the hardware.
    slug: String,
    /// Gives the problems of the current list.
    problems: Callback<(), Vec<Problem>>,
    /// The number of the current list once all of its rows are there.
    #[prop(into)]
    ready: Signal<Option<u32>>,
) -> impl IntoView {
    let stage = RwSignal::new(Stage::Offered);
    // A new list starts without the outcome of the old one.
    Effect::new(move |_| {
        ready.track();
        stage.set(Stage::Offered);
    });
    let press = {
        let slug = slug.clone();
        move |_| {
            let mut seen = HashSet::new();
            let problems: Vec<Problem> =
                problems.run(()).into_iter().filter(|problem| seen.insert(problem.id())).collect();
            if problems.len() > MOST {
                stage.set(Stage::TooMany(problems.len()));
                return;
            }
            stage.set(Stage::Asking(0));
            let slug = slug.clone();
            let list = ready.get_untracked();
            // If the reader shows another list, this list is still requested in full, but its outcome is
            // not shown.
            let say = move |what: Stage| {
                if ready.try_get_untracked() == Some(list) {
                    stage.try_set(what);
                }
            };
            spawn_local(async move {
                let looked_at = move |number| {
                    say(Stage::Asking(number));
                    !stage.is_disposed()
                };
                let ended = ask_for(&slug, problems, looked_at).await;
                cache::clear();
                say(ended.map_or_else(Stage::Refused, Stage::Asked));
            });
        }
    };
    let is_busy = move || stage.with(|stage| matches!(stage, Stage::Asking(_)));
    let said = move || match stage.get() {
        Stage::Offered => ().into_any(),
        Stage::Asking(number) => {
            format!("{} looked at …", format::counted(number as u64, "shape")).into_any()
        }
        Stage::Asked(outcome) => {
            let waits = outcome.asked > 0;
            let slug = slug.clone();
            view! { {outcome.sentence()} {waits.then(|| view! { " " <WhoMeasures slug /> })} }.into_any()
        }
        Stage::TooMany(number) => format!(
            "The list has {}; at most {} are asked for at a time.",
            format::counted(number as u64, "shape"),
            format::count(MOST as u64)
        )
        .into_any(),
        Stage::Refused(failure) => refused(&failure),
    };
    view! {
        <button type="button" class="button small" prop:disabled=move || ready.get().is_none() || is_busy() on:click=press>
            "Measure what nobody has measured"
        </button>
        <div class="hint measured-all" role="status" data-testid="measure-all">{said}</div>
    }
}

/// Requests the problems that nobody has requested yet, in portions. Ends early when `looked_at` returns
/// false.
async fn ask_for(
    slug: &str,
    problems: Vec<Problem>,
    looked_at: impl Fn(usize) -> bool,
) -> Result<Outcome, Failure> {
    let (mut outcome, mut number) = (Outcome::default(), 0);
    for some in problems.chunks(Wanted::MAX) {
        let ids: Vec<ProblemId> = some.iter().map(Problem::id).collect();
        let told = states(slug, &ids).await?;
        let mut unasked = Vec::new();
        for (problem, told) in some.iter().zip(told) {
            match told.state {
                MeasuringState::Unasked => unasked.push(problem.clone()),
                state => *outcome.by_state.entry(state).or_default() += 1,
            }
        }
        let asked = unasked.len() as u64;
        if asked > 0 {
            ask(slug, unasked).await?;
        }
        outcome.asked += asked;
        number += some.len();
        if !looked_at(number) {
            break;
        }
    }
    Ok(outcome)
}

impl Outcome {
    fn sentence(&self) -> String {
        let of = |state| self.by_state.get(&state).copied().unwrap_or_default();
        let waiting = of(MeasuringState::Waiting) + of(MeasuringState::Leased);
        let others = [
            (waiting, "on the list already"),
            (of(MeasuringState::Measured), "measured already"),
            (of(MeasuringState::Refused), "that no device with this hardware can measure"),
        ];
        let others = others.into_iter().filter(|(number, _)| *number > 0);
        let others: String =
            others.map(|(number, what)| format!(", {} {what}", format::count(number))).collect();
        format!("{} asked for now{others}.", format::counted(self.asked, "shape"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sentence_names_what_there_is() {
        let by_state =
            [(MeasuringState::Waiting, 2), (MeasuringState::Leased, 1), (MeasuringState::Measured, 4)];
        let outcome = Outcome { asked: 1, by_state: by_state.into() };
        assert_eq!(outcome.sentence(), "1 shape asked for now, 3 on the list already, 4 measured already.");
        assert_eq!(Outcome::default().sentence(), "0 shapes asked for now.");
    }
}
