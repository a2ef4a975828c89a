//! From predicted times to an order of configs, and to picks.

use std::collections::BTreeMap;

use diode_core::space::Space;
use diode_core::{Config, ConfigFields, Micros, Problem, ProblemGroup};
use serde::{Deserialize, Serialize};

use crate::picks::diverse;
use crate::ranker::Ranker;
use crate::{Model, ModelError};

/// As many picks are made from a shortlist of the space, more from all of it.
pub const MOST_PICKS: usize = 16;

/// The configs of a space on one problem, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedSpace {
    pub configs: Vec<(Config, Micros)>,
    /// How many there were to choose from.
    pub considered: usize,
    /// The predicted time of the vendor's library, from models that predict it.
    pub library: Option<Micros>,
    /// What that time is multiplied by when a pick is made.
    library_handicap: f64,
}

/// The first configs of a ranking, as `diode predict --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// By how many of the first candidates are measured: the share of problems of this
    /// group where their best was within 5 % of the best there is. From problems that the
    /// model was not trained on; empty where nobody has measured it, as for
    /// kinds of problems that the model never saw.
    pub within_5_percent: BTreeMap<String, f64>,
    /// What the problem was counted as for that.
    pub group: ProblemGroup,
    /// Between what times the first candidate's measured time was, for four problems in five of the group.
    pub first_candidate_us: Option<(f64, f64)>,
    /// Why the prediction is a guess: what the model never saw anything like.
    pub outside_training_range: Option<String>,
}

/// One config with its predicted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    #[serde(flatten)]
    pub config: ConfigFields,
    pub predicted_us: f64,
}

impl RankedSpace {
    /// From configs in order, and the library's predicted time with what it is multiplied by when a pick is made.
    pub fn new(configs: Vec<(Config, Micros)>, library: Option<Micros>, library_handicap: f64) -> Self {
        Self { considered: configs.len(), configs, library, library_handicap }
    }

    /// So many picks to measure, best first: not only near-copies of the first, and among
    /// them the library where it may be the best of all.
    ///
    /// See `docs/guides/models.md` for the rule and what it gains.
    pub fn picks(&self, count: usize) -> Vec<(Config, Micros)> {
        let Some(library) = self.library else { return diverse(&self.configs, count) };
        let counts_for = |&(config, time): &(Config, Micros)| {
            time.0 * if config == Config::Library { self.library_handicap } else { 1.0 }
        };
        let best = self.configs.first().map_or(f64::INFINITY, |(_, time)| time.0);
        let library = (Config::Library, library);
        // One pick is the likeliest; of several, one is worth spending on the library unless it is far off.
        let reach = if count == 1 { 1.0 } else { LIBRARY_REACH };
        if counts_for(&library) >= best * reach || count == 0 {
            return diverse(&self.configs, count);
        }
        let mut picks = diverse(&self.configs, count - 1);
        picks.push(library);
        picks.sort_by(|a, b| counts_for(a).total_cmp(&counts_for(b)));
        picks
    }
}

/// How much slower than the best config the library may be predicted to be and still be one of
/// several picks.
const LIBRARY_REACH: f64 = 1.3;

/// Ranks a whole space for one problem; a [`Ranker`] does it for many.
pub fn rank(model: &Model, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
    Ranker::new(model).rank(problem, space)
}

/// Ranks a space for each of many problems.
pub fn rank_all(model: &Model, problems: &[Problem], space: &Space) -> Result<Vec<RankedSpace>, ModelError> {
    let mut ranker = Ranker::new(model);
    problems.iter().map(|problem| ranker.rank(problem, space)).collect()
}

/// The `top` picks of a space.
pub fn predict(
    model: &Model,
    problem: &Problem,
    space: &Space,
    top: usize,
) -> Result<Prediction, ModelError> {
    let mut ranker = Ranker::new(model);
    let ranked =
        if top <= MOST_PICKS { ranker.shortlist(problem, space) } else { ranker.rank(problem, space) };
    let picks = ranked?.picks(top);
    let candidates: Vec<Candidate> = picks
        .into_iter()
        .map(|(config, time)| Candidate { config: config.into(), predicted_us: time.0 })
        .collect();
    // Measured of picks from the model's own space; what another one lacks nobody has counted.
    let confidence = model.confidence(problem).filter(|_| *space == model.space());
    let shares = confidence.map(|known| known.within_5_percent.as_slice()).unwrap_or_default();
    let first = candidates.first().map(|candidate| candidate.predicted_us);
    Ok(Prediction {
        within_5_percent: shares.iter().map(|(picks, share)| (picks.to_string(), *share)).collect(),
        group: ProblemGroup::of(problem),
        first_candidate_us: confidence
            .zip(first)
            .map(|(known, us)| (us * known.time_range.0, us * known.time_range.1)),
        outside_training_range: model.extrapolates(problem),
        candidates,
    })
}
