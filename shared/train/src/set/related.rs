//! Timings of other hardware beside a set's own.
//!
//! What makes a config fast is much the same on related GPUs, and the columns that a network reads hold
//! the hardware's facts. So a few problems of a new GPU go far beside many of a known one.

use std::collections::BTreeMap;

use diode_core::ids::HardwareSlug;
use diode_core::{Dataset, Problem};

use super::{TrainingProblem, TrainingSet};
use crate::TrainError;

impl TrainingSet {
    /// Adds timings of other hardware, taken by the set's method. They are learnt from with the facts of
    /// their own hardware; nothing is judged by them.
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

    /// Sets of other hardware that are learnt from.
    pub fn related(&self) -> &[Self] {
        &self.related
    }

    /// Every problem that is learnt from, with the set whose facts and method it goes by.
    pub(crate) fn learnt_from(&self) -> impl Iterator<Item = (&Self, &TrainingProblem)> {
        let own = self.iter().chain(self.others()).map(move |problem| (self, problem));
        own.chain(self.related.iter().flat_map(|set| set.iter().map(move |problem| (set, problem))))
    }

    /// The problems whose times by the set's method are learnt.
    pub(crate) fn predictable(&self) -> impl Iterator<Item = &Problem> {
        self.learnt_from()
            .filter(|(_, learnt)| learnt.method == self.method)
            .map(|(_, learnt)| &learnt.problem)
    }
}
