//! The predicted times of tiles: the mean over the networks of a model.

use diode_core::{Config, Tile};
use diode_numeric::{Effort, Predicted, PreparedTiles, fastest_first};

use crate::features::{ProblemFeatures, featured_tile};
use crate::ranker::MOST_PICKS;
use crate::{Model, ModelError};

/// A shortlist predicts the times of the scouts and of this many further blocks of tiles.
const SHORTLIST: Effort = Effort::Blocks(56);
/// The same if further networks put the best configs into another order anyway. More blocks do not bring the picks closer
/// to those of the whole space.
const SHORTLIST_FOR_SEVERAL: Effort = Effort::Blocks(40);
/// So many of the best configs of a shortlist get the mean of all networks. They are more than [`MOST_PICKS`], since
/// picks are not only near-copies of one config.
const AVERAGED: usize = 2 * MOST_PICKS;

/// Configs, prepared for the networks of a model.
#[derive(Debug, Clone)]
pub(crate) struct PreparedConfigs {
    of_network: PreparedTiles,
    /// Empty until every config's time is wanted.
    of_further: Vec<PreparedTiles>,
}

impl PreparedConfigs {
    pub(crate) fn new(model: &Model, features: &ProblemFeatures, tiles: &[&Tile]) -> Self {
        Self { of_network: model.network().prepare(features, tiles), of_further: Vec::new() }
    }

    /// The predicted time of every config, in no particular order.
    pub(crate) fn all(
        &mut self,
        model: &Model,
        features: &ProblemFeatures,
        configs: &[Config],
    ) -> Result<Vec<Predicted>, ModelError> {
        if self.of_further.is_empty() {
            let tiles = configs.iter().map(featured_tile).collect::<Result<Vec<_>, _>>()?;
            self.of_further = model.networks().skip(1).map(|one| one.prepare(features, &tiles)).collect();
        }
        let mut means =
            Means::new(configs, self.of_network.predict(model.network().dense(), features, Effort::All));
        for (network, prepared) in model.networks().skip(1).zip(&self.of_further) {
            means.add(prepared.predict(network.dense(), features, Effort::All).into_iter());
        }
        means.finish()
    }

    /// The predicted times of some configs, in no particular order. The best [`MOST_PICKS`] are among them.
    ///
    /// If the model has further networks, these are the only ones: the network finds them, and all networks
    /// predict their times.
    pub(crate) fn shortlist(
        &self,
        model: &Model,
        features: &ProblemFeatures,
        configs: &[Config],
    ) -> Result<Vec<Predicted>, ModelError> {
        let are_several = model.networks().nth(1).is_some();
        let effort = if are_several { SHORTLIST_FOR_SEVERAL } else { SHORTLIST };
        let mut found = self.of_network.predict(model.network().dense(), features, effort);
        if are_several {
            fastest_first(&mut found);
            found.truncate(AVERAGED);
        }
        let places: Vec<usize> = found.iter().map(|one| one.tile).collect();
        let tiles = places.iter().map(|&at| featured_tile(&configs[at])).collect::<Result<Vec<_>, _>>()?;
        let mut means = Means::new(configs, found);
        for network in model.networks().skip(1) {
            let prepared = network.prepare_all_wanted(features, &tiles);
            let predicted = prepared.predict(network.dense(), features, Effort::All);
            means.add(predicted.into_iter().map(|one| Predicted { tile: places[one.tile], ..one }));
        }
        means.finish()
    }
}

/// Adds up the predictions of several networks.
struct Means<'a> {
    configs: &'a [Config],
    networks: f64,
    first: Vec<Predicted>,
    /// For each config, the sum of its predicted times' logarithms.
    sums: Vec<f64>,
}

impl<'a> Means<'a> {
    fn new(configs: &'a [Config], first: Vec<Predicted>) -> Self {
        Self { configs, networks: 1.0, first, sums: Vec::new() }
    }

    /// Adds the times that another network predicts for the same configs.
    fn add(&mut self, predicted: impl Iterator<Item = Predicted>) {
        if self.sums.is_empty() {
            self.sums = vec![0.0; self.configs.len()];
            for one in &self.first {
                self.sums[one.tile] = libm::log(one.us);
            }
        }
        for one in predicted {
            self.sums[one.tile] += libm::log(one.us);
        }
        self.networks += 1.0;
    }

    /// The geometric means, or the times of the only network.
    fn finish(mut self) -> Result<Vec<Predicted>, ModelError> {
        if !self.sums.is_empty() {
            for one in &mut self.first {
                one.us = libm::exp(self.sums[one.tile] / self.networks);
            }
        }
        match self.first.iter().find(|one| !one.us.is_finite()) {
            Some(one) => Err(ModelError::NotFinite { label: self.configs[one.tile].label() }),
            None => Ok(self.first),
        }
    }
}
