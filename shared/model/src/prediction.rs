//! The predicted times of some configs, and the best of a space.

use std::collections::BTreeMap;

use diode_core::space::Space;
use diode_core::{Config, ConfigFields, Epilogue, Micros, Problem, ProblemGroup};
use serde::{Deserialize, Serialize};

use crate::epilogue::{Decision, Verdict, Weighed};
use crate::features::featured_tile;
use crate::mean::PreparedConfigs;
use crate::ranker::{MOST_PICKS, Ranker, rank};
use crate::{Model, ModelError};

/// The first configs of a ranking, in the form that `diode predict --json` prints.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// The best config stands first.
    pub candidates: Vec<Candidate>,
    /// For each number of first candidates: the share of this group's problems for which the best of these
    /// candidates was within 5 % of the best config. It was measured on problems that the model was not
    /// trained on. Empty if it was not measured, as for kinds of problems that the training data lack.
    pub within_5_percent: BTreeMap<String, f64>,
    /// The group of the problem.
    pub group: ProblemGroup,
    /// For four problems in five of the group, the measured time of the first candidate lies in this range.
    pub first_candidate_us: Option<(f64, f64)>,
    /// Why the prediction is an extrapolation, if it is one.
    pub outside_training_range: Option<String>,
    /// The verdict about an epilogue, if its costs on the hardware are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilogue: Option<Verdict>,
}

/// One config with its predicted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    #[serde(flatten)]
    pub config: ConfigFields,
    /// The time of the multiplication alone.
    pub predicted_us: f64,
    /// The time that the epilogue adds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epilogue_us: Option<f64>,
}

/// The candidates of the decision if there is one, otherwise the picks.
pub fn candidates(decision: Option<&Decision>, picks: Vec<(Config, Micros)>, top: usize) -> Vec<Candidate> {
    match decision {
        Some(decision) => decision.best_first.iter().take(top).map(Candidate::from).collect(),
        None => picks.into_iter().map(Candidate::from).collect(),
    }
}

impl From<(Config, Micros)> for Candidate {
    fn from((config, time): (Config, Micros)) -> Self {
        Self { config: config.into(), predicted_us: time.0, epilogue_us: None }
    }
}

impl From<&Weighed> for Candidate {
    fn from(one: &Weighed) -> Self {
        let predicted_us = one.alone.0;
        Self { config: one.config.into(), predicted_us, epilogue_us: Some(one.following.0) }
    }
}

/// The `top` picks of a space. The epilogue counts.
pub fn predict(
    model: &Model,
    problem: &Problem,
    space: &Space,
    top: usize,
    epilogue: Epilogue,
) -> Result<Prediction, ModelError> {
    let mut ranker = Ranker::new(model);
    let ranked =
        if top <= MOST_PICKS { ranker.shortlist(problem, space) } else { ranker.rank(problem, space) };
    let ranked = ranked?;
    let decision = Decision::of(&ranked, &model.metadata().hardware, problem, epilogue, top);
    let candidates = candidates(decision.as_ref(), ranked.picks(top), top);
    // The confidence was measured for picks from the model's own space and without an epilogue. So it is
    // stated for no other picks. Picks that round to TF32 were judged only if the library was known there.
    let own = if ranked.rounds() { model.rounding_space(problem)? } else { model.space() };
    let is_judged = !ranked.rounds() || model.knows_library(true);
    let is_measured = *space == own && is_judged && !ranked.bounded && decision.is_none();
    let confidence = model.confidence(problem).filter(|_| is_measured);
    let shares = confidence.map(|known| known.within_5_percent.as_slice()).unwrap_or_default();
    let first = candidates.first().map(|candidate| candidate.predicted_us);
    Ok(Prediction {
        within_5_percent: shares.iter().map(|(picks, share)| (picks.to_string(), *share)).collect(),
        group: ProblemGroup::of(problem),
        first_candidate_us: confidence
            .zip(first)
            .map(|(known, us)| (us * known.time_range.0, us * known.time_range.1)),
        outside_training_range: model.caveat(problem, &ranked),
        epilogue: decision.map(|decision| decision.verdict),
        candidates,
    })
}

impl Model {
    /// The predicted time of each config. [`rank`] also corrects for the bias of picking the best.
    ///
    /// The library may be among the configs if the model predicts it.
    pub fn predict(&self, problem: &Problem, configs: &[Config]) -> Result<Vec<Micros>, ModelError> {
        let features = self.features(problem)?;
        configs.iter().try_for_each(Config::validate)?;
        let is_library = |config: &&Config| config.is_library() && self.knows_library(config.rounds(problem));
        let tiled: Vec<Config> = configs.iter().filter(|config| !is_library(config)).copied().collect();
        let tiles = tiled.iter().map(featured_tile).collect::<Result<Vec<_>, _>>()?;
        let mut prepared = PreparedConfigs::new(self, &features, &tiles);
        let mut predicted = vec![Micros(0.0); tiled.len()];
        for one in prepared.all(self, &features, &tiled)? {
            predicted[one.tile] = Micros(one.us);
        }
        if tiled.len() == configs.len() {
            return Ok(predicted);
        }
        let mut predicted = predicted.into_iter();
        let mut times = Vec::with_capacity(configs.len());
        for config in configs {
            let time = if is_library(&config) {
                let rounds = config.rounds(problem);
                let space = if rounds { self.rounding_space(problem)? } else { self.space() };
                rank(self, problem, &space)?.library
            } else {
                predicted.next()
            };
            times.extend(time);
        }
        Ok(times)
    }
}
