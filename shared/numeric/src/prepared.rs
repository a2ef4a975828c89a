//! Prepares a list of tiles, so that their times can be predicted quickly for many problems.
//!
//! Tiles that differ in their stages alone are a family and take nearly the same time. The middle tile
//! of each family is its scout. If only the best tiles are wanted, the times of all scouts are predicted
//! first, and then only the families of the fastest scouts. `docs/guides/models.md` says how.

use std::iter;

use diode_core::Tile;
use wide::{bytemuck, f32x8, f32x16};

use crate::features::{
    COLUMN_COUNT, CONFIG_COLUMNS, ConfigTerms, JOINT_COLUMNS, LANES, PROBLEM_COLUMNS, ProblemFeatures,
};
use crate::math;
use crate::network::{Network, Part, Scratch};

/// Tiles with everything that can be computed before the sizes of a problem are known.
#[derive(Debug, Clone)]
pub struct PreparedTiles {
    tiles: usize,
    scouts: Vec<Block>,
    others: Vec<Block>,
}

/// Up to [`LANES`] tiles. Either all of them allow TF32 or none.
#[derive(Debug, Clone)]
struct Block {
    /// The tiles' places in the list.
    members: Vec<usize>,
    /// The places of their families' scouts in the list.
    scouts: Vec<usize>,
    allow_tf32: bool,
    terms: ConfigTerms,
    /// What the tiles add to the sums of the network's first layer.
    sums: Vec<f32x8>,
}

/// A tile and its predicted time in µs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Predicted {
    /// The tile's place in the list.
    pub tile: usize,
    pub us: f64,
}

/// Sorts the fastest tiles to the front. Among equals, the first of the list comes first.
pub fn fastest_first(predicted: &mut [Predicted]) {
    predicted.sort_unstable_by(|a, b| a.us.total_cmp(&b.us).then(a.tile.cmp(&b.tile)));
}

/// How many tiles get a predicted time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    All,
    /// The scouts, and this many blocks of other tiles.
    Blocks(usize),
}

impl PreparedTiles {
    /// Prepares tiles for problems with the same input types as `features`.
    ///
    /// `values` are the network's inputs after the features, tile by tile. Most networks have none.
    pub fn new(network: &Network, features: &ProblemFeatures, tiles: &[&Tile], values: &[f32]) -> Self {
        let (mut scouts, mut others) = (Vec::new(), Vec::new());
        for members in families(tiles) {
            let scout = members[members.len() / 2];
            scouts.push((scout, scout));
            others.extend(members.into_iter().filter(|&at| at != scout).map(|at| (at, scout)));
        }
        let filler = BlockFiller::new(network, features, tiles, values);
        Self { tiles: tiles.len(), scouts: filler.blocks(&scouts), others: filler.blocks(&others) }
    }

    /// Prepares tiles of which all are always wanted. Each counts as a scout, so that as few blocks as possible
    /// are filled.
    pub fn all_wanted(
        network: &Network,
        features: &ProblemFeatures,
        tiles: &[&Tile],
        values: &[f32],
    ) -> Self {
        let list: Vec<(usize, usize)> = (0..tiles.len()).map(|at| (at, at)).collect();
        let filler = BlockFiller::new(network, features, tiles, values);
        Self { tiles: tiles.len(), scouts: filler.blocks(&list), others: Vec::new() }
    }

    /// The predicted times, in no particular order.
    pub fn predict(&self, network: &Network, features: &ProblemFeatures, effort: Effort) -> Vec<Predicted> {
        let mut predictor = BlockPredictor::new(network, features);
        let mut predicted = Vec::with_capacity(self.tiles);
        predictor.predict(&mut self.scouts.iter(), &mut predicted);
        let Effort::Blocks(most) = effort else {
            predictor.predict(&mut self.others.iter(), &mut predicted);
            return predicted;
        };
        let mut of_scouts = vec![f64::INFINITY; self.tiles];
        for scout in &predicted {
            of_scouts[scout.tile] = scout.us;
        }
        let promise =
            |block: &Block| block.scouts.iter().map(|&at| of_scouts[at]).fold(f64::INFINITY, f64::min);
        // A block is sorted as a tile is. A sort of another type would take 3 kB of the browser's download.
        let blocks = self.others.iter().map(promise).enumerate();
        let mut promising: Vec<Predicted> = blocks.map(|(at, us)| Predicted { tile: at, us }).collect();
        fastest_first(&mut promising);
        let blocks = promising.iter().take(most).map(|one| &self.others[one.tile]);
        predictor.predict(&mut { blocks }, &mut predicted);
        predicted
    }
}

