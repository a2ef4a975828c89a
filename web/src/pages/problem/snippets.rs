//! The best Triton configs, and commands that get the page's figures, as code to copy.

use std::sync::Arc;

use diode_api::ProblemDetail;
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Table};
use js_sys::Reflect;
use leptos::ev::Event;
use leptos::prelude::*;

use crate::components::Snippet;
use crate::pages::hardware::config_line;
use crate::pages::predict::{flags, has_a_form};
use crate::query::link;

/// The number of configs, the same as in the server's tables.
const CONFIGS: usize = 5;

/// The snippets are made when the reader opens them.
#[component]
pub(super) fn Snippets(detail: Arc<ProblemDetail>) -> impl IntoView {
    let is_open = RwSignal::new(false);
    let toggle = move |event: Event| {
        let open = event.target().and_then(|target| Reflect::get(&target, &"open".into()).ok());
        is_open.set(open.and_then(|open| open.as_bool()).unwrap_or_default());
    };
    let shown = move || {
        let one = |(name, text): (&'static str, String)| view! { <div class="field"><span class="label">{name}</span><Snippet text /></div> };
        is_open.get().then(|| snippets(&detail).into_iter().map(one).collect_view())
    };
    view! {
        <details class="card" data-testid="snippets" on:toggle=toggle>
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
    let server = window().location().origin().unwrap_or_default();
    let view = [("hardware", detail.hardware.slug.to_string()), ("method", detail.method.to_string())];
    format!("curl '{server}{}'", link(&format!("/api/v1/problems/{}", detail.problem_id), view))
}
