//! Measures on this node's CPU: a blocked matrix multiplication in a process of its own.

mod matmul;
#[cfg(unix)]
#[cfg(test)]
mod tests;

use std::io::{self, BufRead, Write};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_core::{Config, FailureReason, Method, Problem};
use serde::{Deserialize, Serialize};

use crate::devices::cpu::matmul::{Inputs, Output, Workspace, launch, verify};
use crate::devices::{Lost, MeasuredConfigs, MeasuringProcess, Meter, Outcome, Quality, Samples, say_line};
use crate::node;

/// The [`Meter`] of the CPU.
pub(crate) struct CpuMeter {
    process: MeasuringProcess,
    seed: u64,
}

impl CpuMeter {
    pub(crate) fn new(seed: u64) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the diode program itself")?;
        let process = MeasuringProcess::new(move || {
            let mut command = Command::new(&program);
            command.arg("measure-worker");
            command
        });
        Ok(Self { process, seed })
    }
}

impl Meter for CpuMeter {
    fn method(&self) -> Method {
        Method::MEDIAN_WARM_WALL
    }

    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        if let Err(reason) = matmul::supports(problem) {
            return Ok(Outcome::Refused(reason));
        }
        let measured = if fits_in_memory(problem) {
            self.time_all(problem, configs, abandon)?
        } else {
            Some(MeasuredConfigs::all_failed(configs, FailureReason::OutOfMemory))
        };
        Ok(measured.map_or(Outcome::Abandoned, |measured| Outcome::Measured {
            measured,
            quality: Quality::default(),
        }))
    }
}

/// Whether inputs and output fit in the free memory, with a fifth of it left to the system. True if
/// the system does not say how much is free.
fn fits_in_memory(problem: &Problem) -> bool {
    node::available_memory().is_none_or(|bytes| matmul::bytes_needed(problem) <= bytes as f64 * 0.8)
}

