//! A collection from beginning to end, for every command that measures.

use std::time::Duration;

use diode_core::{Config, Problem};

use super::bench::DeviceArgs;
use super::collection::Collection;
use super::configs::ConfigArgs;
use super::output::Output;
use super::packs::{Wanted, find};
use super::runner::{Runner, Tally};
use super::summary;
use crate::interrupt::Interrupt;
use crate::output::count;
use crate::predecessor::datasets::told_apart;
use crate::server::PackServerArgs;

/// What a collection measures with, and where it writes to.
pub(crate) struct Collecting {
    pub(crate) output: Output,
    /// Whether to go on with an existing output.
    pub(crate) resume: bool,
    pub(crate) configs: ConfigArgs,
    pub(crate) devices: DeviceArgs,
    /// The server to pull kernel packs from if the node lacks them.
    pub(crate) pack_server: PackServerArgs,
    /// Seed of the inputs that kernels are run on.
    pub(crate) seed: u64,
    /// No further problem is begun after this time.
    pub(crate) budget: Option<Duration>,
}

impl Collecting {
    /// Measures the problems and prints a summary.
    pub(crate) fn run(self, problems: &[Problem], interrupt: &Interrupt) -> anyhow::Result<Tally> {
        let Self { output, resume, configs, devices, pack_server, seed, budget } = self;
        let kept = if output.holds_everything() {
            None
        } else {
            Some(told_apart(output.path(), output.format(), problems))
        };
        let problems = kept.as_deref().unwrap_or(problems);
        let choice = configs.read()?;
        let mut bench = devices.bench(seed, interrupt)?;
        if let Some(gpu) = bench.gpu.as_ref().filter(|gpu| gpu.packs.is_empty()) {
            let hardware = bench.hardware.clone();
            let configs = |problem: &Problem| choice.of(&hardware, problem);
            let wanted = Wanted { arch: &gpu.arch, problems, configs: &configs };
            let packs = find(&wanted, &pack_server, interrupt)?;
            for meter in &mut bench.meters {
                bench.provenance.node = meter.use_packs(&packs, &|| interrupt.requested())?;
            }
        }
        let holds_everything = output.holds_everything();
        let mut collection = Collection::open(output, resume, bench.hardware, bench.provenance)?;
        let hardware = collection.hardware().clone();
        say!("{} with {} on {}", count(problems.len(), "problem"), configs.in_words(), hardware.name);
        choice.mention_other_hardware(&hardware)?;
        let configs_of = |problem: &Problem| {
            let mut configs = choice.of(&hardware, problem)?;
            if bench.library {
                add_libraries(&mut configs, problem);
            }
            Ok(configs)
        };
        if resume && holds_everything {
            let lacking = collection.timed_otherwise(problems, &configs_of)?;
            if lacking > 0 {
                say!(
                    "note: {} in the file without some of the configs asked for; they are not measured again",
                    count(lacking, "problem")
                );
            }
        }
        let runner = Runner { problems, configs: &configs_of, budget, interrupt };
        let result = runner.run(bench.meters, &mut collection);
        // Keeps what was measured before an error, whatever the error was.
        collection.save()?;
        let mut tally = result?;
        tally.in_file = collection.problems();
        summary::print(&collection, &tally);
        Ok(tally)
    }
}

/// Adds the library, and if any config rounds the problem's inputs to TF32, also the library that does so.
pub(crate) fn add_libraries(configs: &mut Vec<Config>, problem: &Problem) {
    let rounds = configs.iter().any(|config| config.rounds(problem));
    configs.push(Config::Library);
    configs.extend(rounds.then_some(Config::RoundingLibrary));
}
