//! Measures one problem: first a look at every config, then repeats in turns. `timing` takes the
//! times.

use diode_core::{Config, FailureReason, Problem};

use super::process::CpuProcess;
use super::protocol::{Reply, Request};
use super::{patience, policy};
use crate::devices::measured::MeasuredConfigs;
use crate::devices::measuring_process::Lost;
use crate::devices::samples::Samples;

/// Times `configs` on a problem. `None` if `abandon` became true in between.
pub(crate) fn measure(
    process: &mut CpuProcess,
    problem: &Problem,
    configs: &[Config],
    seed: u64,
    abandon: &dyn Fn() -> bool,
) -> anyhow::Result<Option<MeasuredConfigs>> {
    match process.load(problem, seed, patience::to_load(problem))? {
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
            give_up_ns: Some(policy::one_launch_is_enough(best)),
        };
        match time(process, problem, &look, 2, best)? {
            Ok(nanos) => {
                let mut samples = Samples::default();
                samples.add(nanos);
                measured.timed.push((*config, samples));
            }
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
            let repeats = policy::more_repeats(samples, best);
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
    match process.ask(request, patience::to_run(problem, launches, best))? {
        Ok(Reply::Timed { nanos }) if !nanos.is_empty() => Ok(Ok(nanos)),
        Ok(Reply::Failed { reason }) => Ok(Err(reason)),
        Ok(other) => anyhow::bail!("the measuring process answered a timing with {other:?}"),
        Err(Lost::TimedOut) => Ok(Err(FailureReason::Timeout)),
        Err(Lost::Died) => Ok(Err(FailureReason::Launch)),
    }
}

#[cfg(test)]
#[cfg(unix)]
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
}
