//! Ranks the lines of a list one after the other by one model.

use std::sync::Arc;

use diode_core::{Epilogue, Problem};
use diode_model::{Answer, Model, Question, Ranker};
use serde::{Deserialize, Serialize};

/// How many picks of each shape are kept: as many as in the server's tables.
const PICKS: usize = 5;

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

/// The result for one line.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    pub number: usize,
    pub outcome: Result<Answer, String>,
}

/// A model, and the settings that hold for all shapes.
#[derive(Debug)]
pub struct Ranking {
    ranker: Ranker<Arc<Model>>,
    question: Question<'static>,
}

impl Ranking {
    /// With `tf32`, configs round the float32 inputs of all lines to TF32.
    pub fn new(model: Arc<Model>, tf32: bool, epilogue: Epilogue) -> Self {
        let question = Question { picks: PICKS, tf32, epilogue, ..Question::default() };
        Self { ranker: Ranker::new(model), question }
    }

    pub fn row(&mut self, line: Line) -> Row {
        let Line { number, problem, tf32 } = line;
        let question = Question { tf32: self.question.tf32 || tf32, ..self.question };
        let answer = |problem| self.ranker.answer(&problem, &question).map_err(|error| error.to_string());
        Row { number, outcome: problem.and_then(answer) }
    }
}
