//! What happens once a problem is requested.

use diode_core::api::Agent;
use leptos::prelude::*;

use crate::components::Loaded;
use crate::format;
use crate::remote::remote;

/// An agent that was not seen for this long may never come again.
const LATELY_MS: f64 = 3_600_000.0;

/// Says whether any agent is there to measure the problem.
#[component]
pub(super) fn WhoMeasures(slug: String) -> impl IntoView {
    let plan = format!("/hardware/{slug}?board=coverage");
    let agents = remote::<Vec<Agent>>(move || Some(format!("/agents?hardware={slug}")));
    let said = move |agents: std::sync::Arc<Vec<Agent>>| {
        let plan = plan.clone();
        view! { {sentence(lately(&agents, js_sys::Date::now()))} " " <a href=plan>"What comes next"</a> }
    };
    view! { <Loaded remote=agents height="1.2em" children=said /> }
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