impl CpuMeter {
    /// Times `configs` on a problem. `None` if `abandon` became true in between.
    fn time_all(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<MeasuredConfigs>> {
        if let Err(lost) = self.load(problem, patience_to_load(problem))? {
            // Loading only allocates and fills memory, so if the process dies, memory has run out.
            let reason = if lost == Lost::Died { FailureReason::OutOfMemory } else { lost.reason() };
            return Ok(Some(MeasuredConfigs::all_failed(configs, reason)));
        }
        let mut measured = MeasuredConfigs::default();
        for config in configs {
            if abandon() {
                return Ok(None);
            }
            let best = measured.best();
            let look = Request::Time {
                config: *config,
                repeats: 1,
                check: true,
                give_up_ns: Some(one_launch_is_enough(best)),
            };
            match self.time(problem, &look, patience_to_run(problem, 2, best))? {
                Ok(nanos) => measured.timed.push((*config, nanos.into_iter().collect())),
                Err(reason) => measured.failed.push((*config, reason)),
            }
        }
        self.repeat(problem, &mut measured, abandon).map(|finished| finished.then_some(measured))
    }

    /// Repeats until every config is settled. `false` if `abandon` became true before that.
    fn repeat(
        &mut self,
        problem: &Problem,
        measured: &mut MeasuredConfigs,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<bool> {
        loop {
            let Some(best) = measured.best() else { return Ok(true) };
            let mut settled = true;
            let mut row = 0;
            while row < measured.timed.len() {
                let (config, samples) = &mut measured.timed[row];
                let repeats = more_repeats(samples, best);
                row += 1;
                if repeats == 0 {
                    continue;
                }
                if abandon() {
                    return Ok(false);
                }
                settled = false;
                let request = Request::Time { config: *config, repeats, check: false, give_up_ns: None };
                match self.time(problem, &request, patience_to_run(problem, repeats + 1, Some(best)))? {
                    Ok(nanos) => samples.add(nanos),
                    // The config ran before and fails now, so its earlier times cannot be trusted.
                    Err(reason) => {
                        row -= 1;
                        let (config, _) = measured.timed.remove(row);
                        measured.failed.push((config, reason));
                    }
                }
            }
            if settled {
                return Ok(true);
            }
        }
    }

    /// Lets the process make the inputs of a problem.
    fn load(&mut self, problem: &Problem, patience: Duration) -> anyhow::Result<Result<(), Lost>> {
        match self.ask(&Request::Load { problem: problem.clone(), seed: self.seed }, patience)? {
            Ok(Reply::Loaded) => Ok(Ok(())),
            Ok(other) => bail!("the measuring process answered a load with {other:?}"),
            Err(lost) => Ok(Err(lost)),
        }
    }

    /// Asks for times on the problem that was loaded last. A process that replaces a lost one loads it again.
    fn time(
        &mut self,
        problem: &Problem,
        request: &Request,
        patience: Duration,
    ) -> anyhow::Result<Result<Vec<u64>, FailureReason>> {
        if !self.process.is_running()
            && let Err(lost) = self.load(problem, patience_to_load(problem))?
        {
            return Ok(Err(lost.reason()));
        }
        match self.ask(request, patience)? {
            Ok(Reply::Timed { nanos }) if !nanos.is_empty() => Ok(Ok(nanos)),
            Ok(Reply::Failed { reason }) => Ok(Err(reason)),
            Ok(other) => bail!("the measuring process answered a timing with {other:?}"),
            Err(lost) => Ok(Err(lost.reason())),
        }
    }

    fn ask(&mut self, request: &Request, patience: Duration) -> anyhow::Result<Result<Reply, Lost>> {
        self.process.ask(Some(request), patience, &|| false, Some)
    }
}

/// A config that is slower than the best so far by more than this factor is hopeless: one look is
/// enough.
const HOPELESS: f64 = 3.0;
/// A launch this long warms its own caches. An untimed launch before it would cost as much and
/// change nothing.
const SELF_WARMING_NANOS: u64 = 500_000_000;
/// A config within this factor of the best so far is promising: it may turn out to be the best.
const PROMISING: f64 = 1.25;
/// Repeats of a config that is neither promising nor hopeless.
const ORDINARY_REPEATS: usize = 3;
/// The fewest repeats of a promising config. With fewer, an interquartile range means nothing.
const MIN_REPEATS: usize = 7;
/// The most repeats of a config, however noisy it is.
const MAX_REPEATS: usize = 25;
/// The spread that is small enough, as a share of the median.
const STEADY: f64 = 0.02;
/// Repeats per turn. Configs take turns, so that a slow moment of the machine does not fall on one
/// config alone.
const TURN: usize = 4;
/// A config is not repeated further once its repeats have taken this long in all.
const MAX_NANOS: u64 = 1_000_000_000;

/// If a config's first launch takes longer than this, no other launch follows.
fn one_launch_is_enough(best: Option<u64>) -> u64 {
    best.map_or(SELF_WARMING_NANOS, |best| SELF_WARMING_NANOS.min((best as f64 * HOPELESS) as u64))
}

/// How many repeats to add now. 0 if the config is settled.
///
/// Most configs of a space are far from the best, and one look is enough to see that. The times of
/// configs near the best differ by less than their noise, so these configs are repeated until the
/// spread is small.
fn more_repeats(samples: &Samples, best: u64) -> u32 {
    let Some(median) = samples.median() else { return 0 };
    let (count, ratio) = (samples.count(), median as f64 / best.max(1) as f64);
    if ratio > HOPELESS || median.saturating_mul(count as u64) > MAX_NANOS {
        return 0;
    }
    let wanted = if ratio > PROMISING {
        ORDINARY_REPEATS
    } else if count < MIN_REPEATS || samples.spread() as f64 > STEADY * median as f64 {
        (count + TURN).min(MAX_REPEATS)
    } else {
        count
    };
    wanted.saturating_sub(count) as u32
}

/// A part of every limit: enough to start a process on a machine that is busy with other things.
const BASE: Duration = Duration::from_secs(20);
/// Even the slowest config that works is faster than this on the slowest core in use.
const SLOWEST_FLOPS_PER_SECOND: f64 = 2e8;
/// How fast the slowest core makes inputs. Each byte is written once.
const SLOWEST_BYTES_PER_SECOND: f64 = 2e7;

/// The limit for making a problem's inputs.
fn patience_to_load(problem: &Problem) -> Duration {
    BASE + seconds(problem.bytes() / SLOWEST_BYTES_PER_SECOND)
}

/// The limit for `launches` launches. If there is a best launch so far, its time gives a far better
/// limit than the sizes.
fn patience_to_run(problem: &Problem, launches: u32, best: Option<u64>) -> Duration {
    /// No tile is slower than another by more than this factor.
    const WORST_RATIO: f64 = 100.0;
    let by_size = problem.flops() / SLOWEST_FLOPS_PER_SECOND;
    let one = best.map_or(by_size, |best| by_size.min(best as f64 / 1e9 * WORST_RATIO));
    BASE + seconds(one * f64::from(launches))
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX / 2)
}

/// What the meter asks of its process.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
enum Request {
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

/// What the process answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Reply {
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

/// Launch kernels for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureCpu {}

impl MeasureCpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        serve(io::stdin().lock(), io::stdout().lock())
    }
}

