//! What happens once a problem is requested.

use leptos::prelude::*;
use leptos::task::spawn_local;
use serde::Deserialize;

use crate::{api, format};

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
pub(super) fn WhoMeasures(slug: String) -> impl IntoView {
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