/// The tiles by families, each in the order of the list.
///
/// In a sorted list the members of a family are close together. In other lists a family may count as
/// several families, which only costs a little time.
fn families(tiles: &[&Tile]) -> Vec<Vec<usize>> {
    /// How many of the latest families are searched. Tiles of one size have fewer families than this.
    const NEAR: usize = 64;
    let family = |at: usize| Tile { num_stages: 1, ..*tiles[at] };
    let mut families: Vec<Vec<usize>> = Vec::new();
    for at in 0..tiles.len() {
        let near = families.iter_mut().rev().take(NEAR);
        match near.into_iter().find(|members| family(members[0]) == family(at)) {
            Some(members) => members.push(at),
            None => families.push(vec![at]),
        }
    }
    families
}

impl Block {
    fn new(features: &ProblemFeatures, tiles: &[&Tile], members: &[(usize, usize)]) -> Self {
        let group: Vec<&Tile> = members.iter().map(|&(at, _)| tiles[at]).collect();
        Self {
            members: members.iter().map(|&(at, _)| at).collect(),
            scouts: members.iter().map(|&(_, scout)| scout).collect(),
            allow_tf32: group[0].allow_tf32,
            terms: features.config_terms(&group),
            sums: Vec::new(),
        }
    }
}

/// Fills blocks with tiles.
struct BlockFiller<'a> {
    features: &'a ProblemFeatures,
    tiles: &'a [&'a Tile],
    /// The network's inputs after the features, tile by tile.
    values: &'a [f32],
    of_config: Part<'a>,
    of_values: Part<'a>,
}

impl<'a> BlockFiller<'a> {
    fn new(
        network: &'a Network,
        features: &'a ProblemFeatures,
        tiles: &'a [&'a Tile],
        values: &'a [f32],
    ) -> Self {
        let of_config = network.part(PROBLEM_COLUMNS, CONFIG_COLUMNS);
        let of_values = network.part(COLUMN_COUNT, network.inputs() - COLUMN_COUNT);
        Self { features, tiles, values, of_config, of_values }
    }

    /// The blocks of a list of tiles and their families' scouts.
    fn blocks(&self, list: &[(usize, usize)]) -> Vec<Block> {
        let allow_tf32 = |at: usize| self.tiles[at].allow_tf32;
        let mut blocks: Vec<Block> = list
            .chunk_by(|a, b| allow_tf32(a.0) == allow_tf32(b.0))
            .flat_map(|alike| alike.chunks(LANES))
            .map(|block| Block::new(self.features, self.tiles, block))
            .collect();
        blocks.chunks_mut(2).for_each(|two| self.sum_configs(two));
        blocks
    }

    /// Computes the sums of one or two blocks.
    fn sum_configs(&self, blocks: &mut [Block]) {
        let terms = [&blocks[0].terms, &blocks[blocks.len() - 1].terms];
        let mut columns = [f32x16::ZERO; CONFIG_COLUMNS];
        self.features.config_columns(&terms, bytemuck::cast_slice_mut(&mut columns));
        let mut sums = self.of_config.sums(&mut columns);
        if !self.values.is_empty() {
            let mut columns = value_columns(blocks, self.of_values.inputs(), self.values);
            self.of_values.add_to(&mut sums, &mut columns);
        }
        for (half, block) in blocks.iter_mut().enumerate() {
            block.sums = sums.iter().map(|&both| halves(both)[half]).collect();
        }
    }
}

