//! Builds a pack. Compiled kernels are kept at once, so that an interrupted build goes on where it
//! stopped.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::thread;

use anyhow::{Context as _, bail, ensure};
use diode_core::FailureReason;
use diode_core::ids::Digest;
use diode_formats::pack::{Pack, PackWriter};
use serde::{Deserialize, Serialize};

use crate::failure::Interrupted;
use crate::interrupt::Interrupt;
use crate::kernels::compiler::{Compiled, Compilers, Launch, Python, TRITON, installed, sources};
use crate::kernels::packs::PackCache;
use crate::kernels::plan::{PlannedKernel, hardware_of};
use crate::kernels::{ABI, ABI_KEY, TRITON_KEY};
use crate::output::{count, files};

/// The settings of a build, besides its kernels.
pub(crate) struct Build<'a> {
    pub(crate) arch: &'a str,
    pub(crate) output: &'a Path,
    pub(crate) python: Option<&'a Path>,
    /// The version of Triton that compiles.
    pub(crate) triton: &'a str,
    /// How many compilers run side by side.
    pub(crate) processes: usize,
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
    let parts = Parts::open(build.output, build.arch, build.triton)?;
    let mut finished = parts.finished()?;
    let resumed = kernels.iter().filter(|kernel| finished.contains_key(&kernel.key)).count();
    let python = Python::prepare(build.python, build.triton, &parts.folder)?;
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
        triton: TRITON,
        processes: cores.min(kernels.len()),
        space: "as needed",
    };
    let built = build(&settings, kernels, interrupt).context("cannot build the kernels on this node")?;
    if built.is_none() {
        let words = "interrupted while kernels were compiled; the next start goes on with what is compiled";
        return Err(Interrupted::new(words).into());
    }
    Ok(Some(path))
}

