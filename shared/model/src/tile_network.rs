//! A network for tiles, and what it has learnt about single tiles.
//!
//! The features do not say everything about a kernel, such as how many registers the compiler needs for it.
//! So a network may have some values of its own for each tile that it has learnt from. They are its last
//! inputs. For all other tiles these inputs are 0.

use diode_core::{Config, Tile};
use diode_numeric::{Effort, Network, Predicted, PreparedTiles, fastest_first, halves};

use crate::features::{COLUMN_COUNT, Loading, ProblemFeatures, featured_tile};
use crate::ranker::MOST_PICKS;
use crate::{Misfit, Model, ModelError};

/// The settings that identify a tile for its values. Other settings follow from the problem, or features show
/// them. Where one matrix is loaded by the element, tiles share values whatever their stages are.
pub type TileKey = [u32; 10];

/// The settings of a tile that identify its values for problems whose operands are loaded in one way.
pub fn tile_key(tile: &Tile, loading: Loading) -> TileKey {
    let Tile { block_m, block_n, block_k, group_m, num_stages, num_warps, rocm, .. } = *tile;
    let num_stages = if loading.has_whole_stages(tile) { num_stages } else { 1 };
    let [nonkdim, waves_per_eu, kpack] =
        rocm.map_or([0; 3], |rocm| [rocm.matrix_instr_nonkdim, rocm.waves_per_eu, rocm.kpack]);
    let loading = loading.number();
    [block_m, block_n, block_k, group_m, num_stages, num_warps, nonkdim, waves_per_eu, kpack, loading]
}

/// The values of some tiles, each with equally many.
#[derive(Debug, Clone, PartialEq)]
pub struct TileValues {
    /// Sorted.
    tiles: Vec<TileKey>,
    /// Tile by tile.
    values: Vec<f32>,
}

impl TileValues {
    /// Inputs beyond this size are cut off, so no value is larger.
    const LARGEST: f32 = 8.0;

    /// Takes the tiles in order, and all values tile by tile.
    pub fn new(tiles: Vec<TileKey>, values: Vec<f32>) -> Result<Self, Misfit> {
        let in_order = tiles.windows(2).all(|two| two[0] < two[1]);
        let is_whole = !tiles.is_empty() && !values.is_empty() && values.len().is_multiple_of(tiles.len());
        if in_order && is_whole && values.iter().all(|value| value.abs() <= Self::LARGEST) {
            return Ok(Self { tiles, values });
        }
        Err(Misfit {
            name: "tiles.values".to_owned(),
            given: format!("{} values for {} tiles", values.len(), tiles.len()),
            expected: "equally many for each of some tiles in order, none above 8 in size".to_owned(),
        })
    }

    pub fn tiles(&self) -> &[TileKey] {
        &self.tiles
    }

    /// All values, tile by tile.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// How many values each tile has.
    pub fn width(&self) -> usize {
        self.values.len() / self.tiles.len()
    }

    /// The values of some tiles, tile by tile, if operands are loaded in this way.
    pub fn of(&self, tiles: &[&Tile], loading: Loading) -> Vec<f32> {
        let width = self.width();
        let mut all = vec![0.0; tiles.len() * width];
        for (tile, values) in tiles.iter().zip(all.chunks_exact_mut(width)) {
            if let Ok(at) = self.tiles.binary_search(&tile_key(tile, loading)) {
                values.copy_from_slice(&self.values[at * width..][..width]);
            }
        }
        all
    }
}

/// A network that predicts the times of tiles, from features and perhaps from values of single tiles.
#[derive(Debug, Clone, PartialEq)]
pub struct TileNetwork {
    dense: Network,
    values: Option<TileValues>,
}

impl TileNetwork {
    /// Refuses a network that does not take one input for each feature and for each value of a tile.
    pub fn new(dense: Network, values: Option<TileValues>) -> Result<Self, ModelError> {
        dense.expect_inputs(COLUMN_COUNT + values.as_ref().map_or(0, TileValues::width))?;
        Ok(Self { dense, values })
    }

    /// The network itself.
    pub fn dense(&self) -> &Network {
        &self.dense
    }

    pub fn values(&self) -> Option<&TileValues> {
        self.values.as_ref()
    }

