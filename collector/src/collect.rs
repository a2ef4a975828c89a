//! Collects timings: devices measure problems in parallel, and files keep the results, also if the process is
//! killed.

pub(crate) mod bench;
pub(crate) mod collection;
pub(crate) mod journal;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use diode_compat::{AnyModel, told_apart};
use diode_core::hardware::Hardware;
use diode_core::space::{Space, SpaceName};
use diode_core::stats::upper_median;
use diode_core::{Config, Method, Problem};

use crate::collect::bench::DeviceArgs;
use crate::collect::collection::{Collection, Output};
use crate::commands::stats::{BestTime, Library, library_ratio, spreads_within_5_percent};
use crate::devices::{Meter, Outcome, add_libraries};
use crate::failure::Interrupted;
use crate::input;
use crate::input::arguments::{SpaceArg, at_least_one};
use crate::input::models::read_model;
use crate::interrupt::Interrupt;
use crate::kernels::{WantedKernels, find_packs};
use crate::output::log::Progress;
use crate::output::{count, rate};
use crate::server::PackServerArgs;

/// What happens at the first Ctrl-C.
pub(crate) const STOPPING: &str = "stopping: the problem in hand is finished and everything measured is kept; once more to drop that problem";

/// The options of a collection.
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
    /// After this time, no further problem is begun.
    pub(crate) budget: Option<Duration>,
}

impl Collecting {
    /// Measures the problems and prints a summary.
    pub(crate) fn run(self, problems: &[Problem], interrupt: &Interrupt) -> anyhow::Result<Tally> {
        let Self { output, resume, configs, devices, pack_server, seed, budget } = self;
        // Some formats hold no layouts or biases. Of the problems that are the same without them, one is
        // measured.
        let kept = (!output.holds_everything()).then(|| told_apart(output.format(), problems));
        if let Some(left_out) =
            kept.as_ref().map(|kept| problems.len() - kept.len()).filter(|left_out| *left_out > 0)
        {
            say!(
                "note: {} left out, because only their layout or bias differs from another's, and {} does not tell \
                 them apart; a .msgpack.zst would",
                count(left_out, "problem"),
                output.path().display()
            );
        }
        let problems = kept.as_deref().unwrap_or(problems);
        let choice = configs.read()?;
        let mut bench = devices.bench(seed, interrupt)?;
        if bench.gpu.is_some() || devices.are_simulated() {
            input::check_one_computable(problems)?;
        }
        if let Some(gpu) = bench.gpu.as_ref().filter(|gpu| gpu.packs.is_empty()) {
            let hardware = bench.hardware.clone();
            let configs = |problem: &Problem| choice.configs(&hardware, problem);
            let wanted = WantedKernels { arch: &gpu.arch, problems, configs: &configs };
            let packs = find_packs(&wanted, &pack_server, interrupt)?;
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
            let mut configs = choice.configs(&hardware, problem)?;
            if bench.library {
                add_libraries(&mut configs, problem);
            }
            Ok(configs)
        };
        if resume && holds_everything {
            let lacking = collection.count_lacking_configs(problems, &configs_of)?;
            if lacking > 0 {
                say!(
                    "note: {} in the file without some of the configs asked for; they are not measured again",
                    count(lacking, "problem")
                );
            }
        }
        let runner = Runner { problems, configs: &configs_of, budget, interrupt };
        let result = runner.run(bench.meters, &mut collection);
        // Saved before an error is returned, so that no error loses what was measured.
        collection.save()?;
        let mut tally = result?;
        tally.in_file = collection.problems();
        print_summary(&collection, &tally);
        if interrupt.requested() {
            return Err(Interrupted::new("interrupted; the same command with --resume goes on").into());
        }
        Ok(tally)
    }
}

/// Which configs to time.
#[derive(Debug, Args)]
#[command(next_help_heading = "Configs")]
pub(crate) struct ConfigArgs {
    /// Which configs to time: default, inductor-exhaustive, full, or a JSON file with a list of them;
    /// default, or with --model full, if not given
    #[arg(long, alias = "search-space")]
    space: Option<SpaceArg>,

    /// Time only the configs of the space that a model ranks best (see --top) and, unless the space is a
    /// list of configs, the default configs
    #[arg(long, value_name = "FILE")]
    model: Option<PathBuf>,

    /// How many configs of the space to take from the model
    #[arg(long, value_name = "N", default_value_t = 200, requires = "model", value_parser = at_least_one)]
    top: usize,
}

/// [`ConfigArgs`] with its files read.
struct ConfigChoice {
    space: Space,
    model: Option<AnyModel>,
    top: usize,
}

impl ConfigArgs {
    /// All configs of a space.
    pub(crate) fn all_of(space: SpaceName) -> Self {
        Self { space: Some(SpaceArg::Named(space)), model: None, top: 0 }
    }

    fn read(&self) -> anyhow::Result<ConfigChoice> {
        let space = self.space().read()?;
        let model = self.model.as_deref().map(read_model).transpose()?;
        Ok(ConfigChoice { space, model, top: self.top })
    }

