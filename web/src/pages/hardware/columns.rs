//! The head of the leaderboard: what can be sorted by.

use diode_core::api::{LeaderboardSort, SortOrder};
use leptos::prelude::*;

use crate::query::{History, parameter, use_set_parameters};

/// What the server sorts by unless asked otherwise.
const DEFAULT: LeaderboardSort = LeaderboardSort::Tflops;

pub(super) fn columns(with_library: bool) -> impl IntoView {
    view! {
        <tr>
            {sortable("M×N×K", LeaderboardSort::Flops, "Sort by the size of the problem", false)}
            <th class="roomy">"Op"</th>
            <th class="roomy">"Dtype"</th>
            <th>"Best config"</th>
            {sortable("Time", LeaderboardSort::Time, "Time of the best config", true)}
            {sortable("TFLOP/s", LeaderboardSort::Tflops, "Rate of the best config", true)}
            {sortable("Roofline", LeaderboardSort::Roofline, "Roofline time / best time", true)}
            {sortable("Gain", LeaderboardSort::Gain, "Best of Inductor's default configs / best", true)}
            {with_library.then(|| view! { <th class="num" title="Time of the library kernel">"Library"</th> })}
            <th class="num" title="Distinct configs timed">"Configs"</th>
        </tr>
    }
}

fn sortable(text: &'static str, by: LeaderboardSort, title: &'static str, number: bool) -> impl IntoView {
    let (sort, order) = (parameter("sort"), parameter("order"));
    let direction = Memo::new(move |_| {
        let sorted = sort.with(|sort| if sort.is_empty() { by == DEFAULT } else { sort == by.as_str() });
        sorted.then(|| order.get().parse().unwrap_or(SortOrder::Descending))
    });
    let set = use_set_parameters();
    let flip = move |_| {
        let order = match direction.get_untracked() {
            Some(SortOrder::Descending) => SortOrder::Ascending,
            Some(SortOrder::Ascending) => SortOrder::Descending,
            // Short times are the interesting ones, of all else the large.
            None if by == LeaderboardSort::Time => SortOrder::Ascending,
            None => SortOrder::Descending,
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
