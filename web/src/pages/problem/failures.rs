//! The configs without a time, with the reasons.

use diode_api::FailedConfig;
use diode_core::FailureReason;
use leptos::prelude::*;

use crate::format;

pub(super) fn failures(failures: &[FailedConfig]) -> Option<impl IntoView + use<>> {
    let groups = FailureReason::ALL.iter().filter_map(|reason| {
        let configs: Vec<String> = failures
            .iter()
            .filter(|failure| failure.reason == *reason)
            .map(|failure| failure.config.label())
            .collect();
        (!configs.is_empty()).then(|| {
            view! {
                <dt>{describe(*reason)} " (" {format::count(configs.len() as u64)} ")"</dt>
                <dd class="mono">{configs.join(", ")}</dd>
            }
        })
    });
    (!failures.is_empty()).then(|| {
        view! {
            <details class="card">
                <summary>{format::counted(failures.len() as u64, "config")} " failed"</summary>
                <dl class="failed">{groups.collect_view()}</dl>
            </details>
        }
    })
}

fn describe(reason: FailureReason) -> &'static str {
    match reason {
        FailureReason::OutOfResources => "Needs more shared memory, registers or threads than there are",
        FailureReason::Compile => "Refused by the compiler",
        FailureReason::Launch => "Failed to launch or to finish",
        FailureReason::WrongResult => "Computed something else",
        FailureReason::Timeout => "Ended by the watchdog",
        FailureReason::OutOfMemory => "Inputs did not fit in memory",
        FailureReason::NotFinite => "Imported without a finite time",
    }
}