    fn space(&self) -> SpaceArg {
        let usual = if self.model.is_some() { SpaceName::Full } else { SpaceName::Default };
        self.space.clone().unwrap_or(SpaceArg::Named(usual))
    }

    fn in_words(&self) -> String {
        let space = self.space();
        match &self.model {
            Some(model) => {
                let defaults =
                    if matches!(space, SpaceArg::File(_)) { "" } else { "the default configs and " };
                format!("{defaults}the {} best of {space} by {}", self.top, model.display())
            }
            None => format!("the {space} space"),
        }
    }
}

impl ConfigChoice {
    /// Prints a note if the model is of other hardware.
    fn mention_other_hardware(&self, hardware: &Hardware) -> anyhow::Result<()> {
        if let Some(model) = &self.model {
            let ranked = model.ranked_hardware()?;
            if ranked.slug != hardware.slug {
                say!("note: the model ranks configs for {}, not for {}", ranked.name, hardware.name);
            }
        }
        Ok(())
    }

    /// The configs to time on a problem, apart from the library kernel.
    fn configs(&self, hardware: &Hardware, problem: &Problem) -> anyhow::Result<Vec<Config>> {
        let Some(model) = &self.model else { return Ok(self.space.configs(hardware, problem)?) };
        let mut configs = match &self.space {
            Space::Named(_) => Space::Named(SpaceName::Default).configs(hardware, problem)?,
            Space::List(_) => Vec::new(),
        };
        let ranked = model.rank(problem, &self.space)?.configs.into_iter().map(|(config, _)| config);
        let more: Vec<Config> = ranked.take(self.top).filter(|config| !configs.contains(config)).collect();
        configs.extend(more);
        Ok(configs)
    }
}

/// Measures problems on several devices. Each takes the next problem when it is free.
struct Runner<'a> {
    pub(crate) problems: &'a [Problem],
    /// The configs to time on a problem.
    pub(crate) configs: &'a (dyn Fn(&Problem) -> anyhow::Result<Vec<Config>> + Sync),
    /// No further problem is begun after this time.
    pub(crate) budget: Option<Duration>,
    pub(crate) interrupt: &'a Interrupt,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) measured: usize,
    pub(crate) already_there: usize,
    pub(crate) skipped: usize,
    pub(crate) configs: usize,
    pub(crate) failures: BTreeMap<String, usize>,
    /// Problems on which the GPU was still disturbed at the last attempt.
    pub(crate) disturbed: usize,
    /// Problems on which the power limit held the clocks down.
    pub(crate) power_capped: usize,
    /// How many launches may have come too late and kept the GPU waiting. Each is timed again, a few times at
    /// most.
    pub(crate) late: usize,
    /// How long the GPUs were in kernels (`busy`), and how long they measured in all (`device`).
    pub(crate) busy: Duration,
    pub(crate) device: Duration,
    /// Problems in the output at the end.
    pub(crate) in_file: usize,
    pub(crate) budget_spent: bool,
    pub(crate) elapsed: Duration,
}

/// A problem that a device has finished, and its outcome.
struct Finished<'a> {
    problem: &'a Problem,
    method: Method,
    outcome: anyhow::Result<Outcome>,
}

impl Runner<'_> {
    /// Measures every problem that the collection does not hold yet. The collection also keeps what
    /// was measured before an error.
    pub(crate) fn run(
        &self,
        meters: Vec<Box<dyn Meter>>,
        collection: &mut Collection,
    ) -> anyhow::Result<Tally> {
        let (todo, there): (Vec<&Problem>, Vec<&Problem>) =
            self.problems.iter().partition(|problem| !collection.contains(problem));
        let mut tally = Tally { already_there: there.len(), ..Tally::default() };
        let began = Instant::now();
        let deadline = self.budget.and_then(|budget| began.checked_add(budget));
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let error = thread::scope(|scope| {
            let (sender, finished) = channel();
            for meter in meters {
                let (sender, todo, next, stop) = (sender.clone(), &todo, &next, &stop);
                let may_go_on = move || {
                    let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    !late && !stop.load(Ordering::Relaxed) && !self.interrupt.requested()
                };
                scope.spawn(move || self.work(meter, todo, next, &may_go_on, &sender));
            }
            drop(sender);
            let result = self.gather(&finished, todo.len(), collection, &mut tally);
            stop.store(true, Ordering::Relaxed);
            // Devices that are still busy finish their problem. Its result is dropped.
            drop(finished);
            result.err()
        });
        tally.elapsed = began.elapsed();
        if !self.interrupt.requested() && next.load(Ordering::Relaxed) < todo.len() && deadline.is_some() {
            tally.budget_spent = true;
        }
        match error {
            None => Ok(tally),
            Some(error) => Err(error),
        }
    }

    /// Measures on one device until no problem is left for it.
    fn work<'p>(
        &self,
        mut meter: Box<dyn Meter>,
        todo: &[&'p Problem],
        next: &AtomicUsize,
        may_go_on: &dyn Fn() -> bool,
        finished: &Sender<Finished<'p>>,
    ) {
        while may_go_on() {
            let Some(&problem) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let outcome = (self.configs)(problem)
                .and_then(|configs| meter.measure(problem, &configs, &|| self.interrupt.insisted()));
            if finished.send(Finished { problem, method: meter.method(), outcome }).is_err() {
                break;
            }
        }
    }

    /// Adds the outcomes to the collection and the tally, until all devices are done or one has failed.
    fn gather(
        &self,
        finished: &Receiver<Finished<'_>>,
        total: usize,
        collection: &mut Collection,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::new(total as u64, "problems");
        progress.set(0, "");
        let began = Instant::now();
        for (done, Finished { problem, method, outcome }) in (1..).zip(finished.iter()) {
            match outcome? {
                Outcome::Measured { measured, quality } => {
                    tally.configs += measured.timed.len();
                    for (_, reason) in &measured.failed {
                        *tally.failures.entry(reason.to_string()).or_default() += 1;
                    }
                    tally.measured += 1;
                    tally.disturbed += usize::from(quality.disturbed);
                    tally.power_capped += usize::from(quality.power_capped);
                    tally.late += quality.late as usize;
                    tally.busy += Duration::from_nanos(quality.busy_ns);
                    tally.device += Duration::from_nanos(quality.wall_ns);
                    collection.add(problem.clone(), method, measured)?;
                }
                Outcome::Refused(reason) => {
                    say!("skipped {} {}: {reason}", problem.op, problem.dims());
                    tally.skipped += 1;
                }
                Outcome::Abandoned => {}
            }
            let rate = tally.configs as f64 / began.elapsed().as_secs_f64();
            progress.set(done, &format!("{rate:.0} timings/s · {} {}", problem.op, problem.dims()));
        }
        Ok(())
    }
}

