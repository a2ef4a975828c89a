//! First picks for the problems that are kept for judging.

use std::collections::BTreeMap;

use diode_api::{KeptReport, TopK};
use diode_core::stats::mean;
use diode_model::Predictor;

use super::baselines::{Baseline, Baselines, baselines};
use super::verdict::top_k;
use super::{Verdict, judge_while};
use crate::{TrainError, TrainingSet};

/// How near a model's first picks come to the best config, problem by problem.
#[derive(Debug, Clone)]
pub struct FirstPicks {
    verdicts: Vec<Verdict>,
    baselines: Baselines,
}

impl FirstPicks {
    /// The first picks for the problems of a set.
    pub fn of(model: &dyn Predictor, set: &TrainingSet) -> Result<Self, TrainError> {
        Self::of_while(model, set, &|| true)
    }

    /// Like [`Self::of`]. Asks `goes_on` before each problem and [stops](TrainError::Stopped) if it is false.
    pub fn of_while(
        model: &dyn Predictor,
        set: &TrainingSet,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Self, TrainError> {
        let judged = judge_while(model, set, goes_on)?;
        let verdicts = judged.iter().map(Verdict::of).collect();
        Ok(Self { verdicts, baselines: baselines(&judged, set, None)? })
    }

    /// For each problem, in the order of the set: the share of the best Triton config that the first pick
    /// reaches.
    pub fn shares(&self) -> Vec<f64> {
        self.triton()
    }

    /// The figures of all first picks; `None` if there are no picks.
    pub fn report(&self) -> Option<KeptReport> {
        let (triton, everything) = (self.triton(), self.everything());
        let of = |shares: &[f64]| (!shares.is_empty()).then(|| top_k(shares.iter().copied()));
        Some(KeptReport {
            problems: triton.len() as u64,
            triton: of(&triton)?,
            everything: of(&everything),
            timed_library: everything.len() as u64,
            baselines: self.without_a_model(|baseline| baseline.triton),
            baselines_of_everything: self.without_a_model(|baseline| baseline.with_library),
        })
    }

    /// How fast these picks are compared with another model's picks for the same problems: the geometric mean
    /// of the other's time / this model's time. It is above 1 if this model's picks are faster. The library
    /// is a candidate where it was timed, but not if only one of the models predicts its time: the other
    /// model would always get it.
    pub fn beside(&self, other: &Self) -> f64 {
        let share = |verdict: &Verdict, with_library: bool| {
            let everything = verdict.shares_with_library().filter(|_| with_library);
            everything.unwrap_or(verdict.shares())[0]
        };
        let ratio = |(own, other): (&Verdict, &Verdict)| {
            let same_rule = own.predicts_library() == other.predicts_library();
            (share(own, same_rule) / share(other, same_rule)).ln()
        };
        mean(self.verdicts.iter().zip(&other.verdicts).map(ratio)).exp()
    }

    fn without_a_model(&self, figure: fn(&Baseline) -> Option<TopK>) -> BTreeMap<String, TopK> {
        let figures = self.baselines.values().map(|one| Some((one.what.clone(), figure(one)?)));
        figures.flatten().collect()
    }

    fn triton(&self) -> Vec<f64> {
        self.verdicts.iter().map(|verdict| verdict.shares()[0]).collect()
    }

    fn everything(&self) -> Vec<f64> {
        self.verdicts.iter().filter_map(|verdict| Some(verdict.shares_with_library()?[0])).collect()
    }
}
