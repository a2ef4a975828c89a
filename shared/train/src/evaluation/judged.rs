//! A model's predicted times beside the measured times.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Micros, Problem};
use diode_model::{MOST_PICKS, Predictor, RankedSpace, Shortlister};

use crate::{TrainError, TrainingProblem, TrainingSet};

/// One problem with its configs, in the order in which the model would pick them.
#[derive(Debug, Clone, PartialEq)]
pub struct Judged {
    pub problem: Problem,
    /// Never empty.
    pub rows: Vec<JudgedRow>,
    /// The shortlist, if the model has a rule for its picks.
    pub ranked: Option<RankedSpace>,
    /// The measured time of the library kernel.
    pub library_us: Option<f64>,
    /// How long predicting and sorting took, in µs.
    pub rank_us: f64,
}

/// One config with its predicted and its measured time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct JudgedRow {
    pub config: Config,
    /// The natural logarithm of the predicted time in µs.
    pub predicted_ln: f64,
    pub measured_us: f64,
}

impl JudgedRow {
    /// Infinite if a network with wrong inputs predicts more than a float can hold.
    pub fn predicted_us(&self) -> f64 {
        self.predicted_ln.exp()
    }

    /// Above 0 if the predicted time is too long.
    pub fn log_error(&self) -> f64 {
        self.predicted_ln - self.measured_us.ln()
    }
}

impl Judged {
    /// The shortest measured time among the first `picks` configs by predicted time.
    pub fn best_of(&self, picks: usize) -> f64 {
        self.rows.iter().take(picks).map(|row| row.measured_us).fold(f64::INFINITY, f64::min)
    }

    /// The fastest config that was measured.
    pub fn best(&self) -> &JudgedRow {
        let fastest = |a: &&JudgedRow, b: &&JudgedRow| a.measured_us.total_cmp(&b.measured_us);
        self.rows.iter().min_by(fastest).unwrap_or(&self.rows[0])
    }

    /// The shortest measured time among `picks` picks. They follow the model's rule if it has one and
    /// the shortlist is long enough. Otherwise they are the first configs by predicted time.
    pub fn picked(&self, picks: usize) -> f64 {
        match &self.ranked {
            Some(ranked) if picks <= MOST_PICKS => {
                let triton = RankedSpace::new(ranked.configs.clone(), None, 1.0);
                self.fastest_of(&triton.picks(picks))
            }
            _ => self.best_of(picks),
        }
    }

    /// The config that the model would pick among those that were measured, without the library, and its measured time.
    pub fn first(&self) -> (Config, f64) {
        let first = self.ranked.as_ref().and_then(|ranked| {
            let triton = RankedSpace::new(ranked.configs.clone(), None, 1.0);
            triton.picks(1).first().map(|(config, _)| *config)
        });
        let row = self.rows.iter().find(|row| Some(row.config) == first).unwrap_or(&self.rows[0]);
        (row.config, row.measured_us)
    }

    /// The shortest measured time among `picks` picks with the library kernel as a candidate, too: the best time of the picks, and the best time
    /// of everything. `None` if the library was not timed.
    ///
    /// A model that predicts the library's time picks the library like any config. With other models,
    /// the library is always timed beside the picks, as in Inductor.
    pub fn picked_with_library(&self, picks: usize) -> Option<(f64, f64)> {
        let library_us = self.library_us?;
        let best = self.best().measured_us.min(library_us);
        let picked = match &self.ranked {
            Some(ranked) if picks <= MOST_PICKS && self.predicts_library() => {
                self.fastest_of(&ranked.picks(picks))
            }
            _ => self.picked(picks).min(library_us),
        };
        Some((picked, best))
    }

    /// Whether the model predicts the time of the library kernel.
    pub fn predicts_library(&self) -> bool {
        self.ranked.as_ref().is_some_and(|ranked| ranked.library.is_some())
    }

    fn fastest_of(&self, picks: &[(Config, Micros)]) -> f64 {
        let measured = |config: &Config| match config {
            Config::Library | Config::RoundingLibrary => self.library_us,
            config => self.rows.iter().find(|row| row.config == *config).map(|row| row.measured_us),
        };
        picks.iter().filter_map(|(config, _)| measured(config)).fold(f64::INFINITY, f64::min)
    }
}

