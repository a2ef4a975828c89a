//! Ranks lines one after the other by one model.

use std::sync::Arc;

use diode_core::hardware::fits;
use diode_core::{Epilogue, Problem};
use diode_model::{Model, Ranker};

use crate::{Line, Ranked, Row, followed, shortlist};

/// How many picks of each shape are kept: as many as in the server's tables.
const PICKS: usize = 5;

/// A model, and the settings that hold for all shapes.
#[derive(Debug)]
pub struct Ranking {
    model: Arc<Model>,
    ranker: Ranker<Arc<Model>>,
    tf32: bool,
    epilogue: Epilogue,
}

impl Ranking {
    /// With `tf32`, configs round the float32 inputs of all lines to TF32.
    pub fn new(model: Arc<Model>, tf32: bool, epilogue: Epilogue) -> Self {
        Self { ranker: Ranker::new(Arc::clone(&model)), model, tf32, epilogue }
    }

    pub fn row(&mut self, line: Line) -> Row {
        let Line { number, problem, tf32 } = line;
        Row { number, outcome: problem.and_then(|problem| self.ranked(problem, tf32)) }
    }

    fn ranked(&mut self, problem: Problem, tf32: bool) -> Result<Ranked, String> {
        let tf32 = self.tf32 || tf32;
        let Self { model, ranker, epilogue, .. } = self;
        let hardware = &model.metadata().hardware;
        fits(hardware, &problem).map_err(|error| error.to_string())?;
        let ranked = shortlist(model, ranker, &problem, tf32).map_err(|error| error.to_string())?;
        let (picks, library, verdict) = followed(&ranked, hardware, &problem, *epilogue, PICKS);
        let caveat = model.caveat(&problem, &ranked);
        Ok(Ranked { problem, picks, library, verdict, caveat })
    }
}
