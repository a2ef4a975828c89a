//! The parent's side: asks, waits no longer than it must, and replaces a child
//! that hangs or dies.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use diode_core::Problem;

use super::{Reply, Request};

/// Why a request has no reply. The child is gone in either case; the next
/// request starts another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The watchdog ended it.
    TimedOut,
    /// It ended by itself.
    Died,
}

/// Owns the measuring child.
pub(crate) struct Supervisor {
    command: Box<dyn Fn() -> anyhow::Result<Command>>,
    child: Option<Running>,
    loaded: Option<(Problem, u64)>,
}

struct Running {
    process: Child,
    requests: ChildStdin,
    replies: Receiver<String>,
}

impl Supervisor {
    /// Supervises children made with `command`, the first at the first request.
    pub(crate) fn new(command: impl Fn() -> anyhow::Result<Command> + 'static) -> Self {
        Self { command: Box::new(command), child: None, loaded: None }
    }

    /// Loads a problem. It is loaded again by itself into every child that has
    /// to be started later.
    pub(crate) fn load(
        &mut self,
        problem: &Problem,
        seed: u64,
        patience: Duration,
    ) -> anyhow::Result<Result<(), Lost>> {
        self.loaded = None;
        let request = Request::Load { problem: problem.clone(), seed };
        match self.exchange(&request, patience)? {
            Ok(Reply::Loaded) => {
                self.loaded = Some((problem.clone(), seed));
                Ok(Ok(()))
            }
            Ok(other) => anyhow::bail!("the measuring process answered a load with {other:?}"),
            Err(lost) => Ok(Err(lost)),
        }
    }

    /// Asks about the loaded problem.
    pub(crate) fn ask(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> anyhow::Result<Result<Reply, Lost>> {
        if self.child.is_none()
            && let Some((problem, seed)) = self.loaded.take()
            && let Err(lost) = self.load(&problem, seed, patience)?
        {
            return Ok(Err(lost));
        }
        self.exchange(request, patience)
    }

    fn exchange(&mut self, request: &Request, patience: Duration) -> anyhow::Result<Result<Reply, Lost>> {
        let child = match &mut self.child {
            Some(child) => child,
            none => none.insert(start((self.command)()?)?),
        };
        let line = serde_json::to_string(request).context("cannot encode a request")?;
        // A failed write means that the child is gone; the wait below says so too.
        let written = writeln!(child.requests, "{line}").and_then(|()| child.requests.flush());
        let lost = match written.map(|()| child.replies.recv_timeout(patience)) {
            Ok(Ok(reply)) => {
                let reply = serde_json::from_str(&reply)
                    .with_context(|| format!("the measuring process answered `{reply:.200}`"))?;
                return Ok(Ok(reply));
            }
            Ok(Err(RecvTimeoutError::Timeout)) => Lost::TimedOut,
            Ok(Err(RecvTimeoutError::Disconnected)) | Err(_) => Lost::Died,
        };
        self.end();
        Ok(Err(lost))
    }

    /// Ends the child at once, whatever it is doing.
    fn end(&mut self) {
        if let Some(mut child) = self.child.take() {
            // Either call fails only if the child has already ended.
            let _ = child.process.kill();
            let _ = child.process.wait();
        }
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.end();
    }
}

fn start(mut command: Command) -> anyhow::Result<Running> {
    // A Ctrl-C is for the parent, which lets the problem in hand finish.
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut process = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot start the measuring process {:?}", command.get_program()))?;
    let requests = process.stdin.take().context("the measuring process has no stdin")?;
    let output = process.stdout.take().context("the measuring process has no stdout")?;
    let (sender, replies) = channel();
    // Ends with the child, or when nobody listens any more.
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    Ok(Running { process, requests, replies })
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::time::Instant;

    use diode_core::{Config, DType, Op, ProblemFields};

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &'static str) -> Supervisor {
        Supervisor::new(move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            Ok(command)
        })
    }

    fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 16, 16, 16, DType::Float32)).unwrap()
    }

    fn time() -> Request {
        Request::Time { config: Config::Library, repeats: 1, check: false, give_up_ns: None }
    }

    #[test]
    fn a_child_that_hangs_is_ended() {
        let mut supervisor = shell("exec sleep 100");
        let start = Instant::now();
        assert_eq!(supervisor.load(&problem(), 1, SHORT).unwrap(), Err(Lost::TimedOut));
        assert!(start.elapsed() < LONG);
    }

    #[test]
    fn a_child_that_dies_is_replaced_and_loaded_again() {
        // Answers one load and one question, then ends in the middle of the next.
        let mut supervisor =
            shell(r#"read l; echo '"loaded"'; read l; echo '{"timed":{"nanos":[5]}}'; read l; exit 1"#);
        supervisor.load(&problem(), 1, LONG).unwrap().unwrap();
        let answer = Ok(Reply::Timed { nanos: vec![5] });
        assert_eq!(supervisor.ask(&time(), LONG).unwrap(), answer);
        assert_eq!(supervisor.ask(&time(), LONG).unwrap(), Err(Lost::Died));
        assert_eq!(supervisor.ask(&time(), LONG).unwrap(), answer);
    }

    #[test]
    fn nonsense_is_an_error_and_a_missing_program_too() {
        let error = shell("read l; echo what").load(&problem(), 1, LONG).unwrap_err();
        assert!(error.to_string().contains("`what`"), "{error}");
        let mut nobody = Supervisor::new(|| Ok(Command::new("/nonexistent/diode")));
        assert!(nobody.load(&problem(), 1, LONG).unwrap_err().to_string().contains("/nonexistent/diode"));
    }
}
