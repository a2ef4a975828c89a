//! A single problem: whether it was measured or waits, and a button that asks the agents to measure it.

use diode_api::{Measuring, MeasuringState, Purpose};
use diode_core::Problem;
use diode_core::hardware::TooLarge;
use leptos::prelude::*;
use leptos::task::spawn_local;

use super::next::WhoMeasures;
use super::{ask, refused, state_path};
use crate::api::Failure;
use crate::cache;
use crate::query::link;
use crate::remote::{Load, remote};

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
        (.., Some((told, (slug, problem)))) => said(&told, slug, &problem),
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
fn said(told: &Measuring, slug: String, problem: &Problem) -> AnyView {
    match (told.state, told.purpose) {
        (MeasuringState::Unasked, _) => {
            "Nobody has measured this shape here. Agents that serve this server can.".into_any()
        }
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
