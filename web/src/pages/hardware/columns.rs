//! The head of the leaderboard. A press on a column sorts by it.

use diode_core::api::{Kernels, LeaderboardSort, SortOrder};
use leptos::prelude::*;

use super::kernels::subject;
use crate::query::{History, parameter, use_set_parameters};

/// The column by which the server sorts if a request names none.
const DEFAULT: LeaderboardSort = LeaderboardSort::Tflops;

#[component]
pub(super) fn Columns(kernels: Kernels, with_picks: bool) -> impl IntoView {
    let of = subject(kernels);
    let (config, other) = match kernels {
        Kernels::Triton => ("Best Triton config", "Library"),
        Kernels::Library => ("Kernel", "Triton"),
        Kernels::Everything => ("Best config", "Library"),
    };
    let other_title = if kernels == Kernels::Library { "best Triton config" } else { "library kernel" };
    let picks = with_picks.then(|| {
        let title = "Best time of everything / measured time of the model's first pick. The model may have been trained on the problem";
        view! { <th class="num" title=title>"Pick"</th> }
    });
    view! {
        <tr>
            <Sortable text="M×N×K" by=LeaderboardSort::Flops title="Sort by the size of the problem".to_owned() />
            <th class="roomy">"Op"</th>
            <th class="roomy">"Dtype"</th>
            <th>{config}</th>
            <Sortable text="Time" by=LeaderboardSort::Time title=format!("Time of the {of}") number=true />
            <th class="num roomy" title="Half the interquartile range of the repeats / time">"Spread"</th>
            <th class="num roomy" title="Other Triton configs that are as fast to 1 %">"Ties"</th>
            <Sortable text="TFLOP/s" by=LeaderboardSort::Tflops title=format!("Rate of the {of}") number=true />
            <Sortable text="Roofline" by=LeaderboardSort::Roofline title=format!("Roofline time / time of the {of}") number=true />
            <Sortable
                text="÷ defaults"
                by=LeaderboardSort::Gain
                title=format!("Speed relative to Inductor's default configs: time of the best of them / time of the {of}")
                number=true
            />
            <th class="num" title=format!("Time of the {other_title}")>{other}</th>
            <Sortable
                text="Triton ÷ library"
                by=LeaderboardSort::Ratio
                title="Speed of the best Triton config relative to the library: library time / Triton time. The bar goes right where Triton is faster".to_owned()
                number=true
            />
            {picks}
        </tr>
    }
}

/// The server's default order for a column: short times first, but high values of everything else.
fn best_first(by: LeaderboardSort) -> SortOrder {
    if by == LeaderboardSort::Time { SortOrder::Ascending } else { SortOrder::Descending }
}

/// The head of a column by which the leaderboard can be sorted.
#[component]
fn Sortable(
    text: &'static str,
    by: LeaderboardSort,
    title: String,
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