/// The values of the tiles of one or two blocks.
fn value_columns(blocks: &[Block], width: usize, values: &[f32]) -> Vec<f32x16> {
    let mut columns = vec![f32x16::ZERO; width];
    let lanes: &mut [[f32; 2 * LANES]] = bytemuck::cast_slice_mut(&mut columns);
    for (half, block) in blocks.iter().enumerate() {
        for (lane, at) in block.members.iter().enumerate() {
            for (column, value) in lanes.iter_mut().zip(&values[at * width..]) {
                column[half * LANES + lane] = *value;
            }
        }
    }
    columns
}

fn halves(both: f32x16) -> [f32x8; 2] {
    bytemuck::cast(both)
}

/// Predicts the times of blocks on one problem.
struct BlockPredictor<'a> {
    features: &'a ProblemFeatures,
    /// Without TF32 and with it.
    sides: [Side; 2],
    /// The part of the network that takes what depends on both config and problem.
    joint: Part<'a>,
    scratch: Scratch,
}

/// What all configs have in common.
struct Side {
    /// The first layer's sums over the problem's columns.
    sums: Vec<f32x8>,
    /// The time to which the network's outputs are relative.
    base_us: f64,
}

impl<'a> BlockPredictor<'a> {
    fn new(network: &'a Network, features: &'a ProblemFeatures) -> Self {
        let part = network.part(0, PROBLEM_COLUMNS);
        let side = |allow_tf32| {
            let mut columns = features.problem_columns(allow_tf32).map(f32x16::splat);
            let added = part.sums(&mut columns);
            let sums = network.starting_sums().iter().zip(added);
            Side {
                sums: sums.map(|(&sum, added)| halves(sum + added)[0]).collect(),
                base_us: f64::from(features.base_us(allow_tf32)),
            }
        };
        Self {
            features,
            sides: [side(false), side(true)],
            joint: network.part(PROBLEM_COLUMNS + CONFIG_COLUMNS, JOINT_COLUMNS),
            scratch: Scratch::default(),
        }
    }

    /// Appends the predicted times of the blocks' tiles.
    fn predict(&mut self, blocks: &mut dyn Iterator<Item = &Block>, predicted: &mut Vec<Predicted>) {
        while let Some(first) = blocks.next() {
            let second = blocks.next();
            let outputs = self.forward([first, second.unwrap_or(first)]);
            for (block, outputs) in iter::once(first).chain(second).zip(outputs) {
                let base_us = self.side(block).base_us;
                let us = |ln_over_base| f64::from(math::exp_of_one(ln_over_base)) * base_us;
                let tiles = block.members.iter().zip(outputs.to_array());
                predicted.extend(tiles.map(|(&tile, output)| Predicted { tile, us: us(output) }));
            }
        }
    }

    /// The network's outputs for two blocks.
    fn forward(&mut self, blocks: [&Block; 2]) -> [f32x8; 2] {
        let Self { features, sides, joint, scratch } = self;
        let Scratch { front, back } = scratch;
        front.resize(JOINT_COLUMNS, f32x16::ZERO);
        features.joint_columns(&blocks.map(|block| &block.terms), bytemuck::cast_slice_mut(front));
        let [first, second] = blocks.map(|block| {
            let known = &sides[usize::from(block.allow_tf32)].sums;
            known.iter().zip(&block.sums).map(|(&known, &config)| known + config)
        });
        back.clear();
        back.extend(first.zip(second).map(|(first, second)| bytemuck::cast::<_, f32x16>([first, second])));
        halves(joint.forward(scratch))
    }