    /// The number of weights and values that were learnt.
    pub fn parameters(&self) -> u64 {
        self.dense.parameters() + self.values.as_ref().map_or(0, |known| known.values.len() as u64)
    }

    /// The same network with weights and values rounded to 16-bit floats. A file stores these in half the bytes.
    pub fn rounded_to_half(self) -> Result<Self, ModelError> {
        let values =
            self.values.map(|TileValues { tiles, values }| TileValues { values: halves(values), tiles });
        Self::new(self.dense.rounded_to_half()?, values)
    }

    /// Prepares tiles for problems with the same input types as `features`, and with operands that are loaded alike.
    pub(crate) fn prepare(&self, features: &ProblemFeatures, tiles: &[&Tile]) -> PreparedTiles {
        PreparedTiles::new(&self.dense, features, tiles, &self.values_of(features, tiles))
    }

    /// The same for tiles of which all are always wanted.
    pub(crate) fn prepare_all_wanted(&self, features: &ProblemFeatures, tiles: &[&Tile]) -> PreparedTiles {
        PreparedTiles::all_wanted(&self.dense, features, tiles, &self.values_of(features, tiles))
    }

    fn values_of(&self, features: &ProblemFeatures, tiles: &[&Tile]) -> Vec<f32> {
        self.values.as_ref().map(|known| known.of(tiles, features.loading())).unwrap_or_default()
    }
}

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

#[cfg(test)]
mod tests {
    use diode_core::{DType, Op, Problem, ProblemFields};

    use super::*;

    #[test]
    fn values_are_found_by_what_identifies_a_tile() {
        let [small, large] = [Tile::new(16, 32, 64, 2, 4), Tile::new(64, 32, 64, 2, 4)];
        let keys = [small, large].map(|tile| tile_key(&tile, Loading::ALIGNED)).to_vec();
        let known = TileValues::new(keys, vec![1.0, 2.0, 3.0, 4.0]).unwrap();
        let same = Tile { even_k: true, allow_tf32: true, ..large };
        let other = Tile { group_m: 4, ..large };
        assert_eq!(known.of(&[&same, &other, &small], Loading::ALIGNED), [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
        let by_element = Loading::BY_THE_ELEMENT;
        let known = TileValues::new(vec![tile_key(&small, by_element)], vec![5.0]).unwrap();
        let more_stages = Tile { num_stages: 4, ..small };
        assert_eq!(known.of(&[&small, &more_stages, &large], by_element), [5.0, 5.0, 0.0]);
        assert_eq!(known.of(&[&small], Loading::ALIGNED), [0.0]);
    }

    #[test]
    fn stages_have_values_of_their_own_where_both_matrices_are_copied() {
        let key = |n, k, stages| {
            let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 64, n, k, DType::BFloat16)).unwrap();
            tile_key(&Tile::new(64, 128, 64, stages, 4), Loading::for_problem(&problem))
        };
        for (n, k, are_alike) in
            [(1024, 1024, false), (1022, 1022, false), (1023, 1024, true), (1023, 1023, true)]
        {
            assert_eq!(key(n, k, 2) == key(n, k, 4), are_alike, "{n} {k}");
        }
    }

    #[test]
    fn values_that_do_not_fit_are_refused() {
        let [small, large] = [Tile::new(16, 32, 64, 2, 4), Tile::new(64, 32, 64, 2, 4)]
            .map(|tile| tile_key(&tile, Loading::ALIGNED));
        let refusal = |tiles: &[TileKey], values: &[f32]| {
            TileValues::new(tiles.to_vec(), values.to_vec()).unwrap_err().to_string()
        };
        assert_eq!(
            refusal(&[small, large], &[1.0, 2.0, 3.0]),
            "tensor `tiles.values`: got 3 values for 2 tiles, expected equally many for each of some tiles in order, \
             none above 8 in size"
        );
        for (tiles, values) in [
            (&[large, small][..], &[1.0, 2.0][..]),
            (&[small, small], &[1.0, 2.0]),
            (&[], &[]),
            (&[small], &[]),
            (&[small], &[f32::NAN]),
            (&[small], &[-9.0]),
        ] {
            assert!(refusal(tiles, values).contains("expected equally many"));
        }
    }
}
