//! What the network sees: hardware-independent quantities of a config on a
//! problem, computed from the facts of the hardware.
//!
//! They describe how tiles cover the problem, what a block takes of an SM, how
//! blocks fill the device, and closed-form times of arithmetic, loads and
//! latency. Everything is plain `f32` arithmetic in a fixed order.

mod columns;
mod machine;
mod problem_terms;
mod resources;
mod row;

use diode_core::hardware::Facts;
use diode_core::{Config, Problem, Tile};
use wide::f32x8;

pub use columns::{COLUMN_COUNT, COLUMNS, Column, Scale};
use machine::Machine;
use problem_terms::ProblemTerms;

use crate::{ModelError, math};

/// The name and version of these features. A change of any column's value needs
/// a new version: weights only fit the features they were trained on.
pub const FEATURE_SET: &str = "physics/1";

/// How many configs are computed at once: a vector's lanes.
pub const LANES: usize = 8;

/// Columns of [`LANES`] configs, column by column.
pub type Block = [[f32; LANES]; COLUMN_COUNT];

/// Computes the features of configs on one problem.
#[derive(Debug, Clone)]
pub struct ProblemFeatures {
    plain: Side,
    /// For configs that allow TF32, which has another peak.
    tf32: Side,
}

#[derive(Debug, Clone)]
struct Side {
    machine: Machine,
    terms: ProblemTerms,
    dims: [f32; 11],
}

impl ProblemFeatures {
    /// `None` if the hardware has no known peak rate for the problem's input type.
    pub fn new(facts: &Facts, problem: &Problem) -> Option<Self> {
        let side = |allow_tf32| {
            let machine = Machine::new(facts, problem.a_dtype, allow_tf32)?;
            let terms = ProblemTerms::new(&machine, problem);
            Some(Side { machine, terms, dims: terms.columns() })
        };
        Some(Self { plain: side(false)?, tf32: side(true)? })
    }

    /// The time in µs that the network's output is relative to.
    pub fn base_us(&self, tile: &Tile) -> f32 {
        self.side(tile).terms.base_us
    }

    /// Fills a block. Lanes beyond the tiles keep what they held.
    pub fn fill<'a>(&self, tiles: impl Iterator<Item = &'a Tile>, block: &mut Block) {
        for (lane, tile) in tiles.take(LANES).enumerate() {
            let side = self.side(tile);
            let row = row::raw(&side.machine, &side.terms, &side.dims, tile);
            for (column, value) in block.iter_mut().zip(row) {
                column[lane] = value;
            }
        }
        for (values, column) in block.iter_mut().zip(&COLUMNS) {
            if column.scale == Scale::Log2 {
                *values = math::log2(f32x8::from(*values)).to_array();
            }
        }
    }

    /// The columns of one config.
    pub fn row(&self, tile: &Tile) -> [f32; COLUMN_COUNT] {
        let mut block = [[1.0; LANES]; COLUMN_COUNT];
        self.fill(std::iter::once(tile), &mut block);
        block.map(|lanes| lanes[0])
    }

    fn side(&self, tile: &Tile) -> &Side {
        if tile.allow_tf32 { &self.tf32 } else { &self.plain }
    }
}

/// The tile of a config that has features: that of the plain and the batched
/// Triton kernel. Persistent kernels run by other laws, and the library and
/// split-K kernels have no tile.
pub fn featured_tile(config: &Config) -> Result<&Tile, ModelError> {
    match config {
        Config::Mm(tile) | Config::Bmm(tile) => Ok(tile),
        Config::PersistentTma(_) | Config::DecomposeK { .. } | Config::Library => {
            Err(ModelError::NoFeatures(config.template()))
        }
    }
}

#[cfg(test)]
mod tests;
