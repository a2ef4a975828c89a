//! Builds a pack. Compiled kernels are kept at once, so that an interrupted build goes on where it
//! stopped.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::path::Path;

use anyhow::{Context, bail};
use diode_core::FailureReason;
use diode_formats::pack::{Pack, PackWriter};

use super::compiler::{Compiled, Launch};
use super::compilers::Compilers;
use super::parts::Parts;
use super::plan::PlannedKernel;
use super::python::{Python, TRITON};
use super::request::ARGUMENT_SIZES;
use super::{ABI, ABI_KEY, amdgpu};
use crate::interrupt::Interrupt;
use crate::output::files;

/// The settings of a build, besides its kernels.
pub(crate) struct Build<'a> {
    pub(crate) arch: &'a str,
    pub(crate) output: &'a Path,
    pub(crate) python: Option<&'a Path>,
    pub(crate) processes: usize,
    /// The most dynamic shared memory that a block of the architecture may use.
    pub(crate) shared_limit: u32,
    /// The name of the space that the configs come from.
    pub(crate) space: &'a str,
}

/// The result of a build.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) built: usize,
    pub(crate) spilling: usize,
    pub(crate) failed: BTreeMap<String, usize>,
    pub(crate) resumed: usize,
    pub(crate) bytes: usize,
}

/// Compiles the kernels and writes the pack. `None` if it was interrupted; compiled kernels are then
/// kept for the next build.
pub(crate) fn build(
    build: &Build<'_>,
    kernels: &[PlannedKernel],
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Summary>> {
    check_output(build.output)?;
    let parts = Parts::open(build.output, build.arch)?;
    let mut finished = parts.finished()?;
    let resumed = kernels.iter().filter(|kernel| finished.contains_key(&kernel.key)).count();
    let python = Python::prepare(build.python, &parts.folder)?;
    let todo: VecDeque<&PlannedKernel> =
        kernels.iter().filter(|kernel| !finished.contains_key(&kernel.key)).collect();
    if !todo.is_empty() {
        Compilers::new(&parts, &python, interrupt, todo).run(build.processes, &mut finished)?;
    }
    if kernels.iter().any(|kernel| !finished.contains_key(&kernel.key)) {
        return Ok(None);
    }
    let (bytes, mut summary) = pack(build, kernels, &parts, &finished)?;
    summary.resumed = resumed;
    summary.bytes = bytes.len();
    diode_formats::write_atomically(build.output, &bytes)
        .with_context(|| format!("cannot write {}", build.output.display()))?;
    parts.remove();
    Ok(Some(summary))
}

/// Refuses an output that cannot be written, or that is not a pack. So the user learns of it before
/// hours of compiling.
fn check_output(output: &Path) -> anyhow::Result<()> {
    if !files::is_there(output) {
        return files::check_may_write(output, false);
    }
    let shown = output.display();
    if !output.is_file() {
        bail!("{shown}: it is there and no regular file, expected the name of a pack; choose another --out");
    }
    if let Err(error) = Pack::open(output) {
        bail!(
            "{shown}: it is there and no pack to be replaced ({error}); choose another --out, or remove it"
        );
    }
    Ok(())
}

fn pack(
    build: &Build<'_>,
    kernels: &[PlannedKernel],
    parts: &Parts,
    finished: &HashMap<String, Compiled>,
) -> anyhow::Result<(Vec<u8>, Summary)> {
    let toolchain = BTreeMap::from([
        ("triton".to_owned(), TRITON.to_owned()),
        ("tool".to_owned(), concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned()),
        (ABI_KEY.to_owned(), ABI.to_owned()),
        ("space".to_owned(), build.space.to_owned()),
    ]);
    let mut writer = PackWriter::new(build.arch, toolchain);
    let mut summary = Summary::default();
    let (mut multiplications, mut why) = (0, None);
    for kernel in kernels {
        let key = kernel.key.clone();
        let mut fail = |writer: &mut PackWriter, reason: FailureReason, message: String| {
            *summary.failed.entry(reason.to_string()).or_default() += 1;
            why = Some(message.clone());
            writer.add_failed(key.clone(), reason, message);
        };
        let launch = match &finished[&kernel.key] {
            Compiled::Failed(message) if !kernel.matmul => {
                let folder = parts.folder.display();
                bail!(
                    "{key}: {message}; every collection needs this kernel, so there is no pack without it; \
                     remove {folder} to have it compiled again"
                )
            }
            Compiled::GivenUp if !kernel.matmul => {
                bail!(
                    "{key}: the compiler crashed or hung, twice; every collection needs this kernel; try again"
                )
            }
            Compiled::Failed(message) => {
                fail(&mut writer, FailureReason::Compile, message.clone());
                continue;
            }
            Compiled::GivenUp => {
                let message = "the compiler crashed or hung, twice; the next build tries again".to_owned();
                fail(&mut writer, FailureReason::Compile, message);
                continue;
            }
            Compiled::Built(launch) if launch.shared > build.shared_limit => {
                let (needed, limit) = (launch.shared, build.shared_limit);
                let message = format!("{needed} bytes of shared memory, {limit} are there");
                fail(&mut writer, FailureReason::OutOfResources, message);
                continue;
            }
            Compiled::Built(launch) if launch.global_scratch > 0 => {
                fail(
                    &mut writer,
                    FailureReason::Compile,
                    "needs scratch memory, which launches do not give".into(),
                );
                continue;
            }
            Compiled::Built(launch) if kernel.wide && launch.copies.iter().any(|&bytes| bytes != 16) => {
                let copies = &launch.copies;
                let message =
                    format!("copies of {copies:?} bytes, expected 16: the compiler lost the alignment");
                fail(&mut writer, FailureReason::Compile, message);
                continue;
            }
            Compiled::Built(launch) => launch,
        };
        let file = parts.binary(&kernel.key);
        let binary = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if build.arch.starts_with("gfx") && kernel.matmul {
            amdgpu::check_arguments(&binary, &launch.symbol, &ARGUMENT_SIZES)
                .with_context(|| format!("{}: {}", file.display(), kernel.key))?;
        }
        let Launch { symbol, threads, shared, registers, stack, .. } = launch;
        writer.add_built(key, symbol.clone(), [*threads, *shared, *registers, *stack], &binary);
        summary.built += 1;
        multiplications += usize::from(kernel.matmul);
        summary.spilling += usize::from(kernel.matmul && *stack > 0);
    }
    if multiplications == 0 {
        bail!("no multiplication can be used, so there is no pack; of the last: {}", why.unwrap_or_default());
    }
    Ok((writer.finish(), summary))
}
