//! The measuring process of the CPU, as its parent sees it. A process that hangs or dies is
//! replaced.

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use diode_core::{Config, FailureReason, Problem};
use serde::{Deserialize, Serialize};

use crate::devices::measuring_process::{Lost, MeasuringProcess};

/// Owns the measuring process, and keeps the problem that it has loaded.
pub(crate) struct CpuProcess {
    process: MeasuringProcess,
    loaded: Option<(Problem, u64)>,
}

impl CpuProcess {
    /// Starts processes with `command`. The first is started at the first request.
    pub(crate) fn new(command: impl Fn() -> anyhow::Result<Command> + Send + 'static) -> Self {
        Self { process: MeasuringProcess::new(command), loaded: None }
    }

    /// Loads a problem. If this process is replaced later, the new one loads the same problem.
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

    /// Sends a request about the loaded problem.
    pub(crate) fn ask(
        &mut self,
        request: &Request,
        patience: Duration,
    ) -> anyhow::Result<Result<Reply, Lost>> {
        if !self.process.is_running()
            && let Some((problem, seed)) = self.loaded.take()
            && let Err(lost) = self.load(&problem, seed, patience)?
        {
            return Ok(Err(lost));
        }
        self.exchange(request, patience)
    }

    fn exchange(&mut self, request: &Request, patience: Duration) -> anyhow::Result<Result<Reply, Lost>> {
        self.process.send(request)?;
        let reply = self.process.receive(patience, &|| false)?;
        reply.context("a wait that nobody abandons was abandoned")
    }
}

/// What the parent sends.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub(crate) enum Request {
    /// Make the inputs of a problem. They replace the inputs of the previous problem.
    Load { problem: Problem, seed: u64 },
    /// Launch a config once to warm the caches, then `repeats` times for the times.
    Time {
        config: Config,
        repeats: u32,
        /// Compare the result with the reference after the first launch.
        check: bool,
        /// If the first launch takes longer than this, no other follows and its time counts.
        give_up_ns: Option<u64>,
    },
}

/// What the measuring process sends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Reply {
    Loaded,
    Timed {
        nanos: Vec<u64>,
    },
    Failed {
        reason: FailureReason,
    },
    /// The request made no sense. That is a mistake in the program and not in a config.
    Confused {
        message: String,
    },
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::time::Instant;

    use diode_core::{Config, DType, Op, ProblemFields};

    use super::*;

    const SHORT: Duration = Duration::from_millis(200);
    const LONG: Duration = Duration::from_secs(20);

    fn shell(script: &'static str) -> CpuProcess {
        CpuProcess::new(move || {
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
    fn a_process_that_hangs_is_ended() {
        let mut process = shell("exec sleep 100");
        let start = Instant::now();
        assert_eq!(process.load(&problem(), 1, SHORT).unwrap(), Err(Lost::TimedOut));
        assert!(start.elapsed() < LONG);
    }

    #[test]
    fn a_process_that_dies_is_replaced_and_loaded_again() {
        // The process answers one load and one question, then ends during the next question.
        let mut process =
            shell(r#"read l; echo '"loaded"'; read l; echo '{"timed":{"nanos":[5]}}'; read l; exit 1"#);
        process.load(&problem(), 1, LONG).unwrap().unwrap();
        let answer = Ok(Reply::Timed { nanos: vec![5] });
        assert_eq!(process.ask(&time(), LONG).unwrap(), answer);
        assert_eq!(process.ask(&time(), LONG).unwrap(), Err(Lost::Died));
        assert_eq!(process.ask(&time(), LONG).unwrap(), answer);
    }

    #[test]
    fn nonsense_is_an_error_and_a_missing_program_too() {
        let error = shell("read l; echo what").load(&problem(), 1, LONG).unwrap_err();
        assert!(error.to_string().contains("`what`"), "{error}");
        let mut missing = CpuProcess::new(|| Ok(Command::new("/nonexistent/diode")));
        assert!(missing.load(&problem(), 1, LONG).unwrap_err().to_string().contains("/nonexistent/diode"));
    }
}
