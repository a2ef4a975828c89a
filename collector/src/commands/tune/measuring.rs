//! Times the default, the published choice and the first picks of each batch size, and keeps what is fastest.

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use diode_core::hardware::{Hardware, find};
use diode_core::{ConfigDictionary, Dataset, Method, Problem, Provenance};
use diode_formats::Format;
use diode_workloads::file_names::Consumer;
use diode_workloads::served::{Layer, ServedLayer};
use diode_workloads::tuning::{MOST_PICKS, Pick, Tuned};

use crate::commands::tune::journal::{Entry, Journal, Question};
use crate::commands::tune::pack::PackTimer;
use crate::commands::tune::timer::{End, Launch, LayerRequest, Outcome, Timer, Wanted};
use crate::commands::upload::Upload;
use crate::devices::{MeasuredConfigs, Samples};
use crate::failure::{Interrupted, Usage};
use crate::input::arguments;
use crate::interrupt::Interrupt;
use crate::node;
use crate::output::log::Progress;
use crate::output::{count, files};
use crate::server::{ServerArgs, TermsArgs};

const STOPPING: &str = "stopping: what was measured is kept; --resume goes on";

#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring")]
pub(super) struct MeasureArgs {
    /// Time the default, the published choice and the first picks on this node's GPU, and keep the default unless something
    /// is faster by more than the noise
    #[arg(long, conflicts_with_all = ["check", "log"])]
    pub(super) measure: bool,

    /// Go on with an earlier measurement in the same folder
    #[arg(long, requires = "measure")]
    pub(super) resume: bool,

    /// How many of the first picks to time at each batch size
    #[arg(long, value_name = "N", default_value = "8", requires = "measure", value_parser = picks)]
    pub(super) picks: u8,

    /// Time no further batch size after this time; what is left is predicted
    #[arg(long, value_name = "TIME", default_value = "3m", requires = "measure", value_parser = arguments::duration)]
    budget: Duration,

    /// Python with torch, and with vLLM or SGLang to time their own kernels
    #[arg(long, env = "DIODE_PYTHON", value_name = "PROGRAM", default_value = "python3")]
    python: PathBuf,

    /// Kernel pack to time where that Python has no kernel of the server
    #[arg(long, value_name = "PACK", requires = "measure")]
    kernels: Option<PathBuf>,

    /// Send what was measured to a server
    #[arg(long, requires = "measure")]
    upload: bool,

    /// With --upload, check what would be sent, and send nothing
    #[arg(long, requires = "upload")]
    dry_run: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    terms: TermsArgs,
}

/// Parses how many picks are timed.
fn picks(text: &str) -> Result<u8, String> {
    text.parse()
        .ok()
        .filter(|picks| (1..=MOST_PICKS).contains(&usize::from(*picks)))
        .ok_or_else(|| format!("expected a whole number from 1 to {MOST_PICKS}"))
}

/// The blocks by which a layer's weights are scaled.
fn block(layer: &Layer) -> Option<[u32; 2]> {
    match layer {
        Layer::Experts(layer) => layer.block,
        Layer::Dense(_) => Some([128, 128]),
    }
}

/// Whether a layer's experts are on several GPUs.
fn is_spread(layer: &Layer) -> bool {
    matches!(layer, Layer::Experts(layer) if layer.experts != layer.all)
}

/// The file by which the journal knows a layer.
fn file_of(served: &ServedLayer) -> &str {
    served.files.first().map_or("", String::as_str)
}

enum Clock {
    Process(Timer),
    Pack(PackTimer),
}

/// A measurement, with what of it was done.
pub(super) struct Measuring<'a> {
    args: &'a MeasureArgs,
    folder: PathBuf,
    consumer: Consumer,
    hardware: Hardware,
    interrupt: Interrupt,
    journal: Journal,
    clock: Option<Clock>,
    until: Instant,
    /// The problems of each entry of the journal.
    problems: BTreeMap<(String, u64), Vec<Problem>>,
    /// Batch sizes of all layers, and those that were measured.
    all: usize,
    done: usize,
    stopped: bool,
}

impl<'a> Measuring<'a> {
    /// Prepares a measurement, and fails now if the folder cannot be written to.
    pub(super) fn open(
        args: &'a MeasureArgs,
        folder: &Path,
        force: bool,
        consumer: Consumer,
        hardware: &Hardware,
        question: &Question,
    ) -> anyhow::Result<Self> {
        let journal = Journal::open(folder, question, args.resume, force)?;
        Ok(Self {
            until: Instant::now() + args.budget,
            args,
            folder: folder.to_owned(),
            consumer,
            hardware: hardware.clone(),
            interrupt: Interrupt::install(STOPPING)?,
            journal,
            clock: None,
            problems: BTreeMap::new(),
            all: 0,
            done: 0,
            stopped: false,
        })
    }

