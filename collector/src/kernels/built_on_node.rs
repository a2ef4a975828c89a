//! Builds packs on the node that needs them, if it has Python with Triton.

use std::path::PathBuf;
use std::thread;

use anyhow::Context as _;
use diode_core::ids::Digest;

use super::cache::PackCache;
use super::plan::{PlannedKernel, hardware_of};
use super::python::{TRITON, installed};
use super::{Build, build};
use crate::failure::Interrupted;
use crate::interrupt::Interrupt;
use crate::output::count;

/// Compiles kernels into a pack of the cache. `None` if this node has no Triton.
pub(crate) fn build_here(
    cache: &PackCache,
    arch: &str,
    kernels: &[PlannedKernel],
    interrupt: &Interrupt,
) -> anyhow::Result<Option<PathBuf>> {
    let Some(python) = installed()? else { return Ok(None) };
    // The name depends on the kernels only, so the same build goes on after an interruption.
    let keys: String = kernels.iter().map(|kernel| format!("{}\n", kernel.key)).collect();
    let path = cache.to_build(&format!("{arch}-{:.16}", Digest::of(keys.as_bytes())));
    let cores = thread::available_parallelism().map_or(1, Into::into);
    say!(
        "building {} for {arch} with Triton {TRITON} on this node: no pack has them",
        count(kernels.len(), "kernel")
    );
    let settings = Build {
        arch,
        output: &path,
        python: Some(&python),
        processes: cores.min(kernels.len()),
        shared_limit: hardware_of(arch)?.facts.map_or(u32::MAX, |facts| facts.smem_per_block),
        space: "as needed",
    };
    let built = build(&settings, kernels, interrupt).context("cannot build the kernels on this node")?;
    if built.is_none() {
        let words = "interrupted while kernels were compiled; the next start goes on with what is compiled";
        return Err(Interrupted::new(words).into());
    }
    Ok(Some(path))
}
