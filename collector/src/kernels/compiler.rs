//! One compiler: a Python process that answers each line with a line.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::python::Python;
use crate::failure::Interrupted;
use crate::interrupt::Interrupt;

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
enum Answer {
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
    process: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
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
        command
            .arg(&python.script)
            .env("TRITON_CACHE_DIR", cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        // A Ctrl-C is not for the compiler. The current kernel is compiled and kept.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process =
            command.spawn().with_context(|| format!("cannot start {}", python.program.display()))?;
        let requests = process.stdin.take().context("the compiler has no stdin")?;
        let output = process.stdout.take().context("the compiler has no stdout")?;
        let (sender, replies) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut compiler = Self { process, requests, replies, interrupt, triton: String::new() };
        let hello = compiler.reply(START_PATIENCE)?;
        let Some(Ok(Hello { triton })) = hello.as_deref().map(serde_json::from_str) else {
            bail!("{}: cannot import triton; check with `-c 'import triton'`", python.program.display());
        };
        compiler.triton = triton;
        Ok(compiler)
    }

    /// The next line. `None` if the process is gone, or silent for too long.
    fn reply(&self, patience: Duration) -> anyhow::Result<Option<String>> {
        const TURN: Duration = Duration::from_millis(200);
        let began = Instant::now();
        loop {
            match self.replies.recv_timeout(TURN.min(patience)) {
                Ok(line) => return Ok(Some(line)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) if self.interrupt.insisted() => {
                    let words = "interrupted; the same command goes on with what is compiled";
                    return Err(Interrupted::new(words).into());
                }
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= patience => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }

    /// Compiles one kernel to a file. `None` if the process is gone or hangs.
    pub(crate) fn compile(&mut self, mut request: Value, file: &Path) -> anyhow::Result<Option<Compiled>> {
        request["file"] = file.to_string_lossy().into();
        let sent = writeln!(self.requests, "{request}").and_then(|()| self.requests.flush());
        let Some(line) = sent.ok().map(|()| self.reply(PATIENCE)).transpose()?.flatten() else {
            return Ok(None);
        };
        match serde_json::from_str(&line) {
            Ok(Answer::Built(launch)) => Ok(Some(Compiled::Built(launch))),
            Ok(Answer::Failed(reason)) => Ok(Some(Compiled::Failed(reason))),
            Ok(Answer::Trouble(what)) => {
                bail!("cannot compile: {what}; what is compiled is kept, the same command goes on with it")
            }
            Err(_) => Ok(None),
        }
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // Either call fails only if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
