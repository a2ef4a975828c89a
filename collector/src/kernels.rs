//! Kernel packs: which kernels they hold, how kernels are named, and how they are compiled.

mod amdgpu;
mod build;
mod built_on_node;
mod cache;
mod compiler;
mod compilers;
mod parts;
mod plan;
mod python;
mod request;
pub(crate) mod support;
mod usable_variants;
pub(crate) mod variant;

pub(crate) use build::{Build, Summary, build};
pub(crate) use built_on_node::build_here;
pub(crate) use cache::{PackCache, used};
pub(crate) use plan::{Plan, hardware_of};
pub(crate) use usable_variants::{Held, held};
pub(crate) use variant::{problems_of, tile_of};

/// The layout and the meaning of a kernel's arguments. A backend launches only packs that state the
/// layout it uses.
pub(crate) const ABI: &str = "diode-kernels 1";
/// The toolchain entry that states the [`ABI`].
pub(crate) const ABI_KEY: &str = "abi";
