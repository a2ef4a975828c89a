//! The agents of this server, and what each has measured lately.

use diode_api::{Agent, AgentDetail, LeaseSummary};
use diode_core::ids::AgentId;
use leptos::prelude::*;

use crate::components::{Loaded, empty, head, num, table, tag_row};
use crate::format;
use crate::remote::remote;

#[component]
pub(super) fn Fleet() -> impl IntoView {
    let agents = remote::<Vec<Agent>>(|| Some("/agents".to_owned())).renewed();
    let opened = RwSignal::new(None);
    view! {
        <section class="section" aria-labelledby="fleet-title" data-testid="fleet">
            <h2 id="fleet-title">"The fleet"</h2>
            <p class="hint">"The agents that were seen last, at most 200. This list follows them while the page is open."</p>
            <Loaded remote=agents height="10rem" children=move |all| agents_table(&all, opened) />
            {move || opened.get().map(|id| view! { <Doings id /> })}
        </section>
    }
}

fn agents_table(all: &[Agent], opened: RwSignal<Option<AgentId>>) -> AnyView {
    if all.is_empty() {
        return empty("No agent has measured for this server yet", "The line above starts the first one.");
    }
    let working = all.iter().filter(|agent| agent.lease.is_some()).count() as u64;
    let measured = all.iter().map(|agent| agent.measured).sum();
    let sums = format!(
        "{}, {} at work; {} measured",
        format::counted(all.len() as u64, "agent"),
        format::count(working),
        format::counted(measured, "problem")
    );
    view! {
        <p>{sums}</p>
        {table([
            head("Agent"), head("Hardware"), head("State"),
            num("Measured").why("Problems whose results have arrived"), head("Program").roomy(),
            num("Last seen"),
        ]).rows(all.iter().map(|agent| row(agent, opened)).collect_view())}
    }
    .into_any()
}

fn row(agent: &Agent, opened: RwSignal<Option<AgentId>>) -> impl IntoView + use<> {
    let id = agent.id.clone();
    let is_open = {
        let id = id.clone();
        move || opened.with(|opened| opened.as_ref() == Some(&id))
    };
    let expanded = is_open.clone();
    let toggle = move |_| opened.set((!is_open()).then(|| id.clone()));
    let name = format!("{}{}", agent.name, if agent.simulated { " (simulated)" } else { "" });
    view! {
        <tr>
            <td>
                <button type="button" class="chip" aria-expanded=move || expanded().to_string() on:click=toggle>{name}</button>
            </td>
            <td><a href=format!("/hardware/{}?board=coverage", agent.hardware)>{agent.hardware.to_string()}</a></td>
            <td>{state(agent)}</td>
            <td class="num">{format::count(agent.measured)}</td>
            <td class="roomy">{agent.tool.clone()}</td>
            <td class="num">{format::minute(&agent.seen_at)}</td>
        </tr>
    }
}

fn state(agent: &Agent) -> String {
    match (&agent.put_aside, &agent.lease) {
        (Some(reason), _) => format!("put aside: {reason}"),
        (None, Some(_)) => "at work".to_owned(),
        (None, None) => "no work taken".to_owned(),
    }
}

/// What an agent can measure, and its newest leases.
#[component]
fn Doings(id: AgentId) -> impl IntoView {
    let detail = remote::<AgentDetail>(move || Some(format!("/agents/{id}")));
    view! { <Loaded remote=detail height="14rem" children=|detail| doings(&detail) /> }
}

fn doings(detail: &AgentDetail) -> impl IntoView + use<> {
    let AgentDetail { agent, ability, node, leases } = detail;
    let rows = if ability.unaligned { "any rows" } else { "aligned rows only" };
    let ops = ability.ops.iter().map(ToString::to_string);
    let dtypes = ability.dtypes.iter().map(ToString::to_string);
    let tags = ops.chain(dtypes).chain([rows.to_owned()]);
    let facts = node.iter().map(|(name, value)| format!("{name} {value}"));
    let tags = tags.chain(facts);
    let leases = if leases.is_empty() {
        view! { <p class="hint">"It has taken no work yet."</p> }.into_any()
    } else {
        view! {
            {table([
                head("Lease"), head("State"), num("Measured"),
                num("Expected").roomy().why("What the server expected it to take"), num("Taken"),
                num("Ended").roomy(),
            ]).rows(leases.iter().map(lease).collect_view())}
        }
        .into_any()
    };
    view! {
        <div class="card" data-testid="doings">
            <h3>{format!("What {} has done lately", agent.name)}</h3>
            {tag_row(tags)}
            {leases}
        </div>
    }
}

fn lease(lease: &LeaseSummary) -> impl IntoView + use<> {
    let measured = format!("{} of {}", format::count(lease.measured), format::count(lease.problems));
    let ended = lease.ended_at.as_deref().map_or_else(|| "–".to_owned(), format::minute);
    view! {
        <tr>
            <td><code>{lease.id.to_string()}</code></td>
            <td>{lease.state.to_string()}</td>
            <td class="num">{measured}</td>
            <td class="num roomy">{format::time(lease.seconds * 1e6)}</td>
            <td class="num">{format::minute(&lease.taken_at)}</td>
            <td class="num roomy">{ended}</td>
        </tr>
    }
}
