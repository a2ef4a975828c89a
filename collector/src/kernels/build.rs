//! Building a pack: many compilers side by side, and what they finished is kept,
//! so that an interrupted build goes on where it stopped.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, bail};
use diode_core::FailureReason;
use diode_formats::pack::{Pack, PackWriter};

use super::compiler::{Compiled, Compiler, Launch};
use super::parts::Parts;
use super::plan::Job;
use super::python::{Python, TRITON};
use super::request::ARGUMENT_SIZES;
use super::{ABI, ABI_KEY, amdgpu};
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;

/// How many compilers may die of a kernel.
const TRIES: usize = 2;

/// What a build is told besides its jobs.
pub(crate) struct Build<'a> {
    pub(crate) arch: &'a str,
    pub(crate) output: &'a Path,
    pub(crate) python: Option<&'a Path>,
    pub(crate) processes: usize,
    /// The most dynamic shared memory that a block of the architecture may use.
    pub(crate) shared_limit: u32,
}

/// What became of a build.
#[derive(Debug, Default)]
pub(crate) struct Summary {
    pub(crate) built: usize,
    pub(crate) spilling: usize,
    pub(crate) failed: BTreeMap<String, usize>,
    pub(crate) resumed: usize,
    pub(crate) bytes: usize,
}

/// What became of one job.
struct Finished {
    key: String,
    compiled: Compiled,
}

/// Compiles the jobs and writes the pack. `None` if interrupted; what was
/// compiled is kept for the next time.
pub(crate) fn build(
    build: &Build<'_>,
    jobs: &[Job],
    interrupt: &Interrupt,
) -> anyhow::Result<Option<Summary>> {
    check_output(build.output)?;
    let parts = Parts::open(build.output, build.arch)?;
    let mut finished = parts.finished()?;
    let resumed = jobs.iter().filter(|job| finished.contains_key(&job.key)).count();
    let python = Python::prepare(build.python, &parts.folder)?;
    let todo: VecDeque<&Job> = jobs.iter().filter(|job| !finished.contains_key(&job.key)).collect();
    if !todo.is_empty() {
        compile_all(build, &parts, &python, todo, &mut finished, interrupt)?;
    }
    if jobs.iter().any(|job| !finished.contains_key(&job.key)) {
        return Ok(None);
    }
    let (bytes, mut summary) = pack(build, jobs, &parts, &finished)?;
    summary.resumed = resumed;
    summary.bytes = bytes.len();
    diode_formats::write_atomically(build.output, &bytes)
        .with_context(|| format!("cannot write {}", build.output.display()))?;
    parts.remove();
    Ok(Some(summary))
}

