//! Named sets of configs per vendor. [`SpaceName::Default`] is Inductor's short list.
//! [`SpaceName::InductorExhaustive`] is what Inductor's exhaustive search keeps for one problem.
//! [`SpaceName::Full`] is every config of the exhaustive list that the hardware can launch. "Percent
//! of exhaustive" always means of `full`.

mod cpu;
mod cuda;
mod decompose_k;
mod feasibility;
mod inductor;
mod rocm;
mod tma;

pub use decompose_k::decompose_k_splits;
pub use feasibility::{Feasibility, cannot_have_run, feasibility};
pub use tma::{persistent_tma, tma_readable};

use crate::error::Invalid;
use crate::hardware::{Hardware, Vendor};
use crate::named_enum::named_enum;
use crate::{Config, Op, Problem, Tile};

named_enum! {
    /// A named space.
    SpaceName("space") {
        /// Inductor's default list, scaled to the problem.
        Default = "default",
        /// Inductor's exhaustive list after its own pruning.
        InductorExhaustive = "inductor-exhaustive",
        /// Every config of the exhaustive list that the hardware can launch.
        Full = "full",
    }
}

/// A set of configs to time or to rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Space {
    Named(SpaceName),
    /// A list from the user, used as it is.
    List(Vec<Config>),
}

impl Space {
    /// Whether the list of configs depends on the sizes of a problem in more than `EVEN_K`. (Every
    /// list but a user's may also depend on the input types.)
    pub fn follows_sizes(&self, hardware: &Hardware) -> bool {
        match self {
            Self::List(_) => false,
            Self::Named(name) => *name != SpaceName::Full || hardware.vendor == Vendor::Cpu,
        }
    }

    /// The configs of this space for one problem, in a fixed order and without duplicates. `EVEN_K`
    /// is set as the problem's K requires. A user's list is returned as it is.
    pub fn configs(&self, hardware: &Hardware, problem: &Problem) -> Result<Vec<Config>, Invalid> {
        let name = match self {
            Self::List(configs) => return Ok(configs.clone()),
            Self::Named(name) => *name,
        };
        let tiles = match hardware.vendor {
            Vendor::Nvidia => cuda::tiles(name, hardware, problem)?,
            Vendor::Cpu => cpu::tiles(name, hardware, problem),
            Vendor::Amd => rocm::tiles(name, hardware, problem)?,
        };
        Ok(tiles.into_iter().map(|tile| config_for(problem.op, tile.for_k(problem.k))).collect())
    }
}

/// The config for an op and a tile. Inductor has one template for plain multiplications and one for
/// batches.
pub fn config_for(op: Op, tile: Tile) -> Config {
    if op.is_batched() { Config::Bmm(tile) } else { Config::Mm(tile) }
}
