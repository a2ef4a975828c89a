//! The messages between the parent and its measuring process. Each is a JSON document on one line,
//! and each request gets one reply.

use diode_core::{Config, FailureReason, Problem};
use serde::{Deserialize, Serialize};

/// What the parent sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Make the inputs of a problem. They replace the inputs of the previous problem.
    Load { problem: Problem, seed: u64 },
    /// Launch a config once to warm the caches, then `repeats` times for the times.
    Time {
        config: Config,
        repeats: u32,
        /// Compare the result with the reference after the first launch.
        check: bool,
        /// If the first launch takes longer than this, no other follows and its time counts.
        give_up_ns: Option<u64>,
    },
}

/// What the measuring process sends.
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
    /// The request made no sense. That is a mistake in the program and not in a config.
    Confused {
        message: String,
    },
}
