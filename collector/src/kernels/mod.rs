//! Kernel packs: which kernels a pack holds, how they are named, and how they
//! are compiled.

mod amdgpu;
mod build;
mod compiler;
mod compilers;
mod parts;
mod plan;
mod python;
mod request;
pub(crate) mod support;
pub(crate) mod variant;

use diode_formats::pack::Pack;

pub(crate) use build::{Build, Summary, build};
pub(crate) use plan::{Plan, hardware_of};
pub(crate) use variant::{check_type, problems_of, tile_of};

/// How the arguments of a kernel lie, and what they mean. A backend launches
/// only packs that state the one it knows.
pub(crate) const ABI: &str = "diode-kernels 1";
/// The toolchain entry that states the [`ABI`].
pub(crate) const ABI_KEY: &str = "abi";

/// Whether a pack was built for the exact sizes of some problems.
pub(crate) fn is_exact(pack: &Pack) -> bool {
    pack.records().iter().any(|record| record.key.contains(variant::SIZES))
}