/// Refuses an output that cannot be written, or that is not a pack. So the user learns of it before
/// hours of compiling.
fn check_output(output: &Path) -> anyhow::Result<()> {
    if !files::is_there(output) {
        return files::check_may_write(output, false);
    }
    let shown = output.display();
    if !output.is_file() {
        bail!("{shown}: exists and is not a regular file, expected the name of a pack; choose another --out");
    }
    if let Err(error) = Pack::open(output) {
        bail!(
            "{shown}: exists and is not a pack that can be replaced ({error}); choose another --out, or remove it"
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
        (TRITON_KEY.to_owned(), build.triton.to_owned()),
        ("tool".to_owned(), concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned()),
        (ABI_KEY.to_owned(), ABI.to_owned()),
        ("space".to_owned(), build.space.to_owned()),
    ]);
    // The most dynamic shared memory that a block of the architecture may use.
    let shared_limit = hardware_of(build.arch)?.facts.map_or(u32::MAX, |facts| facts.smem_per_block);
    let mut writer = PackWriter::new(build.arch, toolchain);
    let mut summary = Summary::default();
    let (mut multiplications, mut why) = (0, None);
    for kernel in kernels {
        let key = kernel.key.clone();
        let unusable = |reason, message: String| Err((reason, message));
        let usable = match &finished[&kernel.key] {
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
            Compiled::Failed(message) => unusable(FailureReason::Compile, message.clone()),
            Compiled::GivenUp => unusable(
                FailureReason::Compile,
                "the compiler crashed or hung, twice; the next build tries again".to_owned(),
            ),
            Compiled::Built(launch) if launch.shared > shared_limit => unusable(
                FailureReason::OutOfResources,
                format!("{} bytes of shared memory, {shared_limit} are there", launch.shared),
            ),
            Compiled::Built(launch) if launch.global_scratch > kernel.scratch => unusable(
                FailureReason::Compile,
                "needs scratch memory, which launches do not give".to_owned(),
            ),
            Compiled::Built(launch) if kernel.wide && launch.copies.iter().any(|&bytes| bytes != 16) => {
                let copies = &launch.copies;
                let message =
                    format!("copies of {copies:?} bytes, expected 16: the compiler lost the alignment");
                unusable(FailureReason::Compile, message)
            }
            Compiled::Built(launch) => Ok(launch),
        };
        let launch = match usable {
            Ok(launch) => launch,
            Err((reason, message)) => {
                *summary.failed.entry(reason.to_string()).or_default() += 1;
                why = Some(message.clone());
                writer.add_failed(key, reason, message);
                continue;
            }
        };
        let file = parts.binary(&kernel.key);
        let binary = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if let Some(arguments) = &kernel.arguments
            && build.arch.starts_with("gfx")
        {
            check_arguments(&binary, &launch.symbol, arguments)
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

const LOCK: &str = "lock";
const STAMP: &str = "stamp";

pub(super) struct Parts {
    pub(super) folder: PathBuf,
    /// Locked while the build runs. Two builds in one folder would remove each other's files.
    _lock: File,
    log: File,
}

/// One line of the log of finished kernels.
#[derive(Serialize, Deserialize)]
struct Finished {
    key: String,
    compiled: Compiled,
    /// The digest of the binary. A power cut may have left the binary empty.
    digest: Option<Digest>,
}

impl Parts {
    /// Opens the folder. It goes on with an earlier build if architecture, Triton and sources are
    /// the same.
    pub(super) fn open(output: &Path, arch: &str, triton: &str) -> anyhow::Result<Self> {
        let mut name =
            output.file_name().with_context(|| format!("{}: expected a file", output.display()))?.to_owned();
        name.push(".parts");
        let folder = output.with_file_name(name);
        check_ours(&folder)?;
        fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        let lock = lock(&folder)?;
        let stamp = Digest::of(format!("{arch} {triton} {}", sources()).as_bytes()).to_string();
        let stamp_file = folder.join(STAMP);
        let earlier = fs::read_to_string(&stamp_file).ok();
        if earlier.as_ref() != Some(&stamp) {
            if earlier.is_some() {
                say!("{}: of another architecture or version of diode, begun anew", folder.display());
            }
            clear(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
            diode_formats::write_atomically(&stamp_file, stamp.as_bytes())
                .with_context(|| format!("cannot write {}", stamp_file.display()))?;
        }
        let path = log_path(&folder);
        let log = OpenOptions::new().create(true).append(true).open(&path);
        let log = log.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self { folder, _lock: lock, log })
    }

    /// The file that the compiler writes a kernel to.
    pub(super) fn binary(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:.32}.bin", Digest::of(key.as_bytes()).to_string()))
    }

    /// Keeps the outcome of a kernel, unless another attempt could end otherwise.
    pub(super) fn keep(&self, key: &str, compiled: &Compiled) -> anyhow::Result<()> {
        let digest = match compiled {
            Compiled::Built(_) => Some(digest_of(&self.binary(key))?),
            Compiled::Failed(_) => None,
            Compiled::GivenUp => return Ok(()),
        };
        let finished = Finished { key: key.to_owned(), compiled: compiled.clone(), digest };
        let mut line = serde_json::to_string(&finished).context("cannot encode a result")?;
        line.push('\n');
        (&self.log)
            .write_all(line.as_bytes())
            .with_context(|| format!("cannot write in {}", self.folder.display()))
    }

    /// The kernels that an earlier build finished, if their files are whole. The last line of the
    /// log may be incomplete.
    pub(super) fn finished(&self) -> anyhow::Result<HashMap<String, Compiled>> {
        let path = log_path(&self.folder);
        let file = File::open(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        let whole = |done: &Finished| match done.compiled {
            Compiled::Built(_) => {
                done.digest.is_some() && digest_of(&self.binary(&done.key)).ok() == done.digest
            }
            Compiled::Failed(_) | Compiled::GivenUp => true,
        };
        Ok(lines
            .filter_map(|line| serde_json::from_str::<Finished>(&line).ok())
            .filter(whole)
            .map(|done| (done.key, done.compiled))
            .collect())
    }

    pub(super) fn remove(self) {
        // The pack is written already. If the folder stays, it only costs space.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Refuses a folder that no build has made, because opening it would clear it.
fn check_ours(folder: &Path) -> anyhow::Result<()> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", folder.display())),
    };
    let names: Vec<_> = entries.flatten().map(|entry| entry.file_name()).collect();
    // A build locks the folder before it writes its stamp, so the lock may be alone there.
    if names.iter().any(|name| name == STAMP) || names.iter().all(|name| name == LOCK) {
        return Ok(());
    }
    bail!(
        "{}: exists and is not from a build, expected to keep unfinished kernels in it; choose another --out, or move it",
        folder.display()
    )
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join(LOCK);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    let file = file.with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        // Some file systems have no locks. There, two processes are not kept apart.
        Ok(()) | Err(TryLockError::Error(_)) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "{}: another diode builds this pack; wait for its end or choose another --out",
            folder.display()
        ),
    }
}

fn clear(folder: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else if entry.file_name() != LOCK {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

fn log_path(folder: &Path) -> PathBuf {
    folder.join("finished.jsonl")
}

fn digest_of(file: &Path) -> anyhow::Result<Digest> {
    Ok(Digest::of(&fs::read(file).with_context(|| format!("cannot read {}", file.display()))?))
}

/// The place of one argument in the argument block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub(crate) struct Argument {
    #[serde(rename = ".offset")]
    pub(crate) offset: u64,
    #[serde(rename = ".size")]
    pub(crate) size: u64,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "amdhsa.kernels")]
    kernels: Vec<Kernel>,
}

#[derive(Deserialize)]
struct Kernel {
    #[serde(rename = ".name")]
    name: String,
    #[serde(rename = ".args")]
    args: Vec<StatedArgument>,
    #[serde(rename = ".kernarg_segment_size")]
    size: u64,
}

#[derive(Debug, Deserialize)]
struct StatedArgument {
    #[serde(flatten)]
    argument: Argument,
    #[serde(rename = ".value_kind", default)]
    kind: String,
}

