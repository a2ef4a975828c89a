//! Prepares a list of tiles, so that their times can be predicted quickly for many problems.
//!
//! Tiles that differ in their stages alone are a family and take nearly the same time. The middle tile
//! of each family is its scout. If only the best tiles are wanted, the times of all scouts are predicted
//! first, and then only the families of the fastest scouts. `docs/guides/models.md` says how.

use diode_core::Tile;
use wide::f32x8;

use crate::features::{CONFIG_COLUMNS, ConfigTerms, LANES, PROBLEM_COLUMNS, ProblemFeatures};
use crate::math;
use crate::network::{Begun, Network, Part, Scratch};

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
    pub fn new(network: &Network, features: &ProblemFeatures, tiles: &[&Tile]) -> Self {
        let (mut scouts, mut others) = (Vec::new(), Vec::new());
        for members in families(tiles) {
            let scout = members[members.len() / 2];
            scouts.push((scout, scout));
            others.extend(members.into_iter().filter(|&at| at != scout).map(|at| (at, scout)));
        }
        let part = network.part(PROBLEM_COLUMNS, CONFIG_COLUMNS);
        let blocks = |list: &[(usize, usize)]| {
            list.chunk_by(|a, b| tiles[a.0].allow_tf32 == tiles[b.0].allow_tf32)
                .flat_map(|alike| alike.chunks(LANES))
                .map(|block| Block::new(&part, features, tiles, block))
                .collect()
        };
        Self { tiles: tiles.len(), scouts: blocks(&scouts), others: blocks(&others) }
    }

    /// The predicted times, in no particular order.
    pub fn predict(&self, network: &Network, features: &ProblemFeatures, effort: Effort) -> Vec<Predicted> {
        let mut predictor = BlockPredictor::new(network, features);
        let mut predicted = Vec::with_capacity(self.tiles);
        for block in &self.scouts {
            predictor.predict(block, &mut predicted);
        }
        let Effort::Blocks(most) = effort else {
            self.others.iter().for_each(|block| predictor.predict(block, &mut predicted));
            return predicted;
        };
        let mut of_scouts = vec![f64::INFINITY; self.tiles];
        for scout in &predicted {
            of_scouts[scout.tile] = scout.us;
        }
        let promise =
            |block: &Block| block.scouts.iter().map(|&at| of_scouts[at]).fold(f64::INFINITY, f64::min);
        let mut promising: Vec<(f64, &Block)> =
            self.others.iter().map(|block| (promise(block), block)).collect();
        // The sort is stable, so that equally promising blocks keep their order.
        promising.sort_by(|a, b| a.0.total_cmp(&b.0));
        for (_, block) in promising.into_iter().take(most) {
            predictor.predict(block, &mut predicted);
        }
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
    fn new(part: &Part<'_>, features: &ProblemFeatures, tiles: &[&Tile], members: &[(usize, usize)]) -> Self {
        let group: Vec<&Tile> = members.iter().map(|&(at, _)| tiles[at]).collect();
        let terms = features.config_terms(&group);
        Self {
            members: members.iter().map(|&(at, _)| at).collect(),
            scouts: members.iter().map(|&(_, scout)| scout).collect(),
            allow_tf32: group[0].allow_tf32,
            sums: part.sums(&features.config_columns(&terms)),
            terms,
        }
    }
}

/// Predicts the times of blocks on one problem.
struct BlockPredictor<'a> {
    features: &'a ProblemFeatures,
    /// The network and the time to which its outputs are relative, without TF32 and with it.
    sides: [(Begun<'a>, f64); 2],
    scratch: Scratch,
}

impl<'a> BlockPredictor<'a> {
    fn new(network: &'a Network, features: &'a ProblemFeatures) -> Self {
        let side = |allow_tf32| {
            let begun = network.begin(features.problem_columns(allow_tf32), PROBLEM_COLUMNS + CONFIG_COLUMNS);
            (begun, f64::from(features.base_us(allow_tf32)))
        };
        Self { features, sides: [side(false), side(true)], scratch: Scratch::default() }
    }

    /// Appends the predicted times of a block's tiles.
    fn predict(&mut self, block: &Block, predicted: &mut Vec<Predicted>) {
        let (network, base) = &self.sides[usize::from(block.allow_tf32)];
        let columns = self.features.joint_columns(&block.terms);
        let over_base = math::exp(network.forward(Some(&block.sums), &columns, &mut self.scratch)).to_array();
        let us = over_base.into_iter().map(|over_base| f64::from(over_base) * base);
        predicted.extend(block.members.iter().zip(us).map(|(&tile, us)| Predicted { tile, us }));
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::find;
    use diode_core::{DType, Op, Problem, ProblemFields};

    use super::*;
    use crate::features::{COLUMN_COUNT, COLUMNS};
    use crate::layer::Layer;

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
        let prepared = PreparedTiles::new(&network, &features, &list);
        let predicted = by_tile(prepared.predict(&network, &features, Effort::All));
        assert!(predicted.iter().map(|one| one.tile).eq(0..tiles.len()));
        for one in predicted {
            let alone = PreparedTiles::new(&network, &features, &[&tiles[one.tile]]);
            assert_eq!(alone.predict(&network, &features, Effort::All)[0].us, one.us);
        }
    }

    #[test]
    fn scouts_lead_to_the_fastest() {
        let (network, features, tiles) = (network(), features(), tiles());
        let list: Vec<&Tile> = tiles.iter().collect();
        let prepared = PreparedTiles::new(&network, &features, &list);
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
            PreparedTiles::new(&network, &features, &[]).predict(&network, &features, Effort::All).is_empty()
        );
    }
}