    /// Starts what times, unless it runs. A server's own kernel comes first, then a pack, then our kernels in Python.
    fn clock(&mut self, problem: &Problem) -> anyhow::Result<&mut Clock> {
        if self.clock.is_none() {
            let process = Timer::start(&self.args.python, self.consumer, problem, &self.interrupt);
            let clock = match (process, &self.args.kernels) {
                (Err(error), _) if error.is::<Interrupted>() => return Err(error),
                (Ok(timer), _) if timer.has(self.consumer) => Clock::Process(timer),
                (_, Some(pack)) => Clock::Pack(PackTimer::start(pack, &self.interrupt)?),
                (Ok(timer), None) => Clock::Process(timer),
                (Err(error), None) => {
                    return Err(error.context(format!(
                        "--measure needs a GPU, and a Python with torch and {} (--python) or a pack (--kernels)",
                        self.consumer.title()
                    )));
                }
            };
            let found = match &clock {
                Clock::Process(timer) => find(&timer.ready.gpu).map(|gpu| gpu.slug),
                Clock::Pack(pack) => Some(pack.hardware.slug.clone()),
            };
            Usage::refuse_if(
                found.as_ref() != Some(&self.hardware.slug),
                format_args!(
                    "--hardware: got {}, expected {}, which measures; leave out --measure to predict",
                    self.hardware.slug,
                    found.map_or("hardware of the catalogue".to_owned(), |slug| slug.to_string())
                ),
            )?;
            self.clock = Some(clock);
        }
        self.clock.as_mut().ok_or_else(|| anyhow::anyhow!("nothing times"))
    }

    /// The folder of the server's package, if its kernel is timed. Nothing starts if all times are there already.
    pub(super) fn package(&mut self, served: &ServedLayer, tuned: &Tuned) -> anyhow::Result<Option<PathBuf>> {
        let (consumer, file) = (self.consumer, file_of(served));
        let lacks = |batch| self.journal.find(file, batch).is_none();
        let Some(lacking) = tuned.choices.iter().find(|choice| lacks(choice.batch)) else { return Ok(None) };
        let problems = served.problems(lacking.batch, &self.hardware)?;
        Ok(match self.clock(&problems[0])? {
            Clock::Process(timer) => timer.package(consumer).map(Path::to_owned),
            Clock::Pack(_) => None,
        })
    }

    /// Whose kernel the times are of. `None` if nothing was timed.
    pub(super) fn kernel(&self) -> Option<&str> {
        self.journal.entries.first().map(|entry| entry.kernel.as_str())
    }

    /// Measures a layer as far as it was not measured yet, and makes its choices follow the times.
    pub(super) fn settle(&mut self, served: &ServedLayer, tuned: &mut Tuned) -> anyhow::Result<()> {
        let file = file_of(served);
        self.all += tuned.choices.len();
        let picks = usize::from(self.args.picks);
        let mut wanted = Vec::new();
        let mut order: Vec<usize> = (0..tuned.choices.len()).collect();
        // Sizes far apart come first, so that a measurement that is cut short covers all.
        order.sort_by_key(|at| Reverse(at.trailing_zeros()));
        for at in order {
            let choice = &tuned.choices[at];
            let problems = served.problems(choice.batch, &self.hardware)?;
            self.problems.insert((file.to_owned(), choice.batch), problems.clone());
            if self.journal.find(file, choice.batch).is_some() {
                continue;
            }
            let mut launches: Vec<Launch> = Vec::new();
            for pick in choice.candidates(picks) {
                for launch in Launch::all_of(&pick, problems.len()) {
                    if !launches.contains(&launch) {
                        launches.push(launch);
                    }
                }
            }
            wanted.push(Wanted { batch: choice.batch, problems, launches });
        }
        if !wanted.is_empty() && !self.stopped && Instant::now() < self.until {
            self.time(served, &wanted)?;
        }
        let mut untimed = Vec::new();
        for choice in &mut tuned.choices {
            let Some(entry) = self.journal.find(file, choice.batch) else { continue };
            self.done += 1;
            let candidates = choice.candidates(picks);
            let stages = served.problems(choice.batch, &self.hardware)?.len();
            let timed: Vec<(Pick, Vec<f64>)> = candidates
                .into_iter()
                .filter_map(|pick| Some((pick, together(entry, &pick, stages)?)))
                .collect();
            // Without the default's time nothing can be compared.
            match timed.split_first() {
                Some(((first, default), others)) if first.tile == choice.default => {
                    let others: Vec<(Pick, &[f64])> =
                        others.iter().map(|(pick, times)| (*pick, times.as_slice())).collect();
                    choice.settle(default, &others);
                }
                _ => untimed.push(choice.batch.to_string()),
            }
        }
        if !untimed.is_empty() {
            say!(
                "{file}: the default could not be timed at {} tokens, so the prediction stays",
                untimed.join(", ")
            );
        }
        Ok(())
    }

