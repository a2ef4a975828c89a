//! The head of the leaderboard. A press on a column sorts by it.

use diode_api::{Kernels, LeaderboardSort, SortOrder};
use leptos::prelude::*;

use super::kernels::subject;
use crate::components::Explained;
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
    let other_subject = if kernels == Kernels::Library { "best Triton config" } else { "library kernel" };
    let picks = with_picks.then(|| {
        let why = "Best time of everything / measured time of the model's first pick. The model may have been trained on the problem";
        view! { <th class="num"><Explained text="Pick" why /></th> }
    });
    view! {
        <tr>
            <Sortable text="M×N×K" by=LeaderboardSort::Flops why="Sorted by the number of operations".to_owned() />
            <th class="roomy">"Op"</th>
            <th class="roomy">"Dtype"</th>
            <th>{config}</th>
            <Sortable text="Time" by=LeaderboardSort::Time why=format!("Time of the {of}") number=true />
            <th class="num roomy"><Explained text="Spread" why="Half the interquartile range of the repeats / time" /></th>
            <th class="num roomy"><Explained text="Ties" why="Other Triton configs that are as fast to 1 %" /></th>
            <Sortable text="TFLOP/s" by=LeaderboardSort::Tflops why=format!("Rate of the {of}") number=true />
            <Sortable text="Roofline" by=LeaderboardSort::Roofline why=format!("Roofline time / time of the {of}") number=true />
            <Sortable
                text="÷ defaults"
                by=LeaderboardSort::Gain
                why=format!("Speed relative to Inductor's default configs: time of the best of them / time of the {of}")
                number=true
            />
            <th class="num"><Explained text=other why=format!("Time of the {other_subject}") /></th>
            <Sortable
                text="Triton ÷ library"
                by=LeaderboardSort::Ratio
                why="Speed of the best Triton config relative to the library: library time / Triton time. The bar goes right where Triton is faster".to_owned()
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
    why: String,
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
        <th class:num=number aria-sort=aria_sort>
            <button type="button" class="sort" on:click=flip>{text}</button>
            <Explained text="?" why about=format!("What is {text}?") />
        </th>
    }
}
