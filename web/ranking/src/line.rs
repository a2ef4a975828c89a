//! The lines of a list, and the results for them.

use diode_core::{Config, Problem};
use diode_model::epilogue::{Verdict, Weighed};
use serde::{Deserialize, Serialize};

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Counted from 1, as in editors.
    pub number: usize,
    /// The problem, or why the line is invalid.
    pub problem: Result<Problem, String>,
}

/// The prediction for one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    pub problem: Problem,
    /// The picks, the best first.
    pub picks: Vec<Weighed>,
    pub library: Option<Weighed>,
    /// `None` without an epilogue, or if its costs are unknown.
    pub verdict: Option<Verdict>,
    /// A reason to doubt the predicted times.
    pub caveat: Option<String>,
}

impl Ranked {
    /// The first pick other than the library kernel, and its predicted time in microseconds.
    pub fn triton(&self) -> Option<(Config, f64)> {
        let first = self.picks.iter().find(|pick| !pick.config.is_library())?;
        Some((first.config, first.total().0))
    }
}

/// The result for one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub number: usize,
    pub outcome: Result<Ranked, String>,
}
