//! Measuring on this node's CPU: a blocked matrix multiplication in a process of its own.
//!
//! `worker` and `matmul` run in the measuring process, this module and `process` in its parent.

mod matmul;
mod process;
mod worker;

use std::process::Command;
use std::time::Duration;

use anyhow::Context as _;
use diode_core::{Config, FailureReason, Method, Problem};

use crate::devices::cpu::process::{CpuProcess, Reply, Request};
use crate::devices::measuring_process::Lost;
use crate::devices::{MeasuredConfigs, Meter, Outcome, Quality, Samples};
use crate::node;

pub(crate) use crate::devices::cpu::worker::serve;

pub(crate) struct CpuMeter {
    process: CpuProcess,
    seed: u64,
}

impl CpuMeter {
    pub(crate) fn new(seed: u64) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("cannot find the diode program itself")?;
        let process = CpuProcess::new(move || {
            let mut command = Command::new(&program);
            command.arg("measure-worker");
            Ok(command)
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
            measure(&mut self.process, problem, configs, self.seed, abandon)?
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

/// Times `configs` on a problem. `None` if `abandon` became true in between.
fn measure(
    process: &mut CpuProcess,
    problem: &Problem,
    configs: &[Config],
    seed: u64,
    abandon: &dyn Fn() -> bool,
) -> anyhow::Result<Option<MeasuredConfigs>> {
    match process.load(problem, seed, patience_to_load(problem))? {
        Ok(()) => {}
        // Loading only allocates and fills memory, so if the process dies, memory has run out.
        Err(Lost::Died) => return Ok(Some(MeasuredConfigs::all_failed(configs, FailureReason::OutOfMemory))),
        Err(Lost::TimedOut) => return Ok(Some(MeasuredConfigs::all_failed(configs, FailureReason::Timeout))),
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
        match time(process, problem, &look, 2, best)? {
            Ok(nanos) => measured.timed.push((*config, nanos.into_iter().collect())),
            Err(reason) => measured.failed.push((*config, reason)),
        }
    }
    repeat(process, problem, &mut measured, abandon).map(|finished| finished.then_some(measured))
}

/// Repeats until every config is settled. `false` if `abandon` became true before that.
fn repeat(
    process: &mut CpuProcess,
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
            match time(process, problem, &request, repeats + 1, Some(best))? {
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

fn time(
    process: &mut CpuProcess,
    problem: &Problem,
    request: &Request,
    launches: u32,
    best: Option<u64>,
) -> anyhow::Result<Result<Vec<u64>, FailureReason>> {
    match process.ask(request, patience_to_run(problem, launches, best))? {
        Ok(Reply::Timed { nanos }) if !nanos.is_empty() => Ok(Ok(nanos)),
        Ok(Reply::Failed { reason }) => Ok(Err(reason)),
        Ok(other) => anyhow::bail!("the measuring process answered a timing with {other:?}"),
        Err(Lost::TimedOut) => Ok(Err(FailureReason::Timeout)),
        Err(Lost::Died) => Ok(Err(FailureReason::Launch)),
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

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::process::Command;

    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;

    /// A process that dies once, at its first timing. Started again, it takes 100 ns for everything.
    fn dies_once() -> (CpuProcess, tempfile::TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let flag = folder.path().join("died");
        let process = CpuProcess::new(move || {
            let script = r#"while read -r line; do case "$line" in
                *load*) echo '"loaded"';;
                *) if [ -e "$0" ]; then echo '{"timed":{"nanos":[100]}}'; else : > "$0"; exit 1; fi;;
                esac; done"#;
            let mut command = Command::new("sh");
            command.args(["-c", script]).arg(&flag);
            Ok(command)
        });
        (process, folder)
    }

    fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 16, 16, 16, DType::Float32)).unwrap()
    }

    #[test]
    fn a_death_costs_one_config() {
        let (mut process, _folder) = dies_once();
        let configs = [16, 32, 64].map(|block| Config::Mm(Tile::new(block, 16, 16, 1, 1)));
        let measured = measure(&mut process, &problem(), &configs, 1, &|| false).unwrap().unwrap();
        assert_eq!(measured.failed, [(configs[0], FailureReason::Launch)]);
        let timed: Vec<Config> = measured.timed.iter().map(|(config, _)| *config).collect();
        assert_eq!(timed, configs[1..]);
        assert!(measured.timed.iter().all(|(_, samples)| samples.count() >= 7));
    }

    #[test]
    fn an_abandoned_problem_has_no_result() {
        let (mut process, _folder) = dies_once();
        let configs = [Config::Mm(Tile::new(16, 16, 16, 1, 1))];
        assert!(measure(&mut process, &problem(), &configs, 1, &|| true).unwrap().is_none());
    }

    fn samples(values: impl IntoIterator<Item = u64>) -> Samples {
        values.into_iter().collect()
    }

    #[test]
    fn long_and_hopeless_launches_are_not_repeated() {
        assert_eq!(one_launch_is_enough(None), SELF_WARMING_NANOS);
        assert_eq!(one_launch_is_enough(Some(100)), 300);
        assert_eq!(one_launch_is_enough(Some(9_000_000_000)), SELF_WARMING_NANOS);
    }

    #[test]
    fn repeats_go_where_they_matter() {
        assert_eq!(more_repeats(&samples([400]), 100), 0, "hopeless");
        assert_eq!(more_repeats(&samples([200]), 100), 2, "ordinary");
        assert_eq!(more_repeats(&samples([200; 3]), 100), 0, "ordinary, settled");
        assert_eq!(more_repeats(&samples([110]), 100), 4, "promising");
        assert_eq!(more_repeats(&samples([100; 7]), 100), 0, "promising and steady");
        assert_eq!(more_repeats(&samples((0..10).map(|i| 100 + i)), 100), 4, "promising and noisy");
        assert_eq!(more_repeats(&samples((0..25).map(|i| 100 + i)), 110), 0, "at the cap");
        assert_eq!(more_repeats(&samples([2_000_000_000]), 2_000_000_000), 0, "too slow to repeat");
        assert_eq!(more_repeats(&samples([]), 100), 0, "never measured");
    }

    #[test]
    fn limits_grow_with_the_problem_and_shrink_with_knowledge() {
        let square = |m| Problem::new(ProblemFields::plain(Op::Mm, 1, m, m, m, DType::Float32)).unwrap();
        assert!(patience_to_run(&square(4096), 1, None) > patience_to_run(&square(64), 1, None));
        assert!(
            patience_to_run(&square(4096), 1, Some(1_000_000_000)) < patience_to_run(&square(4096), 1, None)
        );
        assert!(patience_to_load(&square(1 << 20)) > patience_to_load(&square(16)));
        assert!(patience_to_run(&square(1 << 20), u32::MAX, None) > Duration::ZERO);
    }
}