/// Checks the argument block of a kernel in a code object. The arguments must have these sizes,
/// each at its natural alignment, and Triton's two scratch pointers must follow. Nothing else may
/// be between them. Hidden arguments may come last: HIP writes those itself, such as the number of blocks.
///
/// No AMD GPU is at hand to launch kernels on. So every code object is compared with the layout of
/// arguments that the launcher will write.
fn check_arguments(object: &[u8], symbol: &str, sizes: &[u64]) -> anyhow::Result<()> {
    let metadata: Metadata =
        rmp_serde::from_slice(note(object)?).context("unreadable metadata in the code object")?;
    let kernel = metadata.kernels.iter().find(|kernel| kernel.name == symbol);
    let kernel = kernel.with_context(|| format!("the code object has no kernel {symbol}"))?;
    let mut expected = Vec::new();
    let mut end = 0_u64;
    for &size in sizes.iter().chain(&[8, 8]) {
        let offset = end.next_multiple_of(size);
        expected.push(Argument { offset, size });
        end = offset + size;
    }
    let (hidden, passed): (Vec<_>, Vec<_>) =
        kernel.args.iter().partition(|stated| stated.kind.starts_with("hidden_"));
    let passed: Vec<Argument> = passed.into_iter().map(|stated| stated.argument).collect();
    let ends_there = if hidden.is_empty() { kernel.size == end } else { kernel.size >= end };
    ensure!(
        passed == expected && ends_there && hidden.iter().all(|stated| stated.argument.offset >= end),
        "{symbol}: arguments lie at {passed:?} in {} bytes, expected {expected:?} in {end}",
        kernel.size
    );
    Ok(())
}

/// The note with the AMDGPU metadata in an ELF file.
fn note(object: &[u8]) -> anyhow::Result<&[u8]> {
    const SECTION_NOTE: u64 = 7;
    const NOTE_METADATA: u64 = 32;
    ensure!(object.starts_with(b"\x7fELF\x02\x01"), "not a 64-bit little-endian ELF file");
    let table = number(object, 40, 8)?;
    let (entry, count) = (number(object, 58, 2)?, number(object, 60, 2)?);
    for section in 0..count {
        let header = (table + section * entry) as usize;
        if number(object, header + 4, 4)? != SECTION_NOTE {
            continue;
        }
        let mut at = number(object, header + 24, 8)? as usize;
        let end = at + number(object, header + 32, 8)? as usize;
        while at < end {
            let (name, length) = (number(object, at, 4)? as usize, number(object, at + 4, 4)? as usize);
            let start = at + 12 + name.next_multiple_of(4);
            if number(object, at + 8, 4)? == NOTE_METADATA {
                return object.get(start..start + length).context("a note beyond the end of the file");
            }
            at = start + length.next_multiple_of(4);
        }
    }
    bail!("no AMDGPU metadata in the code object")
}

fn number(bytes: &[u8], at: usize, size: usize) -> anyhow::Result<u64> {
    let part = bytes.get(at..at + size).context("a header beyond the end of the file")?;
    Ok(part.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::compiler::Launch;

    fn launch() -> Compiled {
        let symbol = "mm".to_owned();
        Compiled::Built(Launch {
            symbol,
            threads: 128,
            shared: 0,
            registers: 32,
            stack: 0,
            global_scratch: 0,
            copies: Vec::new(),
        })
    }

    #[test]
    fn only_whole_kernels_are_taken_over() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.pack");
        let parts = Parts::open(&output, "sm_90", TRITON).unwrap();
        for key in ["whole", "cut", "gone"] {
            diode_formats::write_atomically(&parts.binary(key), b"binary").unwrap();
            parts.keep(key, &launch()).unwrap();
        }
        parts.keep("bad", &Compiled::Failed("no".to_owned())).unwrap();
        parts.keep("killed", &Compiled::GivenUp).unwrap();
        diode_formats::write_atomically(&parts.binary("cut"), b"").unwrap();
        fs::remove_file(parts.binary("gone")).unwrap();
        drop(parts);

        let again = Parts::open(&output, "sm_90", TRITON).unwrap().finished().unwrap();
        let mut keys: Vec<&str> = again.keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["bad", "whole"]);
        assert!(Parts::open(&output, "gfx942", TRITON).unwrap().finished().unwrap().is_empty());
    }

    #[test]
    fn a_folder_is_used_by_one_build_and_by_no_stranger() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.pack");
        let first = Parts::open(&output, "sm_90", TRITON).unwrap();
        let error = Parts::open(&output, "sm_90", TRITON).err().unwrap().to_string();
        assert!(error.contains("another diode builds this pack"), "{error}");
        first.remove();
        assert!(!folder.path().join("a.pack.parts").exists());

        let strangers = folder.path().join("b.pack.parts");
        fs::create_dir(&strangers).unwrap();
        diode_formats::write_atomically(&strangers.join("thesis"), b"precious").unwrap();
        let error = Parts::open(&folder.path().join("b.pack"), "sm_90", TRITON).err().unwrap().to_string();
        assert!(error.contains("not from a build"), "{error}");
        assert_eq!(fs::read(strangers.join("thesis")).unwrap(), b"precious");
    }
}
