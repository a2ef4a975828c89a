//! Kernel packs: which kernels they hold, how kernels are named, and how they are compiled.

mod build;
mod compiler;
mod packs;
mod plan;
pub(crate) mod support;
pub(crate) mod variant;

pub(crate) use build::{Build, Summary, build, build_here};
pub(crate) use compiler::{TRITON, TRITONS, cache_folder};
pub(crate) use packs::{PackCache, WantedKernels, find_packs, packs, pull};
pub(crate) use plan::{Held, Plan, PlannedKernel, hardware_of, held};
pub(crate) use variant::problems_of;

/// The layout and the meaning of a kernel's arguments. A backend launches only packs that state the
/// layout it uses.
pub(crate) const ABI: &str = "diode-kernels 1";
/// The toolchain entry that states the [`ABI`].
pub(crate) const ABI_KEY: &str = "abi";
/// The toolchain entry that states the version of Triton. Times of a pack have it in their provenance.
pub(crate) const TRITON_KEY: &str = "triton";
