//! Questions that read much of the data at once: comparisons, contributors, coming work.

use diode_api::TimedConfig;
use diode_core::ids::HardwareSlug;
use diode_core::{Nanos, Problem};

/// What passes a filter, or an even sample of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Sample<T> {
    /// How many pass the filter in all.
    pub total: u64,
    pub items: Vec<T>,
}

/// A problem that was measured on two sides, with the best config of each.
#[derive(Debug, Clone, PartialEq)]
pub struct Pair {
    pub problem: Problem,
    pub a: TimedConfig,
    pub b: TimedConfig,
}

/// A problem on which nobody is faster than a contributor.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    pub hardware: HardwareSlug,
    pub problem: Problem,
    /// The contributor's best time.
    pub time: Nanos,
    /// How many contributors have timed the board's best config.
    pub contributors: u64,
}
