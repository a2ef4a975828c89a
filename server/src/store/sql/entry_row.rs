//! The columns of an entry.

use diode_core::Config;

use crate::consensus::{BoardEntry, KernelEntry};
use crate::solutions::Damaged;
use crate::store::fields::{from_json, unsigned};
use crate::store::from_row::from_row;

/// The columns of an entry, except the columns whose names are also in tables that queries join.
pub(super) const COLUMNS: &str = "best, best_ns, tflops, roofline_share, gain_over_defaults, \
    triton, triton_ns, triton_tflops, triton_roofline_share, triton_gain, triton_spread, triton_ties, \
    library_ns, library_tflops, library_roofline_share, library_gain, library_spread, triton_over_library, \
    configs, timings, solutions, contributors, best_contributors";

pub(super) struct EntryRow {
    best: String,
    best_ns: f64,
    tflops: Option<f64>,
    roofline_share: Option<f64>,
    gain_over_defaults: Option<f64>,
    triton: Option<String>,
    triton_ns: Option<f64>,
    triton_tflops: Option<f64>,
    triton_roofline_share: Option<f64>,
    triton_gain: Option<f64>,
    triton_spread: Option<f64>,
    triton_ties: i64,
    library_ns: Option<f64>,
    library_tflops: Option<f64>,
    library_roofline_share: Option<f64>,
    library_gain: Option<f64>,
    library_spread: Option<f64>,
    triton_over_library: Option<f64>,
    configs: i64,
    timings: i64,
    solutions: i64,
    contributors: i64,
    best_contributors: i64,
}

from_row!(EntryRow {
    best,
    best_ns,
    tflops,
    roofline_share,
    gain_over_defaults,
    triton,
    triton_ns,
    triton_tflops,
    triton_roofline_share,
    triton_gain,
    triton_spread,
    triton_ties,
    library_ns,
    library_tflops,
    library_roofline_share,
    library_gain,
    library_spread,
    triton_over_library,
    configs,
    timings,
    solutions,
    contributors,
    best_contributors
});

impl EntryRow {
    pub(super) fn entry(self) -> Result<BoardEntry, Damaged> {
        let triton: Option<Config> =
            self.triton.map(|config| from_json("Triton config", &config)).transpose()?;
        // The two are compared only if both round to TF32, or neither does.
        let are_alike = self.triton_over_library.is_some();
        let rounds = are_alike && triton.is_some_and(|config| config.rounds_to_tf32());
        Ok(BoardEntry {
            best: from_json("best config", &self.best)?,
            best_ns: self.best_ns,
            tflops: self.tflops,
            roofline_share: self.roofline_share,
            gain_over_defaults: self.gain_over_defaults,
            triton: triton.zip(self.triton_ns).map(|(config, ns)| KernelEntry {
                config,
                ns,
                tflops: self.triton_tflops,
                roofline_share: self.triton_roofline_share,
                gain_over_defaults: self.triton_gain,
                spread: self.triton_spread,
            }),
            library: self.library_ns.map(|ns| KernelEntry {
                config: Config::library(rounds),
                ns,
                tflops: self.library_tflops,
                roofline_share: self.library_roofline_share,
                gain_over_defaults: self.library_gain,
                spread: self.library_spread,
            }),
            triton_over_library: self.triton_over_library,
            triton_ties: unsigned("tie count", self.triton_ties)?,
            configs: unsigned("config count", self.configs)?,
            timings: unsigned("timing count", self.timings)?,
            solutions: unsigned("solution count", self.solutions)?,
            contributors: unsigned("contributor count", self.contributors)?,
            best_contributors: unsigned("contributor count", self.best_contributors)?,
        })
    }
}
