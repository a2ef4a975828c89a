//! Compilers: Python processes that answer each line with a line, many side by side, and the Python that runs them.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use std::{fs, thread};

use anyhow::{Context, bail};
use diode_formats::write_atomically;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::devices::{LineProcess, Lost};
use crate::failure::Interrupted;
use crate::interrupt::Interrupt;
use crate::kernels::build::Parts;
use crate::kernels::plan::PlannedKernel;
use crate::output::files;
use crate::output::log::Progress;

/// The slowest kernel that was seen took 20 seconds. A compiler that takes this long hangs.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long a start may take. Importing Triton from a cold disk takes half a minute.
const START_PATIENCE: Duration = Duration::from_secs(120);

/// The outcome of one kernel.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Compiled {
    Built(Launch),
    Failed(String),
    /// The compiler died while it compiled this kernel. The kernel may not be the cause.
    #[serde(skip)]
    GivenUp,
}

/// One line from the compiler.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
    Built(Launch),
    Failed(String),
    /// A problem that has nothing to do with the kernel, such as a full disk.
    Trouble(String),
}

/// What the compiler states about a binary.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Launch {
    pub(crate) symbol: String,
    pub(crate) threads: u32,
    pub(crate) shared: u32,
    pub(crate) registers: u32,
    pub(crate) stack: u32,
    pub(crate) global_scratch: u64,
    /// For each kind of asynchronous copy in the code, how many bytes it moves.
    pub(crate) copies: Vec<u32>,
}

/// A running compiler.
pub(crate) struct Compiler {
    process: LineProcess,
    interrupt: Interrupt,
    pub(crate) triton: String,
}

#[derive(Deserialize)]
struct Hello {
    triton: String,
}

impl Compiler {
    /// Starts a compiler, whose scratch files go to `cache`. A second Ctrl-C ends the wait for it.
    pub(crate) fn start(python: &Python, cache: &Path, interrupt: Interrupt) -> anyhow::Result<Self> {
        let mut command = Command::new(&python.program);
        command.arg(&python.script).env("TRITON_CACHE_DIR", cache).stderr(Stdio::null());
        let process = LineProcess::start(command)
            .with_context(|| format!("cannot start {}", python.program.display()))?;
        let mut compiler = Self { process, interrupt, triton: String::new() };
        let hello = compiler.reply(START_PATIENCE)?;
        let Some(Ok(Hello { triton })) = hello.as_deref().map(serde_json::from_str) else {
            bail!("{}: cannot import triton; check with `-c 'import triton'`", python.program.display());
        };
        compiler.triton = triton;
        Ok(compiler)
    }

    /// The next line. `None` if the process is gone, or silent for too long.
    fn reply(&self, patience: Duration) -> anyhow::Result<Option<String>> {
        match self.process.reply(patience, &|| self.interrupt.insisted()) {
            Ok(line) => Ok(Some(line)),
            Err(Lost::Abandoned) => {
                let words = "interrupted; the same command goes on with what is compiled";
                Err(Interrupted::new(words).into())
            }
            Err(Lost::Died | Lost::TimedOut) => Ok(None),
        }
    }

    /// Compiles one kernel to a file. `None` if the process is gone or hangs.
    pub(crate) fn compile(&mut self, mut request: Value, file: &Path) -> anyhow::Result<Option<Compiled>> {
        request["file"] = file.to_string_lossy().into();
        let sent = self.process.send(&request.to_string());
        let Some(line) = sent.ok().map(|()| self.reply(PATIENCE)).transpose()?.flatten() else {
            return Ok(None);
        };
        match serde_json::from_str(&line) {
            Ok(Reply::Built(launch)) => Ok(Some(Compiled::Built(launch))),
            Ok(Reply::Failed(reason)) => Ok(Some(Compiled::Failed(reason))),
            Ok(Reply::Trouble(what)) => {
                bail!("cannot compile: {what}; what is compiled is kept, the same command goes on with it")
            }
            Err(_) => Ok(None),
        }
    }
}

