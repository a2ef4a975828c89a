//! Asking the server's agents to measure what nobody has measured.

use std::collections::{BTreeMap, HashSet};

use diode_api::{Measuring, MeasuringState, Purpose, Wanted};
use diode_core::Problem;
use diode_core::hardware::TooLarge;
use diode_core::ids::ProblemId;
use leptos::prelude::*;
use leptos::task::spawn_local;
use serde::Deserialize;

use crate::api::Failure;
use crate::query::link;
use crate::remote::{Load, remote};
use crate::{api, cache, format};

/// The path of the API at which problems of a hardware are requested.
fn wish_path(slug: &str) -> String {
    format!("/hardware/{slug}/wanted")
}

/// The path of the API that tells the states of problems.
fn state_path<'p>(slug: &str, problems: impl IntoIterator<Item = &'p ProblemId>) -> String {
    let ids: Vec<&str> = problems.into_iter().map(ProblemId::as_str).collect();
    // The ids are joined by plain commas. They need no encoding.
    format!("{}?problems={}", wish_path(slug), ids.join(","))
}

/// Requests measurements of problems, at most [`Wanted::MAX`] at a time.
async fn ask(slug: &str, problems: Vec<Problem>) -> Result<(), Failure> {
    api::tell(&wish_path(slug), &Wanted { problems }).await
}

/// The states of problems.
async fn states(slug: &str, problems: &[ProblemId]) -> Result<Vec<Measuring>, Failure> {
    api::get(&state_path(slug, problems)).await
}

/// Why a request was refused, and what to do about it.
fn refused(failure: &Failure) -> AnyView {
    let Failure::SignedOut(_) = failure else {
        return view! { <p class="error-text" role="alert">{failure.to_string()}</p> }.into_any();
    };
    let location = window().location();
    let here = [location.pathname(), location.search()].map(Result::unwrap_or_default).concat();
    view! {
        <p class="note" role="alert">
            "This server measures for people with an account. "
            <a href=link("/sign-in", [("next", here)]) rel="external">"Sign in"</a> ", then press again."
        </p>
    }
    .into_any()
}

#[component]
pub(crate) fn MeasureThis(
    /// The slug of a hardware, and the problem. `None` while the fields describe no problem.
    #[prop(into)]
    wanted: Signal<Option<(String, Problem)>>,
    /// Whether the page shows this problem now. While the reader changes it, the button is disabled.
    #[prop(into, default = Signal::stored(true))]
    current: Signal<bool>,
    /// Why no device can hold the problem. The server refuses it in the same words.
    #[prop(into)]
    too_large: Signal<Option<TooLarge>>,
    /// The kind of a measured problem with the same sizes, if the page knows one.
    #[prop(into, default = Signal::stored(None))]
    otherwise: Signal<Option<String>>,
) -> impl IntoView {
    // A signal may notify without a change. The memo ignores that.
    let wanted = Memo::new(move |_| wanted.get());
    let told = remote::<Vec<Measuring>>(move || {
        let possible = wanted.get().filter(|_| too_large.with(Option::is_none));
        possible.map(|(slug, problem)| state_path(&slug, [&problem.id()]))
    });
    let (asking, refusal) = (RwSignal::new(false), RwSignal::new(None::<Failure>));
    // A new problem starts without the refusal of the old one.
    Effect::new(move |_| {
        wanted.track();
        refusal.set(None);
    });
    let press = move |_| {
        let Some((slug, problem)) = wanted.get_untracked() else { return };
        asking.set(true);
        refusal.set(None);
        spawn_local(async move {
            let answer = ask(&slug, vec![problem]).await;
            // The page may be gone by now. The request stands all the same.
            if asking.try_set(false).is_some() {
                return;
            }
            match answer {
                Ok(()) => {
                    cache::clear();
                    told.retry();
                }
                Err(failure) => refusal.set(Some(failure)),
            }
        });
    };
    let state = move || told.value().and_then(|told| Some(told.first()?.clone()));
    // Until this problem's answer arrives, the last answer is about another problem. It keeps its place, so that
    // nothing jumps, but is hidden.
    let is_own = Memo::new(move |_| {
        let own = wanted.with(|wanted| wanted.as_ref().map(|(_, problem)| problem.id()));
        let is_told = || match told.get() {
            Load::Ready(told) => told.first().map(|told| &told.problem) == own.as_ref(),
            Load::Failed(_) => !told.busy(),
            Load::Waiting => true,
        };
        current.get() && (too_large.with(Option::is_some) || is_told())
    });
    let named = move || match too_large.with(Option::is_some) {
        true => Some("too-large"),
        false => state().filter(|_| is_own.get()).map(|told| told.state.as_str()),
    };
    let shown = move || match (too_large.get(), told.get(), state().zip(wanted.get())) {
        (Some(error), ..) => format!("It cannot be measured: {error}.").into_any(),
        (_, Load::Failed(failure), _) => refused(&failure),
        (.., Some((told, (slug, problem)))) => said(&told, slug, &problem, otherwise.get()),
        _ => ().into_any(),
    };
    let can_ask =
        move || too_large.with(Option::is_none) && state().is_some_and(|told| may_be_asked_for(&told));
    view! {
        <div class="measure" data-testid="measure" data-state=named class:unseen=move || !is_own.get()>
            <button type="button" class="button small" class:hidden=move || !can_ask() prop:disabled=move || asking.get() || !current.get() || told.busy() on:click=press>
                "Measure this"
            </button>
            <div class="hint" role="status">{shown}</div>
            {move || refusal.get().map(|failure| refused(&failure))}
        </div>
    }
}

