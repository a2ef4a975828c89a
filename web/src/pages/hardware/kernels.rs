//! The kernels that the leaderboard ranks: the switch between them, and what each row shows.

use diode_api::{KernelResult, Kernels, LeaderboardRow};
use leptos::prelude::*;

use crate::components::Chips;
use crate::query::{History, parameter, use_set_parameters};

/// The parameter of the page's address.
pub(super) const KEY: &str = "kernels";

/// Triton's configs are the main subject of the board, so they come first.
const DEFAULT: Kernels = Kernels::Triton;

/// The kernels that the address names. Unknown values fall back to the default here, because the server
/// refuses them.
pub(super) fn chosen() -> Memo<Kernels> {
    let text = parameter(KEY);
    Memo::new(move |_| text.with(|text| text.parse().unwrap_or(DEFAULT)))
}

/// The value of the API's parameter for a value in the address.
pub(super) fn asked_for(in_address: String) -> String {
    if in_address.is_empty() { DEFAULT.to_string() } else { in_address }
}

#[component]
pub(crate) fn KernelSwitch(
    /// The choice that applies if the address names none.
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

/// Words for the kernels whose times, rates and gains the board shows.
pub(super) fn subject(kernels: Kernels) -> &'static str {
    match kernels {
        Kernels::Triton => "best Triton config",
        Kernels::Library => "library kernel",
        Kernels::Everything => "best of Triton and library",
    }
}

/// The fastest of the chosen kernels for a row's problem.
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

/// The kernel to compare with: the library, or Triton's best if the board ranks the library.
pub(super) fn other(row: &LeaderboardRow, kernels: Kernels) -> Option<&KernelResult> {
    if kernels == Kernels::Library { row.triton.as_ref() } else { row.library.as_ref() }
}