/// A kernel is given up after this many compilers died while they compiled it.
const TRIES: usize = 2;

/// The state that all compilers share.
pub(super) struct Compilers<'a> {
    parts: &'a Parts,
    python: &'a Python,
    interrupt: &'a Interrupt,
    queue: Mutex<VecDeque<&'a PlannedKernel>>,
    /// Whether a compiler failed for a reason other than its kernel. Then the others need not go on.
    failed: AtomicBool,
}

impl<'a> Compilers<'a> {
    pub(super) fn new(
        parts: &'a Parts,
        python: &'a Python,
        interrupt: &'a Interrupt,
        todo: VecDeque<&'a PlannedKernel>,
    ) -> Self {
        Self { parts, python, interrupt, queue: Mutex::new(todo), failed: AtomicBool::new(false) }
    }

    /// Compiles all kernels with this many processes. Compiled kernels are kept and added to `finished`.
    pub(super) fn run(
        &self,
        processes: usize,
        finished: &mut HashMap<String, Compiled>,
    ) -> anyhow::Result<()> {
        let todo = self.queue.lock().unwrap_or_else(PoisonError::into_inner).len();
        let (already, total) = (finished.len(), finished.len() + todo);
        let (sender, results) = channel();
        let mut progress = Progress::new(total as u64, "kernels");
        thread::scope(|scope| {
            for number in 0..processes.min(todo) {
                let sender = sender.clone();
                scope.spawn(move || self.work(number, &sender));
            }
            drop(sender);
            progress.go_on_from(already as u64);
            progress.set(already as u64, "starting compilers");
            let mut trouble = None;
            for result in results {
                match result
                    .and_then(|(key, compiled)| self.parts.keep(key, &compiled).map(|()| (key, compiled)))
                {
                    Ok((key, compiled)) => {
                        finished.insert(key.to_owned(), compiled);
                        progress.set(finished.len() as u64, key);
                    }
                    Err(error) => {
                        self.failed.store(true, Ordering::Relaxed);
                        trouble.get_or_insert(error);
                    }
                }
            }
            trouble.map_or(Ok(()), Err)
        })
    }