    fn side(&self, block: &Block) -> &Side {
        &self.sides[usize::from(block.allow_tf32)]
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;
    use diode_core::{DType, Op, Problem, ProblemFields};

    use super::*;
    use crate::features::COLUMNS;
    use crate::network::Layer;

    fn features() -> ProblemFeatures {
        let problem = ProblemFields::plain(Op::Mm, 1, 512, 384, 1024, DType::BFloat16);
        let facts = find("NVIDIA H200").unwrap().facts.unwrap();
        ProblemFeatures::new(&facts, &Problem::new(problem).unwrap()).unwrap()
    }

    /// A network whose predicted time grows with the distance from 128 rows and from four stages.
    fn network() -> Network {
        let column = |name: &str| COLUMNS.iter().position(|column| column.name == name).unwrap();
        let mut weights = vec![0.0; COLUMN_COUNT];
        weights[column("num_stages_is_4")] = -0.01;
        weights[column("block_m")] = -0.2;
        let layer = Layer { inputs: COLUMN_COUNT, outputs: 1, weights, bias: vec![0.0] };
        Network::new(vec![0.0; COLUMN_COUNT], vec![1.0; COLUMN_COUNT], vec![layer]).unwrap()
    }

    fn tiles() -> Vec<Tile> {
        let rows = [16, 32, 64, 128];
        rows.into_iter().flat_map(|m| (1..=5).map(move |stages| Tile::new(m, 64, 32, stages, 4))).collect()
    }

    fn by_tile(mut predicted: Vec<Predicted>) -> Vec<Predicted> {
        predicted.sort_by_key(|one| one.tile);
        predicted
    }

    #[test]
    fn every_tile_has_one_prediction_and_the_same_as_alone() {
        let (network, features, tiles) = (network(), features(), tiles());
        let list: Vec<&Tile> = tiles.iter().collect();
        let prepared = PreparedTiles::new(&network, &features, &list, &[]);
        let predicted = by_tile(prepared.predict(&network, &features, Effort::All));
        assert!(predicted.iter().map(|one| one.tile).eq(0..tiles.len()));
        for one in predicted {
            let alone = PreparedTiles::new(&network, &features, &[&tiles[one.tile]], &[]);
            assert_eq!(alone.predict(&network, &features, Effort::All)[0].us, one.us);
        }
        let all_wanted = PreparedTiles::all_wanted(&network, &features, &list, &[]);
        let together = by_tile(prepared.predict(&network, &features, Effort::All));
        assert_eq!(all_wanted.predict(&network, &features, Effort::All), together);
    }

    #[test]
    fn values_count_for_their_tiles_alone() {
        const INPUTS: usize = COLUMN_COUNT + 2;
        let (plain, features, tiles) = (network(), features(), tiles());
        let list: Vec<&Tile> = tiles.iter().collect();
        let mut layer = plain.layers()[0].clone();
        layer.weights.extend([0.25, -0.5]);
        layer.inputs = INPUTS;
        let network = Network::new(vec![0.0; INPUTS], vec![1.0; INPUTS], vec![layer]).unwrap();
        let mut values = vec![0.0; 2 * tiles.len()];
        values[2 * 3] = 0.5;
        values[2 * 17..][..2].copy_from_slice(&[1.0, 2.0]);
        let predicted = |network: &Network, values: &[f32]| {
            let prepared = PreparedTiles::new(network, &features, &list, values);
            by_tile(prepared.predict(network, &features, Effort::All))
        };
        for (without, with) in predicted(&plain, &[]).into_iter().zip(predicted(&network, &values)) {
            let change = libm::log(with.us / without.us);
            let expected = match with.tile {
                3 => 0.125,
                17 => -0.75,
                _ => 0.0,
            };
            assert!((change - expected).abs() < 1e-5, "{}: {change}, not {expected}", with.tile);
        }
    }

    #[test]
    fn scouts_lead_to_the_fastest() {
        let (network, features, tiles) = (network(), features(), tiles());
        let list: Vec<&Tile> = tiles.iter().collect();
        let prepared = PreparedTiles::new(&network, &features, &list, &[]);
        let few = prepared.predict(&network, &features, Effort::Blocks(1));
        assert_eq!(few.len(), 4 + LANES);
        let fastest = |all: &[Predicted]| all.iter().copied().min_by(|a, b| a.us.total_cmp(&b.us)).unwrap();
        let all = prepared.predict(&network, &features, Effort::All);
        assert_eq!(fastest(&few), fastest(&all));
        assert_eq!(tiles[fastest(&few).tile], Tile::new(128, 64, 32, 4, 4));
    }

    #[test]
    fn no_tiles_have_no_predictions() {
        let (network, features) = (network(), features());
        assert!(
            PreparedTiles::new(&network, &features, &[], &[])
                .predict(&network, &features, Effort::All)
                .is_empty()
        );
    }
}
