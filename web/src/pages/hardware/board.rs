//! The leaderboard. More rows are loaded on demand.

use std::collections::HashMap;
use std::sync::Arc;

use diode_api::{
    HardwareSummary, Kernels, Leaderboard, LeaderboardRow, LeaderboardSort, MAX_PICKED, Pick, Picks,
    SortOrder,
};
use diode_core::Comparison;
use diode_core::hardware::Vendor;
use diode_core::ids::ProblemId;
use leptos::prelude::*;
use leptos::task::spawn_local;
use leptos_router::hooks::use_query_map;

use crate::components::{Explained, RatioCell, due, empty, legend};
use crate::pages::hardware::filters::{
    Filtered, KERNELS, any_fault, asked_for, chosen, filter_parameters, other, shown, subject,
};
use crate::query::{History, link, parameter, problem_page, use_set_parameters};
use crate::remote::remote;
use crate::{api, cache, format};

#[component]
pub(super) fn Board(
    summary: Arc<HardwareSummary>,
    /// Gets how often Triton wins on the problems that the filters leave.
    compared: RwSignal<Option<Comparison>>,
) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let with_picks = summary.models > 0;
    let kernels = chosen();
    let vendor = summary.hardware.vendor;
    let map = use_query_map();
    let path = {
        let slug = slug.clone();
        Memo::new(move |_| {
            let value = |key: &'static str| (key, map.with(|map| map.get(key).unwrap_or_default()));
            let mut given = map.with(|map| filter_parameters(&summary, map));
            given.push((KERNELS, asked_for(value(KERNELS).1)));
            given.extend(["sort", "order"].map(value));
            link(&format!("/hardware/{slug}/leaderboard"), given)
        })
    };
    let any_fault = any_fault();
    let first = remote::<Leaderboard>(move || (!any_fault.get()).then(|| path.get()));
    let rows = move |first: Arc<Leaderboard>| {
        let (path, slug, kernels) = (path.get_untracked(), slug.clone(), kernels.get_untracked());
        compared.set(Some(first.comparison));
        view! { <Rows first path slug kernels vendor with_picks /> }
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Leaderboard"</h2>
            <div class="section" class:busy=move || first.busy()>
                <Filtered remote=first height="40rem" children=rows />
            </div>
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
    (kernels, vendor): (Kernels, Vendor),
    picks: Option<PicksByProblem>,
) -> impl IntoView {
    let is_due = if first == 0 { RwSignal::new(true) } else { due() };
    move || {
        let some = page.items.iter().skip(first).take(AT_ONCE);
        is_due.get().then(|| some.map(|item| row(item, &slug, (kernels, vendor), picks)).collect_view())
    }
}

