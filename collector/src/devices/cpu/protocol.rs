//! What the parent and its measuring process say to each other: one JSON document per line, one
//! reply to each request.

use diode_core::{Config, FailureReason, Problem};
use serde::{Deserialize, Serialize};

/// From the parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Make the inputs of a problem, in place of those of the problem before.
    Load { problem: Problem, seed: u64 },
    /// Launch a config once untimed, then `repeats` times.
    Time {
        config: Config,
        repeats: u32,
        /// Compare the result with the reference after the untimed launch.
        check: bool,
        /// If the untimed launch took longer than this, its time is the only one.
        give_up_ns: Option<u64>,
    },
}

/// From the measuring process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Loaded,
    Timed {
        nanos: Vec<u64>,
    },
    Failed {
        reason: FailureReason,
    },
    /// The request made no sense; a mistake in the program, not in a config.
    Confused {
        message: String,
    },
}
