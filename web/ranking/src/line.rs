//! The lines of a list, and the results for them.

use diode_core::Problem;
use diode_model::epilogue::{Verdict, Weighed};
use serde::{Deserialize, Serialize};

/// One line of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Line {
    /// Counted from 1, as in editors.
    pub number: usize,
    /// The problem, or why the line is invalid.
    pub problem: Result<Problem, String>,
    /// Whether the line itself asks for TF32.
    pub tf32: bool,
}

impl Line {
    /// A line that does not ask for TF32.
    pub fn new(number: usize, problem: Result<Problem, String>) -> Self {
        Self { number, problem, tf32: false }
    }
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
    /// The first pick other than the library kernel.
    pub fn triton(&self) -> Option<&Weighed> {
        self.picks.iter().find(|pick| !pick.config.is_library())
    }

    /// The library's predicted time / the time of the first Triton pick.
    pub fn triton_over_library(&self) -> Option<f64> {
        Some(self.library?.total().0 / self.triton()?.total().0)
    }

    /// Whether the library is the first pick.
    pub fn picks_library(&self) -> bool {
        self.picks.first().is_some_and(|pick| pick.config.is_library())
    }
}

/// The result for one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub number: usize,
    pub outcome: Result<Ranked, String>,
}