/// Whether a request would help. It moves a waiting problem forward, unless the problem was requested
/// already.
fn may_be_asked_for(told: &Measuring) -> bool {
    match told.state {
        MeasuringState::Unasked => true,
        MeasuringState::Waiting => told.purpose != Some(Purpose::Wanted),
        _ => false,
    }
}

/// The state of the problem, and what happens next.
fn said(told: &Measuring, slug: String, problem: &Problem, otherwise: Option<String>) -> AnyView {
    match (told.state, told.purpose) {
        (MeasuringState::Unasked, _) => match otherwise {
            Some(kind) => format!(
                "These sizes were measured here as {kind}, not as {}. Agents that serve this server can.",
                format::kind(problem)
            )
            .into_any(),
            None => "Nobody has measured this shape here. Agents that serve this server can.".into_any(),
        },
        (MeasuringState::Waiting, Some(Purpose::Wanted)) => {
            view! { "It is asked for. " <WhoMeasures slug /> }.into_any()
        }
        (MeasuringState::Waiting, _) => {
            view! { "It is on the agents' list already, by their plan. Asked for, it comes sooner. " <WhoMeasures slug /> }
                .into_any()
        }
        (MeasuringState::Leased, _) => "An agent has it now; its times will stand here.".into_any(),
        (MeasuringState::Refused, _) => {
            let why = told.reason.clone().unwrap_or_else(|| "it did not say why".to_owned());
            format!("No device with this hardware can measure it: {why}.").into_any()
        }
        (MeasuringState::Measured, _) => {
            let href = link(&format!("/problems/{}", problem.id()), [("hardware", slug)]);
            view! { "This shape was measured here: " <a href=href>"its times"</a> "." }.into_any()
        }
    }
}

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

/// The fields of an agent that are needed. The whole type would make the first load larger.
#[derive(Deserialize)]
struct Agent {
    seen_at: String,
    put_aside: Option<String>,
}

/// An agent that was not seen for this long may never come again.
const LATELY_MS: f64 = 3_600_000.0;

/// Says whether any agent is there to measure the problem.
#[component]
fn WhoMeasures(slug: String) -> impl IntoView {
    let plan = format!("/hardware/{slug}?board=coverage");
    let said = RwSignal::new(String::new());
    spawn_local(async move {
        let agents = api::get::<Vec<Agent>>(&format!("/agents?hardware={slug}")).await;
        let counted = agents.map(|agents| sentence(lately(&agents, js_sys::Date::now())));
        said.try_set(counted.unwrap_or_else(|failure| format!("{failure}.")));
    });
    view! { {said} " " <a href=plan>"What comes next"</a> }
}

/// The number of agents that may get work and were seen lately.
fn lately(agents: &[Agent], now: f64) -> u64 {
    let is_there =
        |agent: &&Agent| agent.put_aside.is_none() && now - js_sys::Date::parse(&agent.seen_at) < LATELY_MS;
    agents.iter().filter(is_there).count() as u64
}

fn sentence(agents: u64) -> String {
    match agents {
        0 => "No agent with this hardware was seen in the last hour: it waits until one comes.".to_owned(),
        agents => {
            let counted = format::counted(agents, "agent");
            format!(
                "{counted} with this hardware seen in the last hour: one of them takes it before more of what is known."
            )
        }
    }
}

#[cfg(test)]
mod all_tests {
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
