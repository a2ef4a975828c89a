//! Who measured a problem, when and with what; and code to copy: its best configs, and commands that get the page's
//! figures.

use std::sync::Arc;

use diode_api::{LibraryVersion, ProblemDetail, ProblemSources, SolutionSource, Standing};
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Table};
use leptos::prelude::*;

use crate::components::{Explained, Loaded, Snippet, head, is_open, num, table};
use crate::format;
use crate::pages::hardware::config_line;
use crate::pages::predict::{flags, has_a_form};
use crate::query::{link, server_address};
use crate::remote::remote;

#[component]
pub(super) fn Sources(detail: Arc<ProblemDetail>) -> impl IntoView {
    let view = [("hardware", detail.hardware.slug.to_string()), ("method", detail.method.to_string())];
    let path = link(&format!("/problems/{}/sources", detail.problem_id), view);
    let sources = remote::<ProblemSources>(move || Some(path.clone()));
    view! {
        <section class="section" aria-labelledby="sources-title" data-testid="sources">
            <h2 id="sources-title">"Who measured it"</h2>
            <Loaded remote=sources height="10rem" children=|sources| view! { {source_table(&sources)} } />
        </section>
    }
}

fn source_table(sources: &ProblemSources) -> impl IntoView + use<> {
    let more = (sources.more > 0)
        .then(|| format!("and {} before them", format::counted(sources.more, "measurement")));
    view! {
        {table([
            head("Upload"), head("By"), num("Day"), head("Driver"),
            head("Library").roomy().why("The vendor's multiplications that were timed beside"),
            head("Program").roomy(), num("Configs").why("Configs with a time"),
            num("Fastest").why("The shortest time of all, the library kernel's included"),
        ]).rows(sources.sources.iter().map(source_row).collect_view())}
        {more.map(|more| view! { <p class="hint">{more}</p> })}
    }
}

fn source_row(source: &SolutionSource) -> impl IntoView + use<> {
    let compare = link("/compare", [("what", "uploads".to_owned()), ("a", source.upload.to_string())]);
    let apart = (source.standing != Standing::Counts)
        .then(|| view! { " " <span class="tag"><Explained text="does not count" why="Too far from the times of the others" /></span> });
    let day = source.collected_at.as_deref().unwrap_or(&source.received_at);
    view! {
        <tr>
            <td><a href=compare><code>{source.upload.to_string()}</code></a> {apart}</td>
            <td>{format::or_dash(source.contributor.as_ref().map(ToString::to_string))}</td>
            <td class="num">{format::day(day)}</td>
            <td>{format::or_dash(source.driver.clone())}</td>
            <td class="roomy">{format::or_dash(source.library.as_ref().map(LibraryVersion::in_words))}</td>
            <td class="roomy">{format::or_dash(source.tool.clone())}</td>
            <td class="num">{format::count(source.timings)}</td>
            <td class="num">{format::or_dash(source.best_us.map(format::time))}</td>
        </tr>
    }
}

/// The number of configs, the same as in the server's tables.
const CONFIGS: usize = 5;

/// The snippets are made when the reader opens them.
#[component]
pub(super) fn Snippets(detail: Arc<ProblemDetail>) -> impl IntoView {
    let opened = RwSignal::new(false);
    let shown = move || {
        let one = |(name, text): (&'static str, String)| view! { <div class="field"><span class="label">{name}</span><Snippet text /></div> };
        opened.get().then(|| snippets(&detail).into_iter().map(one).collect_view())
    };
    view! {
        <details class="card" data-testid="snippets" on:toggle=move |event| opened.set(is_open(&event))>
            <summary>"To copy: triton.Config, lookup table, torch.compile, diode, curl"</summary>
            <div class="section">{shown}</div>
        </details>
    }
}

fn snippets(detail: &ProblemDetail) -> Vec<(&'static str, String)> {
    let problem = &detail.problem;
    let mut snippets = Vec::new();
    if let Some(triton) = &detail.triton {
        snippets.push(("Best Triton config", config_line(&triton.config)));
    }
    if let Some(table) = lookup_table(detail) {
        snippets.push(("Five best Triton configs, for Inductor's lookup_table", table));
        snippets.push(("A model that uses them, with that as lookup.json", COMPILE.to_owned()));
    }
    if has_a_form(problem) {
        let command = format!("diode predict --hardware {} {}", detail.hardware.slug, flags(problem));
        snippets.push(("What its model predicts", command));
    }
    snippets.push(("All that is on this page", curl(detail)));
    snippets
}

/// `None` if Inductor has no entry for such a problem.
fn lookup_table(detail: &ProblemDetail) -> Option<String> {
    let tiles = detail.configs.iter().map(|result| result.config).filter(|config| !config.is_library());
    let best: Vec<Config> = tiles.take(CONFIGS).collect();
    let table = Table::from_choices(detail.hardware.clone(), [(detail.problem.clone(), best)]).ok()?;
    let table = table.to_inductor(&InductorOptions::default()).ok()?;
    serde_json::to_string_pretty(&table).ok().filter(|table| table != "{}")
}

/// The same code as in the guide to tables.
const COMPILE: &str = r#"import json, torch
from torch._inductor.lookup_table import LookupTableChoices

model = torch.compile(model, options={
    "max_autotune_gemm": True,
    "inductor_choices_class": LookupTableChoices,
    "lookup_table.table": json.load(open("lookup.json")),
})"#;

fn curl(detail: &ProblemDetail) -> String {
    let server = server_address();
    let view = [("hardware", detail.hardware.slug.to_string()), ("method", detail.method.to_string())];
    format!("curl '{server}{}'", link(&format!("/api/v1/problems/{}", detail.problem_id), view))
}
