//! A measuring process, seen from its parent. The two exchange lines of JSON, and the parent can end the
//! process at any time.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Why there is no reply. In either case the process is gone, and the next request starts another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The process did not reply in time and was ended.
    TimedOut,
    /// The process ended by itself.
    Died,
}

/// Owns a measuring process, which starts when it is first needed.
pub(crate) struct MeasuringProcess {
    command: Box<dyn Fn() -> anyhow::Result<Command> + Send>,
    running: Option<LineProcess>,
}

/// A child process that answers lines with lines. It is ended when this value is dropped, whatever it is doing.
pub(crate) struct LineProcess {
    process: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
}

impl LineProcess {
    /// Starts a process in a group of its own. So Ctrl-C reaches only the parent, which lets the work in hand
    /// finish.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let no_pipe = || io::Error::other("it has no pipe");
        let requests = process.stdin.take().ok_or_else(no_pipe)?;
        let output = process.stdout.take().ok_or_else(no_pipe)?;
        let (sender, replies) = channel();
        // The thread ends with the process, or when nobody wants its lines any more.
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { process, requests, replies })
    }

    pub(crate) fn send(&mut self, line: &str) -> io::Result<()> {
        writeln!(self.requests, "{line}").and_then(|()| self.requests.flush())
    }

    /// Waits this long for the next line.
    pub(crate) fn reply(&self, wait: Duration) -> Result<String, RecvTimeoutError> {
        self.replies.recv_timeout(wait)
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        // Either call fails only if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl MeasuringProcess {
    pub(crate) fn new(command: impl Fn() -> anyhow::Result<Command> + Send + 'static) -> Self {
        Self { command: Box::new(command), running: None }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Starts the process if none is running.
    pub(crate) fn start(&mut self) -> anyhow::Result<()> {
        if self.running.is_none() {
            let command = (self.command)()?;
            let program = command.get_program().to_owned();
            let started = LineProcess::start(command);
            let started =
                started.with_context(|| format!("cannot start the measuring process {program:?}"))?;
            self.running = Some(started);
        }
        Ok(())
    }

    /// Sends one line. It does not fail if the process is gone: [`Self::receive`] reports that.
    pub(crate) fn send(&mut self, request: &impl Serialize) -> anyhow::Result<()> {
        self.start()?;
        let line = serde_json::to_string(request).context("cannot encode a request")?;
        if let Some(running) = &mut self.running {
            // A failed write means that the process is gone. Waiting for the reply reports that.
            let _ = running.send(&line);
        }
        Ok(())
    }

    /// Waits for the next line. Ends the process if it does not send the line in time, or once `abandon` is
    /// true. `None` if it was abandoned, `Some(Err(_))` if the process is gone for another reason.
    pub(crate) fn receive<T: DeserializeOwned>(
        &mut self,
        patience: Duration,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Result<T, Lost>>> {
        /// How often a wait looks whether it is abandoned.
        const TURN: Duration = Duration::from_millis(200);
        let began = Instant::now();
        loop {
            let Some(running) = &self.running else { return Ok(Some(Err(Lost::Died))) };
            let lost = match running.reply(TURN.min(patience)) {
                Ok(reply) => {
                    let reply = serde_json::from_str(&reply)
                        .with_context(|| format!("the measuring process answered `{reply:.200}`"))?;
                    return Ok(Some(Ok(reply)));
                }
                Err(RecvTimeoutError::Disconnected) => Some(Lost::Died),
                Err(RecvTimeoutError::Timeout) if abandon() => None,
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= patience => Some(Lost::TimedOut),
                Err(RecvTimeoutError::Timeout) => continue,
            };
            self.end();
            return Ok(lost.map(Err));
        }
    }

    /// Ends the process at once, whatever it is doing.
    pub(crate) fn end(&mut self) {
        self.running = None;
    }
}
