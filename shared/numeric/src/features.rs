//! The network's inputs. They describe a config on a problem by quantities that mean the same on all
//! hardware, and are computed from the facts of the hardware.
//!
//! They are: how tiles cover the problem, what a block takes of an SM, how blocks fill the device, and
//! closed-form times of arithmetic, loads and latency. All of it is plain `f32` arithmetic in a fixed order,
//! on eight configs at a time. The columns form three groups: of the problem alone, of the config alone, and
//! of both.

mod columns;
mod lanes;
mod library;
mod loading;
mod machine;
mod problem_terms;
mod resources;
mod row;
mod tiles;

use diode_core::hardware::Facts;
use diode_core::{Problem, Tile};
use wide::f32x8;

pub use columns::{COLUMN_COUNT, COLUMNS, CONFIG_COLUMNS, Column, JOINT_COLUMNS, PROBLEM_COLUMNS, Scale};
pub use library::LIBRARY_COLUMNS;
pub use loading::Loading;
use machine::Machine;
use problem_terms::ProblemTerms;
use resources::Resources;
use tiles::Tiles;

use crate::math;
use crate::vectors::{Log2, run};

/// The name and version of these features. Whoever changes a column's value must change the version: weights
/// only fit the features that they were trained on.
pub const FEATURE_SET: &str = "physics/5";

/// How many configs are computed at once: the lanes of a vector.
pub const LANES: usize = 8;

/// The columns of [`LANES`] configs, column by column.
pub type Block = [f32x8; COLUMN_COUNT];

/// Computes the features of configs on one problem.
#[derive(Debug, Clone)]
pub struct ProblemFeatures {
    plain: Side,
    /// For configs that allow TF32, because TF32 has another peak.
    tf32: Side,
    loading: Loading,
}

/// What one to eight configs use of the hardware. The sizes of the problem do not matter for it.
#[derive(Debug, Clone)]
pub struct ConfigTerms {
    tiles: Tiles,
    resources: Resources,
    allow_tf32: bool,
}

#[derive(Debug, Clone)]
struct Side {
    machine: Machine,
    terms: ProblemTerms,
    columns: [f32; PROBLEM_COLUMNS],
}

impl ProblemFeatures {
    /// `None` if the hardware has no known peak for the problem's input type.
    pub fn new(facts: &Facts, problem: &Problem) -> Option<Self> {
        Self::with_method(facts, problem, false)
    }

    /// The features for times by a model's second method. That method may count launches differently and have
    /// warm caches.
    pub fn by_second_method(facts: &Facts, problem: &Problem) -> Option<Self> {
        Self::with_method(facts, problem, true)
    }

    fn with_method(facts: &Facts, problem: &Problem, second_method: bool) -> Option<Self> {
        let side = |allow_tf32| {
            let machine = Machine::new(facts, problem.a_dtype, allow_tf32)?;
            let terms = ProblemTerms::new(&machine, problem);
            let mut columns = terms.columns(&machine, problem, second_method);
            for (value, column) in columns.iter_mut().zip(&COLUMNS) {
                if column.scale == Scale::Log2 {
                    *value = math::log2_of_one(*value);
                }
            }
            Some(Side { machine, terms, columns })
        };
        Some(Self { plain: side(false)?, tf32: side(true)?, loading: Loading::of(problem) })
    }

    /// The time in µs to which the network's output is relative.
    pub fn base_us(&self, allow_tf32: bool) -> f32 {
        self.side(allow_tf32).terms.base_us
    }

    /// The columns of the problem alone.
    pub fn problem_columns(&self, allow_tf32: bool) -> &[f32; PROBLEM_COLUMNS] {
        &self.side(allow_tf32).columns
    }

    /// The terms of one to eight configs. They do not depend on the sizes of the problem, so they are the
    /// same for all problems of these input types on this hardware whose operands have the same layouts and
    /// are [loaded alike](Self::loading). Either all of the configs allow TF32 or none. Unused lanes repeat the
    /// last config.
    #[inline(always)]
    pub fn config_terms(&self, group: &[&Tile]) -> ConfigTerms {
        let allow_tf32 = group[0].allow_tf32;
        let Side { machine, terms, .. } = self.side(allow_tf32);
        let tiles = Tiles::new(group);
        let resources = Resources::new(machine, &tiles, &terms.a_operand, &terms.b_operand);
        ConfigTerms { tiles, resources, allow_tf32 }
    }

    /// Writes the columns of groups of configs alone. In `columns`, each column has a vector for each group.
    pub fn config_columns(&self, groups: &[&ConfigTerms], columns: &mut [f32x8]) {
        for (at, configs) in groups.iter().enumerate() {
            let Side { machine, .. } = self.side(configs.allow_tf32);
            let group = row::config(machine, &configs.tiles, &configs.resources);
            put(&group, columns[at..].iter_mut().step_by(groups.len()));
        }
        run(Log2 { values: columns, columns: &COLUMNS[PROBLEM_COLUMNS..][..CONFIG_COLUMNS] });
    }

    /// Writes the columns of groups of configs on this problem, in the same order.
    pub fn joint_columns(&self, groups: &[&ConfigTerms], columns: &mut [f32x8]) {
        for (at, configs) in groups.iter().enumerate() {
            let Side { machine, terms, .. } = self.side(configs.allow_tf32);
            let group = row::joint(machine, terms, &configs.tiles, &configs.resources);
            put(&group, columns[at..].iter_mut().step_by(groups.len()));
        }
        run(Log2 { values: columns, columns: &COLUMNS[PROBLEM_COLUMNS + CONFIG_COLUMNS..] });
    }

    /// All columns of one to eight configs. [`config_terms`](Self::config_terms) says which configs may be
    /// together.
    #[inline(always)]
    pub fn fill(&self, group: &[&Tile], block: &mut Block) {
        let configs = self.config_terms(group);
        let (problem, rest) = block.split_at_mut(PROBLEM_COLUMNS);
        let (config, joint) = rest.split_at_mut(CONFIG_COLUMNS);
        for (values, &value) in problem.iter_mut().zip(self.problem_columns(configs.allow_tf32)) {
            *values = f32x8::splat(value);
        }
        self.config_columns(&[&configs], config);
        self.joint_columns(&[&configs], joint);
    }

    /// The columns of one config.
    pub fn row(&self, tile: &Tile) -> [f32; COLUMN_COUNT] {
        let mut block = [f32x8::ZERO; COLUMN_COUNT];
        self.fill(&[tile], &mut block);
        block.map(|lanes| lanes.to_array()[0])
    }

    /// How kernels load the operands of the problem.
    pub fn loading(&self) -> Loading {
        self.loading
    }

    fn side(&self, allow_tf32: bool) -> &Side {
        if allow_tf32 { &self.tf32 } else { &self.plain }
    }
}

#[inline(always)]
fn put<'a>(group: &[f32x8], columns: impl Iterator<Item = &'a mut f32x8>) {
    for (column, lanes) in columns.zip(group) {
        *column = *lanes;
    }
}

/// Splits tiles into groups of up to [`LANES`] neighbours. In a group, either all tiles allow TF32 or none.
pub fn groups<'a, 't>(tiles: &'a [&'t Tile]) -> impl Iterator<Item = &'a [&'t Tile]> {
    tiles.chunk_by(|a, b| a.allow_tf32 == b.allow_tf32).flat_map(|same| same.chunks(LANES))
}

#[cfg(test)]
mod tests;
