//! The head of the leaderboard: what can be sorted by.

use diode_core::api::{LeaderboardSort, SortOrder};
use leptos::prelude::*;

use crate::query::{History, parameter, use_set_parameters};

/// What the server sorts by where a request does not say.
const DEFAULT: LeaderboardSort = LeaderboardSort::Tflops;

#[component]
pub(super) fn Columns(with_library: bool) -> impl IntoView {
    view! {
        <tr>
            <Sortable text="M×N×K" by=LeaderboardSort::Flops title="Sort by the size of the problem" />
            <th class="roomy">"Op"</th>
            <th class="roomy">"Dtype"</th>
            <th>"Best config"</th>
            <Sortable text="Time" by=LeaderboardSort::Time title="Time of the best config" number=true />
            <Sortable text="TFLOP/s" by=LeaderboardSort::Tflops title="Rate of the best config" number=true />
            <Sortable text="Roofline" by=LeaderboardSort::Roofline title="Roofline time / best time" number=true />
            <Sortable text="Gain" by=LeaderboardSort::Gain title="Best of Inductor's default configs / best" number=true />
            {with_library.then(|| view! { <th class="num" title="Time of the library kernel">"Library"</th> })}
            <th class="num" title="Distinct configs timed">"Configs"</th>
        </tr>
    }
}

/// The order where a request does not say, as the server has it: short times first, and high values of
/// everything else.
fn best_first(by: LeaderboardSort) -> SortOrder {
    if by == LeaderboardSort::Time { SortOrder::Ascending } else { SortOrder::Descending }
}

/// The head of a column that the leaderboard can be sorted by.
#[component]
fn Sortable(
    text: &'static str,
    by: LeaderboardSort,
    title: &'static str,
    #[prop(optional)] number: bool,
) -> impl IntoView {
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
        <th class:num=number aria-sort=aria_sort title=title>
            <button type="button" class="sort" on:click=flip>{text}</button>
        </th>
    }
}