/// Prints what was done, what the files now hold, and how fast the best configs were.
fn print_summary(collection: &Collection, tally: &Tally) {
    let seconds = tally.elapsed.as_secs_f64();
    if tally.budget_spent {
        say!("stopped early: the budget is spent; --resume goes on");
    }
    for (number, what) in [
        (tally.already_there, "already in the file"),
        (tally.skipped, "skipped, for the reasons above"),
        (tally.disturbed, "measured while the GPU was disturbed, three times over"),
        (tally.power_capped, "ended with the clocks held down by the power limit"),
    ] {
        if number > 0 {
            say!("{}: {what}", count(number, "problem"));
        }
    }
    say!(
        "measured {} and {} in {seconds:.1} s, {:.0} timings/s ({} failed{})",
        count(tally.measured, "problem"),
        count(tally.configs, "config"),
        tally.configs as f64 / seconds.max(1e-9),
        tally.failures.values().sum::<usize>(),
        tally.failures.iter().map(|(reason, number)| format!(", {reason}: {number}")).collect::<String>()
    );
    if !tally.device.is_zero() {
        let share = tally.busy.as_secs_f64() / tally.device.as_secs_f64() * 100.0;
        say!("the GPU spent {share:.0} % of its time in kernels");
    }
    if tally.late > 0 {
        say!(
            "launches that were timed again, since the GPU may have waited for this process: {}",
            tally.late
        );
    }
    let solutions = || {
        collection
            .chunks()
            .iter()
            .flat_map(|chunk| chunk.dataset.solutions.iter().map(move |s| (&chunk.dataset, s)))
    };
    let best = solutions()
        .filter_map(|(dataset, solution)| Some((solution, BestTime::from_solution(dataset, solution)?)));
    if let Some((solution, best)) = best.max_by(|(_, a), (_, b)| a.tflops.total_cmp(&b.tflops)) {
        let problem = &solution.problem;
        let share =
            best.roofline_share.map_or(String::new(), |s| format!(", {:.0} % of its roofline", s * 100.0));
        let (op, dims, dtype) = (problem.op, problem.dims(), problem.a_dtype);
        say!("best: {} on {op} {dims} {dtype}{share}", rate(best.tflops));
    }
    let mut spreads: Vec<f64> =
        solutions().flat_map(|(_, solution)| spreads_within_5_percent(solution)).collect();
    if let Some(noise) = upper_median(&mut spreads) {
        say!(
            "noise: half of the near-best times spread over less than {:.1} % of their median",
            noise * 100.0
        );
    }
    let duels: Vec<f64> =
        solutions().filter_map(|(dataset, solution)| library_ratio(dataset, solution)).collect();
    if let Some(Library { problems, library_wins, time_ratio }) = Library::from_ratios(&duels) {
        say!(
            "the library is faster than the best Triton config on {library_wins} of {}, and takes {time_ratio:.2} times as long on average",
            count(problems, "problem")
        );
    }
    if collection.problems() == 0 {
        say!("nothing was measured, so nothing was written");
    }
    for chunk in collection.chunks() {
        let (problems, timings) = (chunk.dataset.solutions.len(), chunk.dataset.timings());
        say!("{}: {}, {}", chunk.path.display(), count(problems, "problem"), count(timings, "timing"));
    }
}
