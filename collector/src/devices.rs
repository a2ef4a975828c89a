//! The devices that time a problem's configs: the CPU of this node, or its GPUs.
//!
//! Each kind of device has a [`Meter`], which asks a [`MeasuringProcess`] in lines of JSON. A kernel that hangs or
//! crashes ends the measuring process. So it costs one config and never the collection.

pub(crate) mod cpu;
pub(crate) mod gpu;

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use diode_core::hardware::Hardware;
use diode_core::stats::integer_quantile;
use diode_core::{
    Config, ConfigDictionary, Dataset, Failure, FailureReason, Method, Op, Problem, Provenance, Solution,
    TimeColumn,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// One device, with a measuring process of its own.
pub(crate) trait Meter: Send {
    /// The method by which the device takes times.
    fn method(&self) -> Method;

    /// Makes the device use these kernel packs only. Returns the node's facts with the new packs.
    fn use_packs(
        &mut self,
        _packs: &[PathBuf],
        _abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        bail!("this device launches no kernels from packs")
    }

    /// What may keep the device from measuring, read between two problems.
    fn surroundings(&self) -> Surroundings {
        Surroundings::default()
    }

    /// Releases the device until the next problem.
    fn let_go(&mut self) {}

    /// Takes the device again after [`Self::let_go`] or a failure. Gives up once `abandon` is true.
    fn take_again(&mut self, _abandon: &dyn Fn() -> bool) -> anyhow::Result<()> {
        Ok(())
    }

    /// Times configs on a problem. Gives up once `abandon` is true.
    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome>;
}

/// The device cannot take up work again now. It may later, for example after a reset of its driver.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotReady(pub(crate) String);

/// What may keep a device from measuring. `None` if the device does not state it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Surroundings {
    /// How many other processes compute on the device.
    pub(crate) others: Option<usize>,
    pub(crate) celsius: Option<u32>,
    /// Whether heat or the power supply holds the device's clocks down.
    pub(crate) slowed: bool,
}

/// The outcome of a problem.
pub(crate) enum Outcome {
    Measured {
        measured: MeasuredConfigs,
        quality: Quality,
    },
    /// This device or its kernels cannot compute the problem.
    Refused(String),
    Abandoned,
}

/// How well the device could measure a problem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Quality {
    /// Whether the best configs had to be measured again and still disagreed the last time.
    pub(crate) disturbed: bool,
    /// Nanoseconds that the GPU spent in kernels. These are the timed kernels, and kernels that flush its
    /// cache, make the inputs and compare results.
    pub(crate) busy_ns: u64,
    /// Nanoseconds from the request to the last result.
    pub(crate) wall_ns: u64,
    /// How often a launch may have come too late and kept the GPU waiting. Such a launch is timed
    /// again, a few times at most.
    pub(crate) late: u32,
    /// Whether the power limit held the clocks down.
    pub(crate) power_capped: bool,
}

/// The times or the failure of every config of a problem.
#[derive(Debug, Default)]
pub(crate) struct MeasuredConfigs {
    pub(crate) timed: Vec<(Config, Samples)>,
    pub(crate) failed: Vec<(Config, FailureReason)>,
}

impl MeasuredConfigs {
    /// The same failure for every config.
    pub(crate) fn all_failed(configs: &[Config], reason: FailureReason) -> Self {
        Self { timed: Vec::new(), failed: configs.iter().map(|config| (*config, reason)).collect() }
    }

    /// The shortest median time so far.
    pub(crate) fn best(&self) -> Option<u64> {
        self.timed.iter().filter_map(|(_, samples)| samples.median()).min()
    }

    /// The dataset that holds this one problem.
    pub(crate) fn into_dataset(
        self,
        (hardware, provenance): (Hardware, Provenance),
        problem: Problem,
        method: Method,
    ) -> anyhow::Result<Dataset> {
        let mut configs = ConfigDictionary::default();
        let solution = self.into_solution(problem, method, &mut configs)?;
        Ok(Dataset { hardware, provenance, configs, solutions: vec![solution] })
    }

    /// The solution of a problem, in a dataset with these configs.
    pub(crate) fn into_solution(
        self,
        problem: Problem,
        method: Method,
        configs: &mut ConfigDictionary,
    ) -> anyhow::Result<Solution> {
        let rows = &self.timed;
        let solution = Solution {
            problem,
            method,
            configs: rows.iter().map(|(config, _)| configs.intern(*config)).collect(),
            times: TimeColumn::from_nanos(rows.iter().filter_map(|(_, s)| s.median()).collect())?,
            minimum_ns: Some(rows.iter().filter_map(|(_, samples)| samples.minimum()).collect()),
            spread_ns: Some(rows.iter().map(|(_, samples)| samples.spread()).collect()),
            repeats: Some(rows.iter().map(|(_, samples)| samples.count() as u32).collect()),
            failures: self
                .failed
                .iter()
                .map(|&(config, reason)| Failure { config: configs.intern(config), reason })
                .collect(),
        };
        solution.validate(configs)?;
        Ok(solution)
    }
}

/// Adds the library, and if any config rounds the problem's inputs to TF32, also the library that does so. No library
/// multiplies by experts.
pub(crate) fn add_libraries(configs: &mut Vec<Config>, problem: &Problem) {
    if problem.op == Op::FusedMoe {
        return;
    }
    let rounds = configs.iter().any(|config| config.rounds(problem));
    configs.push(Config::Library);
    configs.extend(rounds.then_some(Config::RoundingLibrary));
}

