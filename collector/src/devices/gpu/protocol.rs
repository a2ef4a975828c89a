//! What the parent and a GPU's measuring process say to each other, one JSON document per line.

use std::collections::BTreeMap;

use diode_core::{Config, FailureReason, Problem};
use serde::{Deserialize, Serialize};

/// A fact of the provenance and its one value: the pack's kernels serve only the sizes that they were built
/// for.
pub(crate) const KERNEL_SIZES: &str = "kernel_sizes";
pub(crate) const EXACT: &str = "exact";

/// From the parent.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) problem: Problem,
    pub(crate) configs: Vec<Config>,
    pub(crate) seed: u64,
    /// Launch one config at a time, so that a hang or a crash shows which config caused it.
    pub(crate) careful: bool,
}

/// From the measuring process: after a start one `Ready`, after a request any number of
/// `At` and `Busy`, and then one of the others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Ready {
        /// The GPU's name and the node's facts.
        name: String,
        /// What packs must be for.
        arch: String,
        /// What the management library knows the GPU by.
        bus_id: String,
        /// All of the GPU's memory.
        memory_bytes: u64,
        facts: BTreeMap<String, String>,
        /// How many GPUs the node has.
        devices: u32,
        /// What the user should know before hours of measuring.
        warnings: Vec<String>,
    },
    /// About to launch some configs for the first time: the first and the last of them, counted in the request.
    /// They are the same if it is one.
    At {
        first: usize,
        last: usize,
    },
    /// Still at it.
    Busy,
    Measured(Results),
    /// This problem cannot be measured here; the next may be.
    Refused {
        reason: String,
    },
    /// The inputs are too large for this GPU.
    OutOfMemory,
    /// The process can do nothing more and ends.
    Broken {
        message: String,
        cause: Cause,
    },
}

/// What ended a measuring process. It decides whether another process could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The GPU is of no more use to this process; another can go on.
    Gpu,
    /// Others hold the GPU's memory; the next problem may need less.
    Memory,
    /// The pack cannot be read: nothing can be measured with it.
    Pack,
    /// What the process was started with does not fit the node: somebody must change it first.
    Setup,
}

/// What became of a problem's configs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// Config, counted in the request, and its times in nanoseconds.
    pub(crate) timed: Vec<(usize, Vec<u64>)>,
    pub(crate) failed: Vec<(usize, FailureReason)>,
    /// How often the near-best configs had to be measured again because the GPU was disturbed.
    pub(crate) repeated: u32,
    /// They were still disturbed the last time.
    pub(crate) disturbed: bool,
    /// Nanoseconds that the GPU spent in kernels: those that were timed, those that flush its cache, make the
    /// inputs and compare results.
    pub(crate) busy_ns: u64,
    /// Nanoseconds from the request to the last result.
    pub(crate) wall_ns: u64,
    /// Launches that were timed again, since the GPU may have waited for them.
    pub(crate) late: u32,
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) celsius: Option<u32>,
    pub(crate) power_capped: bool,
}
