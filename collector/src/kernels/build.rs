//! Building a pack: many compilers side by side, and a folder that keeps what
//! they finished, so that an interrupted build goes on where it stopped.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context, bail};
use diode_core::FailureReason;
use diode_core::ids::Digest;
use diode_formats::pack::PackWriter;
use serde::{Deserialize, Serialize};

use super::compiler::{Compiled, Compiler, Launch};
use super::plan::Job;
use super::python::{Python, TRITON, sources};
use super::variant::ARGUMENT_SIZES;
use super::{ABI, ABI_KEY, amdgpu};
use crate::interrupt::Interrupt;
use crate::progress::Progress;

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

/// One line of the log of finished kernels.
#[derive(Serialize, Deserialize)]
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
    let parts = Parts::open(build)?;
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
    let mut log = parts.log()?;
    thread::scope(|scope| {
        for number in 0..processes {
            let (queue, sender) = (&queue, sender.clone());
            scope.spawn(move || work(number, queue, parts, python, &sender, interrupt));
        }
        drop(sender);
        progress.set(already as u64, "starting compilers");
        let mut trouble = None;
        for result in results {
            match result {
                Ok(done) => {
                    let line = serde_json::to_string(&done).context("cannot encode a result")?;
                    writeln!(log, "{line}")
                        .with_context(|| format!("cannot write in {}", parts.folder.display()))?;
                    finished.insert(done.key.clone(), done.compiled);
                    progress.set(finished.len() as u64, &done.key);
                }
                Err(error) => trouble = Some(error),
            }
        }
        progress.finish();
        trouble.map_or(Ok(()), Err)
    })
}

/// One compiler's life: takes jobs until there are none, and is replaced when it dies.
fn work(
    number: usize,
    queue: &Mutex<VecDeque<&Job>>,
    parts: &Parts,
    python: &Python,
    results: &Sender<anyhow::Result<Finished>>,
    interrupt: &Interrupt,
) {
    let cache = parts.folder.join(format!("cache-{number}"));
    let mut compiler = None;
    while !interrupt.requested() {
        let Some(job) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { break };
        let running = match compiler.take().map_or_else(|| start(python, &cache), Ok) {
            Ok(running) => compiler.insert(running),
            Err(error) => {
                // Nobody is left to hear it once the main thread has given up.
                let _ = results.send(Err(error));
                return;
            }
        };
        let answer = running.compile(job.request.clone(), &parts.binary(&job.key));
        let compiled = answer.unwrap_or_else(|| {
            compiler = None;
            Compiled::Failed("the compiler crashed or hung".to_owned())
        });
        if results.send(Ok(Finished { key: job.key.clone(), compiled })).is_err() {
            return;
        }
        // The compiler's own cache would only fill the disk: every kernel is compiled once.
        let _ = fs::remove_dir_all(&cache);
    }
}

fn start(python: &Python, cache: &Path) -> anyhow::Result<Compiler> {
    let compiler = Compiler::start(python, cache)?;
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
    for job in jobs {
        let key = job.key.clone();
        let mut fail = |writer: &mut PackWriter, reason: FailureReason, message: String| {
            *summary.failed.entry(reason.to_string()).or_default() += 1;
            writer.add_failed(key.clone(), reason, message);
        };
        let launch = match &finished[&job.key] {
            Compiled::Failed(message) => {
                fail(&mut writer, FailureReason::Compile, message.clone());
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
            Compiled::Built(launch) => launch,
        };
        if job.wide && launch.copies.iter().any(|&bytes| bytes != 16) {
            let copies = &launch.copies;
            bail!("{}: copies of {copies:?} bytes, expected 16: the compiler lost the alignment", job.key);
        }
        let file = parts.binary(&job.key);
        let binary = fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        if build.arch.starts_with("gfx") && job.matmul {
            amdgpu::check_arguments(&binary, &launch.symbol, &ARGUMENT_SIZES)?;
        }
        let Launch { symbol, threads, shared, registers, stack, .. } = launch;
        writer.add_built(key, symbol.clone(), [*threads, *shared, *registers, *stack], &binary);
        summary.built += 1;
        summary.spilling += usize::from(*stack > 0);
    }
    Ok((writer.finish(), summary))
}

/// The folder of a build that is not finished, beside its output.
struct Parts {
    folder: PathBuf,
}

impl Parts {
    /// Goes on with the folder of an earlier build if it was of the same kernels.
    fn open(build: &Build<'_>) -> anyhow::Result<Self> {
        let mut name = build.output.file_name().unwrap_or_default().to_owned();
        name.push(".parts");
        let folder = build.output.with_file_name(name);
        let stamp = Digest::of(format!("{} {TRITON} {}", build.arch, sources()).as_bytes()).to_string();
        let stamp_file = folder.join("stamp");
        if fs::read_to_string(&stamp_file).ok().as_deref() != Some(&stamp) {
            // Compiled from other sources, or for something else: of no use any more.
            if folder.exists() {
                fs::remove_dir_all(&folder).with_context(|| format!("cannot clear {}", folder.display()))?;
            }
            fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
            diode_formats::write_atomically(&stamp_file, stamp.as_bytes())
                .with_context(|| format!("cannot write {}", stamp_file.display()))?;
        }
        Ok(Self { folder })
    }

    fn binary(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{:.32}.bin", Digest::of(key.as_bytes()).to_string()))
    }

    fn log_path(&self) -> PathBuf {
        self.folder.join("finished.jsonl")
    }

    fn log(&self) -> anyhow::Result<File> {
        let path = self.log_path();
        let file = OpenOptions::new().create(true).append(true).open(&path);
        file.with_context(|| format!("cannot write {}", path.display()))
    }

    /// What an earlier build finished. The last line may be half written.
    fn finished(&self) -> anyhow::Result<HashMap<String, Compiled>> {
        let Ok(file) = File::open(self.log_path()) else { return Ok(HashMap::new()) };
        let lines = BufReader::new(file).lines().map_while(Result::ok);
        Ok(lines
            .filter_map(|line| serde_json::from_str::<Finished>(&line).ok())
            .filter(|done| matches!(done.compiled, Compiled::Failed(_)) || self.binary(&done.key).exists())
            .map(|done| (done.key, done.compiled))
            .collect())
    }

    fn remove(self) {
        // The pack is written; a folder left behind costs space and nothing else.
        let _ = fs::remove_dir_all(&self.folder);
    }
}
