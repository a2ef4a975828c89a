//! What torch runs where cuBLASLt has no multiplication: timed by a Python that has torch, see `kernels/library.py`.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::bail;
use diode_core::Problem;
use serde::{Deserialize, Serialize};

use crate::devices::gpu::operands::copies;
use crate::devices::gpu::routing::ends_of_groups;
use crate::devices::{Lost, MeasuringProcess, Samples};
use crate::failure::Interrupted;

const SCRIPT: &str = include_str!("../../../kernels/library.py");
/// How long importing torch may take from a cold disk.
const START: Duration = Duration::from_secs(120);

#[derive(Serialize)]
struct Request<'a> {
    problem: &'a Problem,
    copies: u64,
    /// The row after the last of each group, for each routing.
    ends: Vec<Vec<u32>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    /// The version of torch.
    Ready(String),
    /// Nanoseconds of each launch.
    Timed(Vec<u64>),
    Refused(String),
}

/// A process with torch on one GPU.
pub(super) struct Torch {
    process: MeasuringProcess,
    pub(super) version: String,
}

impl Torch {
    /// Starts the process. Gives up once `abandon` is true.
    pub(super) fn start(python: &Path, device: u32, abandon: &dyn Fn() -> bool) -> anyhow::Result<Self> {
        let program = python.to_owned();
        let mut process = MeasuringProcess::new(move || {
            let mut command = Command::new(&program);
            command.args(["-c", SCRIPT, &device.to_string()]).stderr(Stdio::null());
            command
        });
        match process.ask(None::<&Request<'_>>, START, abandon, Some)? {
            Ok(Answer::Ready(version)) => Ok(Self { process, version }),
            Err(Lost::Abandoned) => Err(Interrupted::new("interrupted while torch was starting").into()),
            _ => bail!(
                "--torch: {} has no torch that sees GPU {device}; check with `-c 'import torch; print(torch.cuda.device_count())'`",
                python.display()
            ),
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.is_running()
    }

    pub(super) fn end(&mut self) {
        self.process.end();
    }

    /// The times of a problem, or why torch has none. `None` if nobody wants them any more.
    pub(super) fn time(
        &mut self,
        problem: &Problem,
        patience: Duration,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Result<Samples, String>>> {
        let ends = if problem.op.is_grouped() { ends_of_groups(problem) } else { Vec::new() };
        let request = Request { problem, copies: copies(problem), ends };
        // A process that was lost says first that it is ready again.
        let patience = if self.is_running() { patience } else { patience.max(START) };
        let read = |answer| match answer {
            Answer::Ready(_) => None,
            Answer::Timed(nanos) => Some(Ok(nanos.into_iter().collect())),
            Answer::Refused(why) => Some(Err(why)),
        };
        match self.process.ask(Some(&request), patience, abandon, read)? {
            Ok(answer) => Ok(Some(answer)),
            Err(Lost::Abandoned) => Ok(None),
            Err(Lost::TimedOut) => Ok(Some(Err("torch did not answer in time".to_owned()))),
            Err(Lost::Died) => Ok(Some(Err("the process with torch ended".to_owned()))),
        }
    }
}
