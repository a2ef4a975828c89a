//! Which kernels the leaderboard ranks: the switch, and what each row shows of them.

use diode_core::api::{KernelResult, Kernels, LeaderboardRow};
use leptos::prelude::*;

use crate::components::Chips;
use crate::query::{History, parameter, use_set_parameters};

/// The key of the page's address.
pub(super) const KEY: &str = "kernels";

/// What the board is about, so it comes first.
const DEFAULT: Kernels = Kernels::Triton;

/// The kernels that the address names. What it names wrongly is for the server to refuse.
pub(super) fn chosen() -> Memo<Kernels> {
    let text = parameter(KEY);
    Memo::new(move |_| text.with(|text| text.parse().unwrap_or(DEFAULT)))
}

/// The value for the server's own parameter.
pub(super) fn asked_for(in_address: String) -> String {
    if in_address.is_empty() { DEFAULT.to_string() } else { in_address }
}

#[component]
pub(crate) fn KernelSwitch(
    /// The choice when the address names none.
    #[prop(default = DEFAULT)]
    usual: Kernels,
) -> impl IntoView {
    let set = use_set_parameters();
    let choices = Kernels::ALL.iter().map(|kernels| (kernels.to_string(), name(*kernels).to_owned()));
    let named = parameter(KEY);
    let current =
        Signal::derive(move || named.with(|text| text.parse::<Kernels>().unwrap_or(usual).to_string()));
    let choose = move |value: String| {
        let value = if value == usual.as_str() { String::new() } else { value };
        set(&[(KEY, value)], History::Push);
    };
    view! { <Chips label="Show the best of" choices=choices.collect() current choose /> }
}

fn name(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => "Triton",
        Kernels::Library => "library",
        Kernels::Everything => "everything",
    }
}

/// What the times, rates and gains of the board are of.
pub(super) fn subject(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => "best Triton config",
        Kernels::Library => "library kernel",
        Kernels::Everything => "best of Triton and library",
    }
}

/// The best of the kernels on a row's problem.
pub(super) fn shown(row: &LeaderboardRow, kernels: Kernels) -> Option<&KernelResult> {
    let (triton, library) = (row.triton.as_ref(), row.library.as_ref());
    match kernels {
        Kernels::Triton => triton,
        Kernels::Library => library,
        Kernels::Everything => {
            [triton, library].into_iter().flatten().find(|result| result.config == row.best)
        }
    }
}

/// The kernels whose time stands beside: the library's, or Triton's beside the library's.
pub(super) fn other(row: &LeaderboardRow, kernels: Kernels) -> Option<&KernelResult> {
    if kernels == Kernels::Library { row.triton.as_ref() } else { row.library.as_ref() }
}