/// Predicts the time of every config of a set. Configs with equal predicted times stand in config
/// order, so that the measured order never decides.
pub fn judge(model: &dyn Predictor, set: &TrainingSet) -> Result<Vec<Judged>, TrainError> {
    judge_while(model, set, &|| true)
}

/// Judges like [`judge`]. Asks `goes_on` before each problem and [stops](TrainError::Stopped) if it
/// returns false.
pub(crate) fn judge_while(
    model: &dyn Predictor,
    set: &TrainingSet,
    goes_on: &dyn Fn() -> bool,
) -> Result<Vec<Judged>, TrainError> {
    let data = &set.hardware().slug;
    if let Some(hardware) = model.hardware().filter(|hardware| hardware.slug != *data) {
        return Err(TrainError::OtherHardware { model: hardware.slug.clone(), data: data.clone() });
    }
    let same_method = model.for_method(set.method());
    let mut judge = Judge::new(same_method.as_deref().unwrap_or(model));
    let next = |problem| if goes_on() { judge.judge(set, problem) } else { Err(TrainError::Stopped) };
    set.iter().map(next).collect()
}

/// Judges a model on one problem after the other.
pub struct Judge<'m> {
    model: &'m dyn Predictor,
    shortlister: Option<Box<dyn Shortlister + 'm>>,
}

impl<'m> Judge<'m> {
    pub fn new(model: &'m dyn Predictor) -> Self {
        Self { model, shortlister: model.shortlister() }
    }

    pub fn judge(&mut self, set: &TrainingSet, problem: &TrainingProblem) -> Result<Judged, TrainError> {
        let configs: Vec<Config> = set.configs(problem).copied().collect();
        let ranked = self.ranked(&problem.problem, &configs)?;
        let start = Instant::now();
        let predicted = self.model.predict_ln_us(&problem.problem, &configs)?;
        let mut rows: Vec<JudgedRow> = configs
            .into_iter()
            .zip(predicted)
            .zip(&problem.timings)
            .map(|((config, predicted_ln), timed)| JudgedRow { config, predicted_ln, measured_us: timed.us })
            .collect();
        rows.sort_unstable_by(|a, b| {
            a.predicted_ln.total_cmp(&b.predicted_ln).then_with(|| a.config.cmp(&b.config))
        });
        let took = ranked.as_ref().map_or_else(|| start.elapsed(), |&(_, took)| took);
        Ok(Judged {
            problem: problem.problem.clone(),
            rows,
            ranked: ranked.map(|(ranked, _)| ranked),
            library_us: problem.library_us,
            rank_us: took.as_secs_f64() * 1e6,
        })
    }

    /// The ranking of the measured configs by a model with a rule for picks, and how long it took.
    ///
    /// If these configs are more than half of the model's own space, the whole space is ranked, as
    /// for any user. Configs that failed have no measured time and are left out.
    fn ranked(
        &mut self,
        problem: &Problem,
        measured: &[Config],
    ) -> Result<Option<(RankedSpace, Duration)>, TrainError> {
        let Some(shortlister) = self.shortlister.as_mut() else { return Ok(None) };
        let list: BTreeSet<Config> = measured.iter().copied().collect();
        if let Some(hardware) = self.model.hardware() {
            let space = Space::Named(SpaceName::Full);
            let configs: BTreeSet<Config> = space.configs(hardware, problem)?.into_iter().collect();
            if list.is_subset(&configs) && 2 * list.len() > configs.len() {
                let start = Instant::now();
                let mut ranked = shortlister.shortlist(problem, &space)?;
                let took = start.elapsed();
                ranked.configs.retain(|(config, _)| list.contains(config));
                if ranked.configs.len() >= MOST_PICKS {
                    return Ok(Some((ranked, took)));
                }
            }
        }
        let space = Space::List(list.into_iter().collect());
        let start = Instant::now();
        let ranked = shortlister.shortlist(problem, &space)?;
        Ok(Some((ranked, start.elapsed())))
    }
}