/// The measuring process itself. It answers requests, one line each, until the end of the input.
fn serve(requests: impl BufRead, mut replies: impl Write) -> anyhow::Result<()> {
    let mut timer = Timer::new();
    for line in requests.lines() {
        let reply = match serde_json::from_str(&line?) {
            Ok(Request::Load { problem, seed }) => timer.load(problem, seed),
            Ok(Request::Time { config, repeats, check, give_up_ns }) => {
                timer.time(&config, repeats, check, give_up_ns)
            }
            Err(error) => Reply::Confused { message: format!("unreadable request: {error}") },
        };
        say_line(&mut replies, &reply)?;
    }
    Ok(())
}

/// Takes times on the problem that was loaded last.
struct Timer {
    workspace: Workspace,
    loaded: Option<Loaded>,
}

struct Loaded {
    inputs: Inputs,
    output: Output,
    seed: u64,
}

impl Timer {
    fn new() -> Self {
        Self { workspace: Workspace::new(), loaded: None }
    }

    fn load(&mut self, problem: Problem, seed: u64) -> Reply {
        // The old problem is freed first: two large problems may not fit side by side.
        self.loaded = None;
        let elements = problem.b * problem.m * problem.n;
        let dtype = problem.out_dtype;
        let made = usize::try_from(elements)
            .ok()
            .and_then(|elements| Output::new(dtype, elements))
            .and_then(|output| Some(Loaded { inputs: Inputs::generate(problem, seed)?, output, seed }));
        match made {
            Some(loaded) => {
                self.loaded = Some(loaded);
                Reply::Loaded
            }
            None => Reply::Confused { message: "a problem the CPU backend does not support".to_owned() },
        }
    }

    fn time(&mut self, config: &Config, repeats: u32, check: bool, give_up_ns: Option<u64>) -> Reply {
        let Some(Loaded { inputs, output, seed }) = &self.loaded else {
            return Reply::Confused { message: "asked to time before a problem was loaded".to_owned() };
        };
        // The library kernel, split-K and the TMA template exist only as GPU code.
        let (Config::Mm(tile) | Config::Bmm(tile)) = config else {
            return Reply::Failed { reason: FailureReason::Compile };
        };
        self.workspace.prepare(tile);
        if check {
            output.poison();
        }
        let workspace = &mut self.workspace;
        let mut run = || {
            let start = Instant::now();
            launch(inputs, tile, workspace, output);
            // A time of zero is not valid. If the clock is too coarse, the time is 1 ns.
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX).max(1)
        };
        let first = run();
        if check && !verify(inputs, output, *seed) {
            return Reply::Failed { reason: FailureReason::WrongResult };
        }
        if give_up_ns.is_some_and(|limit| first > limit) {
            return Reply::Timed { nanos: vec![first] };
        }
        Reply::Timed { nanos: (0..repeats).map(|_| run()).collect() }
    }
}
