//! The leaderboard: filters, rows, and more rows on demand.

use std::sync::Arc;

use diode_core::api::{HardwareSummary, LeaderboardRow, Page};
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::hooks::use_query_map;

use super::columns::Columns;
use super::filters::{Filters, KEYS, default_method};
use super::ranges::any_fault;
use super::row::row;
use crate::components::{Empty, Loaded};
use crate::query::link;
use crate::remote::remote;
use crate::{api, cache, format};

#[component]
pub(super) fn Board(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let fastest = summary.best_tflops.unwrap_or(1.0);
    let method = default_method(&summary).map(|method| method.to_string());
    let map = use_query_map();
    // The address is passed on as it is: the server refuses what it does not
    // know, in words that this page shows.
    let path = {
        let slug = slug.clone();
        Memo::new(move |_| {
            let value = |key: &str| map.with(|map| map.get(key).unwrap_or_default());
            let given = KEYS.into_iter().chain(["sort", "order"]).map(|key| match (key, &method) {
                ("method", Some(default)) if value(key).is_empty() => (key, default.clone()),
                _ => (key, value(key)),
            });
            link(&format!("/hardware/{slug}/leaderboard"), given)
        })
    };
    let any_fault = any_fault();
    let first = remote::<Page<LeaderboardRow>>(move || (!any_fault.get()).then(|| path.get()));
    let table = move || {
        if any_fault.get() {
            return view! { <Empty heading="No problems to show">"Correct the sizes above first."</Empty> }
                .into_any();
        }
        let slug = slug.clone();
        let rows = move |first| view! { <Rows first path=path.get_untracked() slug=slug.clone() fastest /> };
        view! { <Loaded remote=first height="40rem" children=rows /> }.into_any()
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Leaderboard"</h2>
            <Filters summary />
            <div class="section" class:busy=move || first.busy()>{table}</div>
        </section>
    }
}

/// The table: its first page, and the next ones when the reader wants them.
#[component]
fn Rows(first: Arc<Page<LeaderboardRow>>, path: String, slug: String, fastest: f64) -> impl IntoView {
    if first.items.is_empty() {
        return view! { <Empty heading="No problem matches these filters">"Clear a filter to see more."</Empty> }
            .into_any();
    }
    let total = first.total;
    let with_library = first.items.iter().any(|row| row.library_us.is_some());
    let pages = cache::pages_from(&path, first);
    let next = RwSignal::new(pages.last().and_then(|page| page.next_cursor.clone()));
    let pages = RwSignal::new(pages);
    {
        // Whoever comes back finds them again.
        let path = path.clone();
        Effect::new(move |_| cache::put_pages(&path, pages.get()));
    }
    let (waiting, error) = (RwSignal::new(false), RwSignal::new(None::<String>));
    let more = move |_| {
        let Some(cursor) = next.get_untracked() else { return };
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}{}", &link("", [("cursor", cursor)])[1..]);
        waiting.set(true);
        spawn_local(async move {
            let page = api::get::<Page<LeaderboardRow>>(&path).await;
            // The filters may have changed by now, and with them this table is gone.
            if waiting.try_set(false).is_some() {
                return;
            }
            match page {
                Ok(page) => {
                    next.set(page.next_cursor.clone());
                    pages.update(|pages| pages.push(Arc::new(page)));
                    error.set(None);
                }
                Err(failure) => error.set(Some(failure.to_string())),
            }
        });
    };
    let shown = move || pages.with(|pages| pages.iter().map(|page| page.items.len() as u64).sum::<u64>());
    let body = view! {
        <For
            each=move || pages.get().into_iter().enumerate()
            key=|(index, _)| *index
            children=move |(_, page)| {
                page.items.iter().map(|item| row(item, &slug, fastest, with_library)).collect_view()
            }
        />
    };
    view! {
        <div class="table-box long">
            <table>
                <thead><Columns with_library /></thead>
                <tbody>{body}</tbody>
            </table>
        </div>
        <div class="table-foot">
            <span>{move || format!("{} of {}", format::count(shown()), format::counted(total, "problem"))}</span>
            {move || error.get().map(|message| view! { <span class="error-text" role="alert">{message}</span> })}
            <button
                type="button"
                class="button small"
                style:visibility=move || if next.get().is_some() { "visible" } else { "hidden" }
                prop:disabled=move || waiting.get()
                on:click=more
            >
                "Load more"
            </button>
        </div>
    }
    .into_any()
}
