//! Timings of other hardware beside a set's own.
//!
//! Configs are fast for much the same reasons on related GPUs, and the network's inputs include the
//! hardware's facts. So a few problems of a new GPU suffice beside many problems of a known GPU.

use std::collections::BTreeMap;

use diode_core::ids::HardwareSlug;
use diode_core::{Dataset, Problem};

use super::{TrainingProblem, TrainingSet};
use crate::TrainError;

impl TrainingSet {
    /// Adds timings of other hardware by the set's method. Models learn from them with the facts of that
    /// hardware, but are not judged by them.
    pub fn with_related(mut self, datasets: Vec<Dataset>) -> Result<Self, TrainError> {
        let mut by_hardware: BTreeMap<HardwareSlug, Vec<Dataset>> = BTreeMap::new();
        for dataset in datasets {
            by_hardware.entry(dataset.hardware.slug.clone()).or_default().push(dataset);
        }
        for (slug, datasets) in by_hardware {
            if slug == self.hardware.slug {
                return Err(TrainError::RelatedIsTheSame { hardware: slug });
            }
            let mut related = Self::from_datasets(&datasets, Some(self.method))?;
            related.others.clear();
            self.related.push(related);
        }
        Ok(self)
    }

    /// The sets of other hardware.
    pub fn related(&self) -> &[Self] {
        &self.related
    }

    /// Every problem of the training, each with the set that has its facts and method.
    pub(crate) fn learnt_from(&self) -> impl Iterator<Item = (&Self, &TrainingProblem)> {
        let own = self.iter().chain(self.others()).map(move |problem| (self, problem));
        own.chain(self.related.iter().flat_map(|set| set.iter().map(move |problem| (set, problem))))
    }

    /// The problems whose times are by the set's own method.
    pub(crate) fn predictable(&self) -> impl Iterator<Item = &Problem> {
        self.learnt_from()
            .filter(|(_, learnt)| learnt.method == self.method)
            .map(|(_, learnt)| &learnt.problem)
    }
}