/// The measured times in nanoseconds, in any order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<u64>);

impl FromIterator<u64> for Samples {
    fn from_iter<I: IntoIterator<Item = u64>>(nanos: I) -> Self {
        let mut samples = Self::default();
        samples.add(nanos);
        samples
    }
}

impl Samples {
    pub(crate) fn add(&mut self, nanos: impl IntoIterator<Item = u64>) {
        self.0.extend(nanos);
        self.0.sort_unstable();
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The middle value, or the mean of the two middle values. `None` if there are none.
    pub(crate) fn median(&self) -> Option<u64> {
        integer_quantile(&self.0, 2, 4)
    }

    pub(crate) fn minimum(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// The interquartile range. It is 0 for a single repeat.
    pub(crate) fn spread(&self) -> u64 {
        let quartile = |part| integer_quantile(&self.0, part, 4);
        quartile(3).zip(quartile(1)).map_or(0, |(upper, lower)| upper - lower)
    }
}

/// Why a measuring process gives no answer. The process is gone then, and the next request starts another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lost {
    /// The process did not answer in time and was ended.
    TimedOut,
    /// The process ended by itself.
    Died,
    /// Nobody wants the answer any more.
    Abandoned,
}

impl Lost {
    /// The failure of a config that a process was lost with.
    pub(crate) fn reason(self) -> FailureReason {
        match self {
            Self::TimedOut => FailureReason::Timeout,
            Self::Died | Self::Abandoned => FailureReason::Launch,
        }
    }
}

/// Owns a measuring process, which starts when it is first asked.
pub(crate) struct MeasuringProcess {
    command: Box<dyn Fn() -> Command + Send>,
    running: Option<LineProcess>,
}

impl MeasuringProcess {
    pub(crate) fn new(command: impl Fn() -> Command + Send + 'static) -> Self {
        Self { command: Box::new(command), running: None }
    }

    pub(crate) fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Ends the process at once, whatever it is doing.
    pub(crate) fn end(&mut self) {
        self.running = None;
    }

    /// Starts the process if none is running, and sends the request. Without a request, it waits for what the process
    /// says at its start. Every line of the answer goes to `read`, until that makes something of a line. The process is
    /// ended if a line does not come in time, or once `abandon` is true.
    pub(crate) fn ask<A: DeserializeOwned, R>(
        &mut self,
        request: Option<&impl Serialize>,
        patience: Duration,
        abandon: &dyn Fn() -> bool,
        mut read: impl FnMut(A) -> Option<R>,
    ) -> anyhow::Result<Result<R, Lost>> {
        let running = match &mut self.running {
            Some(running) => running,
            none => {
                let command = (self.command)();
                let program = command.get_program().to_owned();
                let started = LineProcess::start(command);
                none.insert(
                    started.with_context(|| format!("cannot start the measuring process {program:?}"))?,
                )
            }
        };
        if let Some(request) = request {
            let line = serde_json::to_string(request).context("cannot encode a request")?;
            // A failed write means that the process is gone. Waiting for the answer reports that.
            let _ = running.send(&line);
        }
        let lost = loop {
            match running.reply(patience, abandon) {
                Err(lost) => break lost,
                Ok(line) => {
                    let line = serde_json::from_str(&line)
                        .with_context(|| format!("the measuring process answered `{line:.200}`"))?;
                    if let Some(answer) = read(line) {
                        return Ok(Ok(answer));
                    }
                }
            }
        };
        self.end();
        Ok(Err(lost))
    }
}

/// Says one thing on a line of its own, as measuring processes do.
pub(crate) fn say_line(mut to: impl Write, message: &impl Serialize) -> anyhow::Result<()> {
    serde_json::to_writer(&mut to, message)?;
    to.write_all(b"\n")?;
    Ok(to.flush()?)
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

    /// The next line, if it comes in time and before `abandon` is true.
    pub(crate) fn reply(&self, patience: Duration, abandon: &dyn Fn() -> bool) -> Result<String, Lost> {
        /// How often a wait looks whether it is abandoned.
        const TURN: Duration = Duration::from_millis(200);
        let began = Instant::now();
        loop {
            match self.replies.recv_timeout(TURN.min(patience)) {
                Ok(line) => return Ok(line),
                Err(RecvTimeoutError::Disconnected) => return Err(Lost::Died),
                Err(RecvTimeoutError::Timeout) if abandon() => return Err(Lost::Abandoned),
                Err(RecvTimeoutError::Timeout) if began.elapsed() >= patience => return Err(Lost::TimedOut),
                Err(RecvTimeoutError::Timeout) => {}
            }
        }
    }
}

impl Drop for LineProcess {
    fn drop(&mut self) {
        // Either call fails only if the process has already ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let of = |values: &[u64]| {
            let samples: Samples = values.iter().copied().collect();
            (samples.median(), samples.spread(), samples.minimum())
        };
        assert_eq!(of(&[]), (None, 0, None));
        assert_eq!(of(&[7]), (Some(7), 0, Some(7)));
        assert_eq!(of(&[30, 10]), (Some(20), 10, Some(10)));
        assert_eq!(of(&[50, 10, 30, 20, 40]), (Some(30), 20, Some(10)));
        assert_eq!(of(&[100, 1, 2, 3]), (Some(2), 26, Some(1)));
    }
}
