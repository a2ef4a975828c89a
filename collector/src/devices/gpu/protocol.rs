//! The messages between the parent and a GPU's measuring process. Each is a JSON document on one line.

use std::collections::BTreeMap;

use diode_core::{Config, FailureReason, Problem};
use serde::{Deserialize, Serialize};

/// The name of a fact of the provenance, and below it the fact's only value. The fact says that the pack's
/// kernels serve only the sizes that they were built for.
pub(crate) const KERNEL_SIZES: &str = "kernel_sizes";
pub(crate) const EXACT: &str = "exact";

/// What the parent sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) problem: Problem,
    pub(crate) configs: Vec<Config>,
    pub(crate) seed: u64,
    /// Launch one config at a time, so that a hang or a crash shows which config caused it.
    pub(crate) careful: bool,
}

/// What the measuring process sends. After its start it sends one `Ready`. After a request it sends any number
/// of `At` and `Busy`, and then one of the other messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Ready {
        /// The GPU's name.
        name: String,
        /// The architecture that packs must be for.
        arch: String,
        /// The GPU's address, by which the management library finds it.
        bus_id: String,
        /// All of the GPU's memory, free or not.
        memory_bytes: u64,
        facts: BTreeMap<String, String>,
        /// How many GPUs the node has.
        devices: u32,
        /// What the user should know before measuring for hours.
        warnings: Vec<String>,
    },
    /// The process is about to launch some configs for the first time. `At` holds the places of the first and
    /// the last of them in the request. For a single config, both are its place.
    At {
        first: usize,
        last: usize,
    },
    /// The process is still working.
    Busy,
    Measured(Results),
    /// This problem cannot be measured here. The next problem may be.
    Refused {
        reason: String,
    },
    /// The inputs are too large for this GPU.
    OutOfMemory,
    /// The process can do nothing more and ends now.
    Broken {
        message: String,
        cause: Cause,
    },
}

/// What ended a measuring process. The cause decides whether another process could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The GPU is of no more use to this process. Another process can go on.
    Gpu,
    /// Other programs hold the GPU's memory. The next problem may need less.
    Memory,
    /// The pack cannot be read, so nothing can be measured with it.
    Pack,
    /// The process was started with settings that do not fit the node. Somebody must change them first.
    Setup,
}

/// The outcome for each config of a problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The configs' places in the request, and their times in nanoseconds.
    pub(crate) timed: Vec<(usize, Vec<u64>)>,
    pub(crate) failed: Vec<(usize, FailureReason)>,
    /// How often the near-best configs had to be measured again because the GPU was disturbed.
    pub(crate) repeated: u32,
    /// Whether the near-best configs were still disturbed the last time.
    pub(crate) disturbed: bool,
    /// Nanoseconds that the GPU spent in kernels. These are the timed kernels, and kernels that flush its
    /// cache, make the inputs and compare results.
    pub(crate) busy_ns: u64,
    /// Nanoseconds from the request to the last result.
    pub(crate) wall_ns: u64,
    /// How often a launch may have come too late and kept the GPU waiting. It is then timed again, a few times
    /// at most.
    pub(crate) late: u32,
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) celsius: Option<u32>,
    pub(crate) power_capped: bool,
}