/// The table: the first page of rows, and the next pages when the reader wants them.
#[component]
fn Rows(
    first: Arc<Leaderboard>,
    path: String,
    slug: String,
    kernels: Kernels,
    vendor: Vendor,
    with_picks: bool,
) -> impl IntoView {
    if first.items.is_empty() {
        return empty("No problem matches these filters", "Clear a filter to see more.");
    }
    let total = first.total;
    let pages = cache::pages_from(&path, first);
    let next = RwSignal::new(pages.last().and_then(|page| page.next_cursor.clone()));
    let picks = with_picks.then(PicksByProblem::default);
    let pick = {
        let slug = slug.clone();
        move |page: &Leaderboard| {
            if let Some(picks) = picks {
                fetch(&slug, &page.items, picks);
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
    let columns = columns(kernels, format::library(vendor), with_picks);
    let key = legend(
        columns
            .iter()
            .map(|column| (column.text.clone(), column.why.clone()))
            .filter(|(_, why)| !why.is_empty()),
    );
    let shown = move || pages.with(|pages| pages.iter().map(|page| page.items.len() as u64).sum::<u64>());
    let body = view! {
        <For
            each=move || pages.get().into_iter().enumerate()
            key=|(index, _)| *index
            children=move |(_, page)| {
                let some = |first: usize| some_rows(Arc::clone(&page), first, slug.clone(), (kernels, vendor), picks);
                (0..page.items.len()).step_by(AT_ONCE).map(some).collect_view()
            }
        />
    };
    view! {
        <div class="table-box long board">
            <table>
                <thead><tr>{columns.iter().map(Column::head).collect_view()}</tr></thead>
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
        {key}
    }
    .into_any()
}

/// `picks` is `None` if the hardware has no model.
pub(super) fn row(
    row: &LeaderboardRow,
    slug: &str,
    (kernels, vendor): (Kernels, Vendor),
    picks: Option<PicksByProblem>,
) -> impl IntoView + use<> {
    let href = problem_page(&row.problem_id, slug, row.method);
    let kind = format::kind(&row.problem);
    let shown = shown(row, kernels);
    // If the problem has a single contributor, there is no mark. Hardware with one contributor
    // would have it in every row.
    let is_alone =
        row.unconfirmed && row.contributors > 1 && shown.is_some_and(|shown| shown.config == row.best);
    let mark = is_alone.then(
        || view! { <small class="hint"><Explained text="unconfirmed" why="One contributor alone has timed this config" /></small> },
    );
    let ties = shown.filter(|shown| !shown.config.is_library()).map(|_| format::count(row.triton_ties));
    let pick = picks.map(|picks| cell(row.problem_id.clone(), picks));
    view! {
        <tr>
            <td><a href=href>{row.problem.dims()}</a><small class="tight hint">{kind.clone()}</small></td>
            <td class="roomy">{kind}</td>
            <td class="mono">{format::or_dash(shown.map(|shown| format::kernel(&shown.config, &row.problem, vendor)))}{mark}</td>
            <td class="num">{format::or_dash(shown.map(|shown| format::time(shown.us)))}</td>
            <td class="num roomy">{format::or_dash(other(row, kernels).map(|other| format::time(other.us)))}</td>
            <RatioCell ratio=row.triton_over_library />
            <td class="num">{format::or_dash(shown.and_then(|shown| shown.tflops).map(format::three_digits))}</td>
            <td class="num">{format::or_dash(shown.and_then(|shown| shown.roofline_share).map(format::percent))}</td>
            <td class="num">{format::or_dash(shown.and_then(|shown| shown.gain_over_defaults).map(format::against))}</td>
            <td class="num dim roomy">{format::or_dash(shown.and_then(|shown| shown.spread).map(format::spread))}</td>
            <td class="num dim roomy">{format::or_dash(ties)}</td>
            {pick}
        </tr>
    }
}

/// The column by which the server sorts if a request names none.
const DEFAULT: LeaderboardSort = LeaderboardSort::Tflops;

/// A column of the board.
struct Column {
    text: String,
    why: String,
    class: &'static str,
    by: Option<LeaderboardSort>,
}

fn columns(kernels: Kernels, library: &'static str, with_picks: bool) -> Vec<Column> {
    let of = subject(kernels, library);
    let (config, other) = match kernels {
        Kernels::Triton => ("Best Triton config", library),
        Kernels::Library => ("Kernel", "Triton"),
        Kernels::Everything => ("Fastest", library),
    };
    let column = |text: &str, class: &'static str, by: Option<LeaderboardSort>, why: String| Column {
        text: text.to_owned(),
        why,
        class,
        by,
    };
    let fixed = |text: &str, class: &'static str, why: &str| column(text, class, None, why.to_owned());
    let sorted = |text: &str, by: LeaderboardSort, why: String| column(text, "num", Some(by), why);
    let mut columns = vec![
        column("M×N×K", "", Some(LeaderboardSort::Flops), "Sorted by the number of operations".to_owned()),
        fixed("Kind", "roomy", format::KIND),
        fixed(config, "", ""),
        sorted("Time", LeaderboardSort::Time, format!("Median time of the {of}")),
        fixed(other, "num roomy", ""),
        sorted(&format!("Triton vs {library}"), LeaderboardSort::Ratio, "How much longer the slower of the two takes; the bar goes right where Triton is faster, and is full from 25 %".to_owned()),
        sorted("TFLOP/s", LeaderboardSort::Tflops, format!("Rate of the {of}")),
        sorted("Roofline", LeaderboardSort::Roofline, format!("Roofline time / time of the {of}")),
        sorted("vs default", LeaderboardSort::Gain, format!("The {of} against the best of Inductor's default configs")),
        fixed("Spread", "num roomy", format::SPREAD),
        fixed("Ties", "num roomy", "Other Triton configs that are as fast to 1 %"),
    ];
    if with_picks {
        let why = "Fastest time of all / measured time of the model's first pick. The model may have been trained on the problem";
        columns.push(fixed("Pick", "num picks", why));
    }
    columns
}

impl Column {
    fn head(&self) -> AnyView {
        match self.by {
            Some(by) => view! { <Sortable text=self.text.clone() by class=self.class /> }.into_any(),
            None => view! { <th class=self.class>{self.text.clone()}</th> }.into_any(),
        }
    }
}

/// The server's default order for a column: short times first, but high values of everything else.
fn best_first(by: LeaderboardSort) -> SortOrder {
    if by == LeaderboardSort::Time { SortOrder::Ascending } else { SortOrder::Descending }
}

/// The head of a column by which the leaderboard can be sorted.
#[component]
fn Sortable(text: String, by: LeaderboardSort, class: &'static str) -> impl IntoView {
    let (sort, order) = (parameter("sort"), parameter("order"));
    let direction = Memo::new(move |_| {
        let sorted = sort.with(|sort| if sort.is_empty() { by == DEFAULT } else { sort == by.as_str() });
        sorted.then(|| order.get().parse().unwrap_or(best_first(by)))
    });
    let set = use_set_parameters();
    let flip = move |_| {
        let order = match direction.get_untracked() {
            Some(SortOrder::Descending) => SortOrder::Ascending,
            Some(SortOrder::Ascending) => SortOrder::Descending,
            None => best_first(by),
        };
        set(&[("sort", by.to_string()), ("order", order.to_string())], History::Push);
    };
    let aria_sort = move || {
        direction.get().map(|order| match order {
            SortOrder::Descending => "descending",
            SortOrder::Ascending => "ascending",
        })
    };
    view! {
        <th class=class aria-sort=aria_sort>
            <button type="button" class="sort" on:click=flip>{text}</button>
        </th>
    }
}

/// The picks that have arrived, by problem.
type PicksByProblem = RwSignal<HashMap<ProblemId, Pick>>;

/// Fetches the picks for some rows. If no answer comes, their cells stay empty.
pub(super) fn fetch(slug: &str, rows: &[LeaderboardRow], into: PicksByProblem) {
    let Some(first) = rows.first() else { return };
    for chunk in rows.chunks(MAX_PICKED) {
        let problems: Vec<&str> = chunk.iter().map(|row| row.problem_id.as_str()).collect();
        let parameters = [("method", first.method.to_string()), ("problems", problems.join(","))];
        let path = link(&format!("/hardware/{slug}/picks"), parameters);
        spawn_local(async move {
            if let Ok(picks) = api::get::<Picks>(&path).await {
                // The table may have left the page by now.
                into.try_update(|known| {
                    known.extend(picks.items.into_iter().map(|pick| (pick.problem_id.clone(), pick)));
                });
            }
        });
    }
}

/// The cell with the pick for one problem.
pub(super) fn cell(problem: ProblemId, picks: PicksByProblem) -> impl IntoView {
    let pick = Memo::new(move |_| picks.with(|picks| picks.get(&problem).cloned()));
    let shown = move || {
        let Some(Pick { config, share_of_best, .. }) = pick.get() else { return "–".into_any() };
        let text = share_of_best.map_or_else(|| "not timed".to_owned(), format::percent);
        view! { <Explained text why=format!("The model picks {}", config.label()) /> }.into_any()
    };
    view! { <td class="num" data-testid="pick">{shown}</td> }
}

/// `None` if the library was timed on no problem.
pub(super) fn verdict(comparison: &Comparison, library: &str) -> Option<impl IntoView + use<>> {
    let Comparison { problems, wins, ties, ratio } = *comparison;
    let speed = match ratio.map(format::against)? {
        tied if tied == "tied" => " On average the two are equally fast.".to_owned(),
        other => format!(" On average Triton is {other}."),
    };
    let ties = format!(" On {} the two are within 1\u{a0}%.{speed}", format::count(ties));
    let wins = format!(
        "Triton beats {library} on {} of {}.",
        format::count(wins),
        format::counted(problems, "problem")
    );
    Some(view! {
        <p class="verdict" data-testid="verdict"><strong>{wins}</strong> <span class="hint">{ties}</span></p>
    })
}