    /// Runs one compiler until no kernel is left. If the compiler dies, another one replaces it.
    fn work(&self, number: usize, results: &Sender<anyhow::Result<(&'a str, Compiled)>>) {
        let cache = self.parts.folder.join(format!("cache-{number}"));
        let mut compiler = None;
        while !(self.interrupt.requested() || self.failed.load(Ordering::Relaxed)) {
            let Some(kernel) = self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else {
                break;
            };
            let compiled = self.compile(kernel, &cache, &mut compiler);
            let trouble = compiled.is_err();
            // Sending fails if the main thread has given up.
            let sent = results.send(compiled.map(|compiled| (kernel.key.as_str(), compiled)));
            if trouble || sent.is_err() {
                return;
            }
            // Triton's own cache would only fill the disk, because every kernel is compiled once.
            let _ = fs::remove_dir_all(&cache);
        }
    }

    /// Compiles one kernel. If the compiler dies, a new one tries again, because the kernel may not be
    /// the cause.
    fn compile(
        &self,
        kernel: &PlannedKernel,
        cache: &Path,
        compiler: &mut Option<Compiler>,
    ) -> anyhow::Result<Compiled> {
        for _ in 0..TRIES {
            let running = match compiler {
                Some(running) => running,
                None => compiler.insert(self.start(cache)?),
            };
            if let Some(compiled) =
                running.compile(kernel.request.clone(), &self.parts.binary(&kernel.key))?
            {
                return Ok(compiled);
            }
            *compiler = None;
        }
        Ok(Compiled::GivenUp)
    }

    fn start(&self, cache: &Path) -> anyhow::Result<Compiler> {
        let compiler = Compiler::start(self.python, cache, self.interrupt.clone())?;
        let Python { program, triton, .. } = self.python;
        if compiler.triton != *triton {
            let (program, given) = (program.display(), &compiler.triton);
            bail!(
                "{program}: got triton {given}, expected {triton}; name the version of a pack with --triton"
            );
        }
        Ok(compiler)
    }
}

/// The version of Triton that kernels are compiled with unless another one is asked for.
pub(crate) const TRITON: &str = "3.6.0";
/// The versions that kernels were compiled with. A pack has kernels of one, which its times name: other versions
/// compile other code.
pub(crate) const TRITONS: [&str; 2] = [TRITON, "3.8.0"];

/// The Python sources that this program contains. A build writes them into its folder.
const SOURCES: [(&str, &str); 4] = [
    ("matmul.py", include_str!("../../kernels/matmul.py")),
    ("serving.py", include_str!("../../kernels/serving.py")),
    ("support.py", include_str!("../../kernels/support.py")),
    ("compile.py", include_str!("../../kernels/compile.py")),
];

/// A Python that can import Triton, and the script that it runs.
#[derive(Debug, Clone)]
pub(crate) struct Python {
    pub(crate) program: PathBuf,
    pub(crate) script: PathBuf,
    /// The version of Triton that it must have.
    pub(crate) triton: String,
}

impl Python {
    /// Writes the sources into `folder`. Without `program`, makes a virtual environment with this version of
    /// Triton, once for all builds.
    pub(crate) fn prepare(program: Option<&Path>, triton: &str, folder: &Path) -> anyhow::Result<Self> {
        for (name, text) in SOURCES {
            let path = folder.join(name);
            write_atomically(&path, text.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        let program = match program {
            Some(program) => program.to_owned(),
            None => environment(triton)?,
        };
        Ok(Self { program, script: folder.join("compile.py"), triton: triton.to_owned() })
    }
}

/// All sources as one text. If a kernel changes, the text changes, and a new build begins.
pub(crate) fn sources() -> String {
    SOURCES.iter().flat_map(|(name, text)| [*name, "\n", *text, "\n"]).collect()
}

/// A Python on this node with the Triton that the kernels are written for: the environment of an earlier
/// build, or the system's Python. `None` if there is none. Nothing is installed.
pub(super) fn installed() -> anyhow::Result<Option<PathBuf>> {
    let folder = cache_folder()?.join(format!("triton-{TRITON}"));
    if folder.join("ready").exists() {
        return Ok(Some(folder.join("bin").join("python")));
    }
    let asked = Command::new("python3")
        .args(["-c", "import triton; print(triton.__version__)"])
        .stdin(Stdio::null())
        .output();
    let found = asked.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == TRITON);
    Ok(found.then(|| PathBuf::from("python3")))
}

fn environment(triton: &str) -> anyhow::Result<PathBuf> {
    let folder = cache_folder()?.join(format!("triton-{triton}"));
    let program = folder.join("bin").join("python");
    let ready = folder.join("ready");
    if ready.exists() {
        return Ok(program);
    }
    say!("making a Python environment with triton {triton} in {} (once)", folder.display());
    run(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&folder)).context(
        "install Python 3.10 or newer with its venv module, or name one that has triton with --python",
    )?;
    run(Command::new(&program).args(["-m", "pip", "install", "--quiet", &format!("triton=={triton}")]))
        .context(
            "cannot install triton; on a machine without network, name a Python that has it with --python",
        )?;
    write_atomically(&ready, b"").with_context(|| format!("cannot write {}", ready.display()))?;
    Ok(program)
}

/// The user's folder for files that can be made or fetched again.
pub(crate) fn cache_folder() -> anyhow::Result<PathBuf> {
    let folder = files::user_folder("XDG_CACHE_HOME", ".cache")
        .context("neither XDG_CACHE_HOME nor HOME is set, so there is no place for packs and compilers")?
        .join("diode");
    fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
    Ok(folder)
}

fn run(command: &mut Command) -> anyhow::Result<()> {
    let name = command.get_program().to_owned();
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run {name:?}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        bail!("{name:?} failed: {}", words.lines().rfind(|line| !line.is_empty()).unwrap_or("no message"));
    }
    Ok(())
}
