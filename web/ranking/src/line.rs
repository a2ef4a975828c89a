//! What a list asks, and what is said of it.

use diode_core::{Config, Problem};
use diode_model::epilogue::{Verdict, Weighed};
use serde::{Deserialize, Serialize};

/// What one line of a list says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// From 1, as editors count.
    pub number: usize,
    /// The problem, or what is wrong with the line.
    pub problem: Result<Problem, String>,
}

/// What is predicted for one shape.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Ranked {
    pub problem: Problem,
    /// The picks, the best first.
    pub picks: Vec<Weighed>,
    pub library: Option<Weighed>,
    /// With an epilogue that is counted.
    pub verdict: Option<Verdict>,
    /// What is wrong with the times.
    pub caveat: Option<String>,
}

impl Ranked {
    /// The first pick that is no library kernel, and its predicted time in microseconds.
    pub fn triton(&self) -> Option<(Config, f64)> {
        let first = self.picks.iter().find(|pick| !pick.config.is_library())?;
        Some((first.config, first.total().0))
    }
}

/// The outcome of one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub number: usize,
    pub outcome: Result<Ranked, String>,
}