/// An output that cannot be written, or that holds something else, is refused before hours of compiling.
fn check_output(output: &Path) -> anyhow::Result<()> {
    if output.symlink_metadata().is_err() {
        return Ok(());
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

fn compile_all(
    build: &Build<'_>,
    parts: &Parts,
    python: &Python,
    todo: VecDeque<&Job>,
    finished: &mut HashMap<String, Compiled>,
    interrupt: &Interrupt,
) -> anyhow::Result<()> {
    let processes = build.processes.min(todo.len());
    let (already, total) = (finished.len(), finished.len() + todo.len());
    let queue = Mutex::new(todo);
    let (sender, results) = channel();
    let mut progress = Progress::new(total as u64, "kernels");
    let failed = AtomicBool::new(false);
    let stop = || interrupt.requested() || failed.load(Ordering::Relaxed);
    thread::scope(|scope| {
        for number in 0..processes {
            let (queue, sender, stop) = (&queue, sender.clone(), &stop);
            scope.spawn(move || work(number, queue, parts, python, &sender, stop, interrupt));
        }
        drop(sender);
        progress.set(already as u64, "starting compilers");
        let mut trouble = None;
        for result in results {
            match result.and_then(|done| parts.keep(&done.key, &done.compiled).map(|()| done)) {
                Ok(done) => {
                    finished.insert(done.key.clone(), done.compiled);
                    progress.set(finished.len() as u64, &done.key);
                }
                Err(error) => {
                    failed.store(true, Ordering::Relaxed);
                    trouble.get_or_insert(error);
                }
            }
        }
        progress.finish();
        trouble.map_or(Ok(()), Err)
    })
}

/// Runs one compiler: it takes jobs until there are none, and is replaced when it dies.
fn work(
    number: usize,
    queue: &Mutex<VecDeque<&Job>>,
    parts: &Parts,
    python: &Python,
    results: &Sender<anyhow::Result<Finished>>,
    stop: &(dyn Fn() -> bool + Sync),
    interrupt: &Interrupt,
) {
    let cache = parts.folder.join(format!("cache-{number}"));
    let mut compiler = None;
    while !stop() {
        let Some(job) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { break };
        let compiled = compile(job, parts, || start(python, &cache, interrupt), &mut compiler);
        let trouble = compiled.is_err();
        // The main thread receives no more once it has given up.
        let sent = results.send(compiled.map(|compiled| Finished { key: job.key.clone(), compiled }));
        if trouble || sent.is_err() {
            return;
        }
        // The compiler's own cache would only fill the disk: every kernel is compiled once.
        let _ = fs::remove_dir_all(&cache);
    }
}

/// Compiles one kernel. A compiler that dies may have been ended by others, so a fresh one tries again.
fn compile(
    job: &Job,
    parts: &Parts,
    start: impl Fn() -> anyhow::Result<Compiler>,
    compiler: &mut Option<Compiler>,
) -> anyhow::Result<Compiled> {
    for _ in 0..TRIES {
        let running = match compiler {
            Some(running) => running,
            None => compiler.insert(start()?),
        };
        if let Some(compiled) = running.compile(job.request.clone(), &parts.binary(&job.key))? {
            return Ok(compiled);
        }
        *compiler = None;
    }
    Ok(Compiled::GivenUp)
}

fn start(python: &Python, cache: &Path, interrupt: &Interrupt) -> anyhow::Result<Compiler> {
    let compiler = Compiler::start(python, cache, interrupt.clone())?;
    if compiler.triton != TRITON {
        let (program, given) = (python.program.display(), &compiler.triton);
        bail!("{program}: got triton {given}, expected {TRITON}; kernels of another version do not compare");
    }
    Ok(compiler)
}

fn pack(
    build: &Build<'_>,
    jobs: &[Job],
    parts: &Parts,
    finished: &HashMap<String, Compiled>,
) -> anyhow::Result<(Vec<u8>, Summary)> {
    let toolchain = BTreeMap::from([
        ("triton".to_owned(), TRITON.to_owned()),
        ("tool".to_owned(), concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned()),
        (ABI_KEY.to_owned(), ABI.to_owned()),
    ]);
    let mut writer = PackWriter::new(build.arch, toolchain);
    let mut summary = Summary::default();
    let (mut multiplications, mut why) = (0, None);
    for job in jobs {
        let key = job.key.clone();
        let mut fail = |writer: &mut PackWriter, reason: FailureReason, message: String| {
            *summary.failed.entry(reason.to_string()).or_default() += 1;
            why = Some(message.clone());
            writer.add_failed(key.clone(), reason, message);
        };
        let launch = match &finished[&job.key] {
            Compiled::Failed(message) if !job.matmul => {
                let folder = parts.folder.display();
                bail!(
                    "{key}: {message}; every collection needs this kernel, so there is no pack without it; \
                     remove {folder} to have it compiled again"
                )
            }
            Compiled::GivenUp if !job.matmul => {
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
            Compiled::Built(launch) if job.wide && launch.copies.iter().any(|&bytes| bytes != 16) => {
                let copies = &launch.copies;
                let message =
                    format!("copies of {copies:?} bytes, expected 16: the compiler lost the alignment");
                fail(&mut writer, FailureReason::Compile, message);
                continue;
            }
            Compiled::Built(launch) => launch,
        };
        let file = parts.binary(&job.key);
        let binary = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if build.arch.starts_with("gfx") && job.matmul {
            amdgpu::check_arguments(&binary, &launch.symbol, &ARGUMENT_SIZES)
                .with_context(|| format!("{}: {}", file.display(), job.key))?;
        }
        let Launch { symbol, threads, shared, registers, stack, .. } = launch;
        writer.add_built(key, symbol.clone(), [*threads, *shared, *registers, *stack], &binary);
        summary.built += 1;
        multiplications += usize::from(job.matmul);
        summary.spilling += usize::from(job.matmul && *stack > 0);
    }
    if multiplications == 0 {
        bail!("no multiplication can be used, so there is no pack; of the last: {}", why.unwrap_or_default());
    }
    Ok((writer.finish(), summary))
}
