//! From predicted times to an order of configs.

use std::collections::BTreeMap;

use diode_core::space::Space;
use diode_core::{Config, ConfigFields, Micros, Problem};
use serde::{Deserialize, Serialize};

use crate::{Model, ModelError};

/// Every config of a space on one problem, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedSpace {
    pub configs: Vec<(Config, Micros)>,
}

/// The first configs of a ranking, as `diode predict --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Prediction {
    /// Best first.
    pub candidates: Vec<Candidate>,
    /// By how many of the first candidates are measured: the share of problems
    /// where their best was within 5 % of the best there is. From the model's
    /// evaluation, so it is the same for every problem; empty without one, and
    /// for kinds of problems that it says nothing about.
    pub within_5_percent: BTreeMap<String, f64>,
}

/// One config with its predicted time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Candidate {
    #[serde(flatten)]
    pub config: ConfigFields,
    pub predicted_us: f64,
}

/// Ranks a whole space. Equal times keep the order of the configs themselves, so
/// the ranking does not depend on how the space was listed.
pub fn rank(model: &Model, problem: &Problem, space: &Space) -> Result<RankedSpace, ModelError> {
    let configs = space.configs(&model.metadata().hardware, problem)?;
    let times = model.predict(problem, &configs)?;
    let bias = model.metadata().pick_bias;
    let mut ranked: Vec<(Config, Micros)> =
        configs.into_iter().zip(times.into_iter().map(|time| Micros(time.0 * bias))).collect();
    ranked.sort_unstable_by(|(a, a_time), (b, b_time)| a_time.0.total_cmp(&b_time.0).then_with(|| a.cmp(b)));
    Ok(RankedSpace { configs: ranked })
}

/// The `top` best configs of a space.
pub fn predict(
    model: &Model,
    problem: &Problem,
    space: &Space,
    top: usize,
) -> Result<Prediction, ModelError> {
    let ranked = rank(model, problem, space)?;
    let candidates = ranked
        .configs
        .into_iter()
        .take(top)
        .map(|(config, time)| Candidate { config: config.into(), predicted_us: time.0 })
        .collect();
    let evaluation = model.metadata().evaluation.as_ref().filter(|_| model.extrapolates(problem).is_none());
    let within_5_percent = evaluation.map(|e| e.within_5_percent.clone()).unwrap_or_default();
    Ok(Prediction { candidates, within_5_percent })
}