    fn time(&mut self, served: &ServedLayer, wanted: &[Wanted]) -> anyhow::Result<()> {
        let (consumer, until, file) = (self.consumer, self.until, file_of(served));
        self.clock(&wanted[0].problems[0])?;
        let Self { journal, clock: Some(clock), .. } = self else { return Ok(()) };
        let kernel = match clock {
            Clock::Process(timer) => timer.kernel(consumer),
            Clock::Pack(_) => "diode's kernel, from a pack".to_owned(),
        };
        if let Some(other) = journal.entries.iter().find(|entry| entry.kernel != kernel) {
            return Err(Usage::new(format!(
                "{file}: got times of {}, expected those of {kernel}; leave out --resume and add --force, or choose \
                 another --out",
                other.kernel
            ))
            .into());
        }
        say!("timing {kernel}, at {}", count(wanted.len(), "batch size"));
        let progress = RefCell::new(Progress::new(wanted.len() as u64, "batch sizes"));
        let done = Cell::new(0);
        let keep = |batch: u64, outcomes: Vec<Outcome>| {
            let of_batch = wanted.iter().find(|one| one.batch == batch);
            let launches = of_batch.into_iter().flat_map(|one| one.launches.iter().copied());
            let launches = launches.zip(outcomes).collect();
            done.set(done.get() + 1);
            progress.borrow_mut().set(done.get(), &format!("{batch} tokens"));
            journal.add(Entry { file: file.to_owned(), batch, kernel: kernel.clone(), launches })
        };
        let budget = until.saturating_duration_since(Instant::now());
        let (block, spread) = (block(&served.layer), is_spread(&served.layer));
        let request = LayerRequest { consumer, block, spread, budget, wanted };
        let end = match clock {
            Clock::Process(timer) => timer.run(&request, keep, |compiled, all| {
                progress.borrow_mut().set(done.get(), &format!("{compiled} of {all} kernels compiled"));
            }),
            Clock::Pack(pack) => pack.run(wanted, until, keep),
        };
        self.stopped = end? == End::Stopped;
        Ok(())
    }

    /// Says what is missing, sends what was measured, and fails if the user stopped it.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        let left = self.all - self.done;
        if self.stopped {
            return Err(Interrupted::new(format!(
                "interrupted: {} of {} measured, the others predicted; the same command with --resume goes on",
                self.done,
                count(self.all, "batch size")
            ))
            .into());
        }
        if left > 0 {
            say!(
                "the budget is spent: {left} of {} predicted, not measured; --resume goes on",
                count(self.all, "batch size")
            );
        }
        if !self.args.upload {
            return Ok(());
        }
        let path = self.folder.join("measured.msgpack.zst");
        let dataset = self.dataset()?;
        files::write(&path, &diode_formats::encode(Format::Columnar, &[dataset])?)?;
        let MeasureArgs { dry_run, server, terms, .. } = self.args;
        Upload::of(path, *dry_run, server.clone(), terms.clone()).run()
    }

    /// The times as a dataset, whose provenance says whose kernel was timed.
    fn dataset(&mut self) -> anyhow::Result<Dataset> {
        let kernel = self.journal.entries.first().map(|entry| entry.kernel.clone()).unwrap_or_default();
        let (provenance, method) = match &self.clock {
            Some(Clock::Pack(pack)) => (pack.provenance.clone(), pack.method()),
            other => {
                let mut facts = BTreeMap::from([("kernel".to_owned(), kernel)]);
                if let Some(Clock::Process(timer)) = other {
                    facts.extend(timer.ready.versions.clone());
                }
                let provenance: Provenance = node::provenance_of(facts)?;
                (provenance, Method::MEDIAN_COLD_EVENT)
            }
        };
        let (mut configs, mut solutions) = (ConfigDictionary::default(), Vec::new());
        for entry in &self.journal.entries {
            let problems = self.problems.get(&(entry.file.clone(), entry.batch));
            for (stage, problem) in problems.into_iter().flatten().enumerate() {
                let timed = entry.launches.iter().filter(|(launch, _)| launch.stage == stage);
                let timed = timed.filter_map(|(launch, outcome)| match outcome {
                    Outcome::Us(rounds) => {
                        let nanos = rounds.iter().map(|us| (us * 1e3).round().max(1.0) as u64);
                        Some((launch.config.config(problem.k), nanos.collect::<Samples>()))
                    }
                    Outcome::Failed(_) => None,
                });
                let measured = MeasuredConfigs { timed: timed.collect(), failed: Vec::new() };
                if !measured.timed.is_empty() {
                    solutions.push(measured.into_solution(problem.clone(), method, &mut configs)?);
                }
            }
        }
        Ok(Dataset { hardware: self.hardware.clone(), provenance, configs, solutions })
    }
}

/// The rounds of all launches of a pick together. `None` if one of them has no times.
fn together(entry: &Entry, pick: &Pick, stages: usize) -> Option<Vec<f64>> {
    let mut sum: Option<Vec<f64>> = None;
    for launch in Launch::all_of(pick, stages) {
        let rounds = entry.rounds(&launch)?;
        sum = Some(match sum {
            None => rounds.to_vec(),
            Some(before) => before.iter().zip(rounds).map(|(a, b)| a + b).collect(),
        });
    }
    sum.filter(|rounds| !rounds.is_empty())
}
