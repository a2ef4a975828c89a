//! The leaderboard. More rows are loaded on demand.

use std::sync::Arc;

use diode_api::{HardwareSummary, Kernels, Leaderboard};
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::hooks::use_query_map;

use super::columns::Columns;
use super::filters::filter_parameters;
use super::kernels::{self, asked_for, chosen};
use super::picks::{self, PicksByProblem};
use super::ranges::any_fault;
use super::row::row;
use super::verdict::verdict;
use crate::components::{Empty, Loaded, due};
use crate::query::link;
use crate::remote::remote;
use crate::{api, cache, format};

#[component]
pub(super) fn Board(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let with_picks = summary.models > 0;
    let kernels = chosen();
    let map = use_query_map();
    let path = {
        let slug = slug.clone();
        Memo::new(move |_| {
            let value = |key: &'static str| (key, map.with(|map| map.get(key).unwrap_or_default()));
            let mut given = map.with(|map| filter_parameters(&summary, map));
            given.push((kernels::KEY, asked_for(value(kernels::KEY).1)));
            given.extend(["sort", "order"].map(value));
            link(&format!("/hardware/{slug}/leaderboard"), given)
        })
    };
    let any_fault = any_fault();
    let first = remote::<Leaderboard>(move || (!any_fault.get()).then(|| path.get()));
    let table = move || {
        if any_fault.get() {
            return view! { <Empty heading="No problems to show">"Correct the sizes above first."</Empty> }
                .into_any();
        }
        let slug = slug.clone();
        let rows = move |first: Arc<Leaderboard>| {
            let (path, slug, kernels) = (path.get_untracked(), slug.clone(), kernels.get_untracked());
            view! { {verdict(&first.comparison)} <Rows first path slug kernels with_picks /> }
        };
        view! { <Loaded remote=first height="40rem" children=rows /> }.into_any()
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Leaderboard"</h2>
            <div class="section" class:busy=move || first.busy()>{table}</div>
        </section>
    }
}

/// The number of rows that are made in one turn. More rows would block a slow computer for too long.
const AT_ONCE: usize = 10;

/// Makes some rows of a page, starting at `first`, in a turn of their own.
fn some_rows(
    page: Arc<Leaderboard>,
    first: usize,
    slug: String,
    kernels: Kernels,
    picks: Option<PicksByProblem>,
) -> impl IntoView {
    let is_due = if first == 0 { RwSignal::new(true) } else { due() };
    move || {
        let some = page.items.iter().skip(first).take(AT_ONCE);
        is_due.get().then(|| some.map(|item| row(item, &slug, kernels, picks)).collect_view())
    }
}

/// The table: the first page of rows, and the next pages when the reader wants them.
#[component]
fn Rows(
    first: Arc<Leaderboard>,
    path: String,
    slug: String,
    kernels: Kernels,
    with_picks: bool,
) -> impl IntoView {
    if first.items.is_empty() {
        return view! { <Empty heading="No problem matches these filters">"Clear a filter to see more."</Empty> }
            .into_any();
    }
    let total = first.total;
    let pages = cache::pages_from(&path, first);
    let next = RwSignal::new(pages.last().and_then(|page| page.next_cursor.clone()));
    let picks = with_picks.then(PicksByProblem::default);
    let pick = {
        let slug = slug.clone();
        move |page: &Leaderboard| {
            if let Some(picks) = picks {
                picks::fetch(&slug, &page.items, picks);
            }
        }
    };
    pages.iter().for_each(|page| pick(page));
    let pages = RwSignal::new(pages);
    {
        // Keeps the loaded pages, so that the back button shows them again.
        let path = path.clone();
        Effect::new(move |_| cache::put_pages(&path, pages.get()));
    }
    let (waiting, error) = (RwSignal::new(false), RwSignal::new(None::<String>));
    let more = move |_| {
        let Some(cursor) = next.get_untracked() else { return };
        let separator = if path.contains('?') { '&' } else { '?' };
        let path = format!("{path}{separator}{}", &link("", [("cursor", cursor)])[1..]);
        waiting.set(true);
        let pick = pick.clone();
        spawn_local(async move {
            let page = api::get::<Leaderboard>(&path).await;
            // The reader may have changed the filters by now, which removes this table.
            if waiting.try_set(false).is_some() {
                return;
            }
            match page {
                Ok(page) => {
                    next.set(page.next_cursor.clone());
                    pick(&page);
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
                let some = |first: usize| some_rows(Arc::clone(&page), first, slug.clone(), kernels, picks);
                (0..page.items.len()).step_by(AT_ONCE).map(some).collect_view()
            }
        />
    };
    view! {
        <div class="table-box long board">
            <table>
                <thead><Columns kernels with_picks /></thead>
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
