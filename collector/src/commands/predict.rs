use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context as _;
use clap::Args;
use diode_compat::AnyModel;
use diode_core::hardware::Hardware;
use diode_core::problem::are_one_layer;
use diode_core::space::{Space, SpaceName};
use diode_core::{DType, Epilogue, KernelVariant, Problem, Table};
use diode_model::{Answer, LayerAnswer, Model, ModelError, Question, Ranker, Unsure};
use diode_workloads::served::Reader;

use crate::commands::prediction::{Format, Measured, Prediction};
use crate::failure::Usage;
use crate::input::arguments::{at_least_one, probability, space};
use crate::input::problems::ProblemArgs;
use crate::input::{datasets, models, published, tables};
use crate::output;
use crate::output::log::Progress;
use crate::server::ServerArgs;

/// Predict the fastest configs for problems
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode predict 16x4096x4096 --hardware nvidia-h100\n  diode predict 16x4096x4096 --linear --hardware h200 --format triton\n  diode predict Llama-3.1-8B --hardware h200 --format inductor > lookup.json\n  diode predict 16x4096x4096 --hardware h200 --server https://diode.example.org\n  diode shapes --num-shapes 100 --json | diode predict - --model h200.safetensors --top 5"
)]
pub(crate) struct Predict {
    /// Model: a file, or a name such as h200 [default: the model that comes with diode for the hardware]
    #[arg(long, value_name = "MODEL", conflicts_with = "hardware")]
    model: Option<PathBuf>,

    /// Hardware to predict for, such as h100 [default: this node's GPU]
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,

    /// How many configs to show of each problem [default: 10, or 1 of each of several problems]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    top: Option<usize>,

    /// Show as many as must be measured for their best to be within 5 % of the best of all with
    /// this probability, such as 0.95
    #[arg(long, value_name = "P", conflicts_with = "top", value_parser = probability)]
    confidence: Option<f64>,

    /// Predict for programs that let float32 inputs be rounded to TF32
    #[arg(long, conflicts_with = "space")]
    tf32: bool,

    /// Which configs to rank: default, inductor-exhaustive or full [default: the model's own]
    #[arg(long, alias = "search-space", value_parser = space)]
    space: Option<SpaceName>,

    /// What follows the multiplication, in a tile's own kernel or after the library in another one: none, relu,
    /// gelu, gelu-tanh, silu, silu-gate, residual or float32
    #[arg(long, value_name = "NAME", default_value = "none")]
    epilogue: Epilogue,

    /// Predict also for types that no kernel exists for, by the hardware's peak
    #[arg(long)]
    extrapolate: bool,

    /// Dataset or folder of datasets: shows the best measured configs of the nearest problems, too
    #[arg(long, alias = "dataset", value_name = "FILE")]
    data: Vec<PathBuf>,

    /// Server to ask for what was measured of the nearest problems, instead of --data
    #[arg(long, value_name = "URL", conflicts_with = "data")]
    server: Option<String>,

    /// A file of certificates (PEM) to trust instead of the public ones
    #[arg(long, env = "DIODE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// What to print: a table, JSON (of several problems a list, with null for one that has no prediction), CSV,
    /// triton.Config in Python, the value of torch._inductor.config.lookup_table.table, or vLLM's files of experts
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,

    #[command(flatten)]
    asked: ProblemArgs,
}

/// How many more picks are asked for where only kernels of Triton's are printed.
const BESIDE_TILES: usize = 8;

impl Predict {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (model, name) = match &self.model {
            Some(path) => (models::read_model(path)?, path.display().to_string()),
            None => {
                let model = models::shipped_model(self.hardware.as_deref())?;
                let name = format!("{}-matmul", model.ranked_hardware()?.slug);
                (model, name)
            }
        };
        let hardware = model.ranked_hardware()?;
        let reader = if self.format == Format::Inductor { Reader::Inductor } else { Reader::Vllm };
        let problems = self.asked.problems(Some(&hardware), reader)?;
        if self.tf32 {
            self.check_tf32(&model, &problems)?;
        }
        let alone = problems.len() == 1;
        let (mut answers, mut failures) = (Vec::new(), Vec::new());
        for (problem, answer) in problems.iter().zip(self.answers(&model, &hardware, &problems)) {
            match answer {
                Ok(answer) => answers.push(Some(answer)),
                Err(error) => {
                    answers.push(None);
                    failures.push((problem, error));
                }
            }
        }
        // If every problem fails, the request as a whole is wrong.
        if failures.len() == problems.len()
            && let Some((_, error)) = failures.pop()
        {
            return Err(error);
        }
        say_caveats(&answers);
        let layers = self.layers(&model, &answers)?;
        let rivals = rivals(&model, &hardware, &answers)?;
        let measured = self.measured(&hardware, &answers)?;
        let prediction = Prediction {
            answers,
            layers,
            rivals,
            measured,
            top: if self.confidence.is_some() { usize::MAX } else { self.top(alone) },
            hardware: &hardware,
            id: models::file_id(self.model.as_deref(), &model)?,
            model: name,
        };
        let format = if self.json { Format::Json } else { self.format };
        prediction.print(format)?;
        if format == Format::Table {
            next!(
                "--format triton prints triton.Config, --format inductor a lookup table for torch, --json everything"
            );
        }
        if failures.is_empty() {
            return Ok(());
        }
        let failed = failures.len();
        for (problem, error) in failures {
            tell!(Warning, {}, "no prediction for {} {}: {error:#}", problem.op, problem.dims());
        }
        debug_assert!(!alone, "a problem that fails alone is the whole request");
        anyhow::bail!("no prediction for {failed} of {}", output::count(problems.len(), "problem"))
    }

    /// The answers, in the order of the problems. They are made on all cores, and problems of one kind after one another,
    /// because a space is prepared for a kind.
    fn answers(
        &self,
        model: &AnyModel,
        hardware: &Hardware,
        problems: &[Problem],
    ) -> Vec<anyhow::Result<Answer>> {
        /// How many problems a core takes at once.
        const PIECE: usize = 32;
        const LOOK: Duration = Duration::from_millis(50);
        let mut order: Vec<usize> = (0..problems.len()).collect();
        order.sort_by_cached_key(|&at| {
            let p = &problems[at];
            (p.op, p.a_dtype, p.b_dtype, p.a_layout, p.b_layout, format!("{:?}", p.alignment()), at)
        });
        let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let work = || {
            let mut ranker = model.as_ranking().map(Ranker::new);
            let mut answered = Vec::new();
            loop {
                let from = next.fetch_add(PIECE, Ordering::Relaxed);
                let Some(piece) =
                    order.get(from..order.len().min(from + PIECE)).filter(|piece| !piece.is_empty())
                else {
                    return answered;
                };
                for &at in piece {
                    let answer =
                        self.answer(model, ranker.as_mut(), hardware, &problems[at], problems.len() == 1);
                    answered.push((at, answer));
                    done.fetch_add(1, Ordering::Relaxed);
                }
            }
        };
        let cores =
            thread::available_parallelism().map_or(1, usize::from).min(problems.len().div_ceil(PIECE));
        let mut progress = Progress::new(problems.len() as u64, "problems");
        let mut all: Vec<_> = thread::scope(|scope| {
            let others: Vec<_> = (1..cores).map(|_| scope.spawn(work)).collect();
            if problems.len() <= PIECE {
                return work();
            }
            let first = scope.spawn(work);
            while !first.is_finished() {
                progress.set(done.load(Ordering::Relaxed) as u64, "");
                thread::sleep(LOOK);
            }
            let threads = others.into_iter().chain([first]);
            threads
                .flat_map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        all.sort_by_key(|(at, _)| *at);
        all.into_iter().map(|(_, answer)| answer).collect()
    }

    /// One config for both launches of each layer of experts whose launches follow one another in the list, by the
    /// place of the first launch.
    fn layers(
        &self,
        model: &AnyModel,
        answers: &[Option<Answer>],
    ) -> anyhow::Result<BTreeMap<usize, LayerAnswer>> {
        let Some(model) = model.as_ranking() else { return Ok(BTreeMap::new()) };
        let mut ranker = Ranker::new(model);
        let mut layers = BTreeMap::new();
        for (place, pair) in answers.windows(2).enumerate() {
            let [Some(first), Some(second)] = pair else { continue };
            let launches = [&first.problem, &second.problem];
            if are_one_layer(launches[0], launches[1]) {
                layers.insert(place, ranker.answer_layer(&launches, first.picks.len())?);
            }
        }
        Ok(layers)
    }

    /// What was measured of the nearest problems, by the place of the answer.
    fn measured(
        &self,
        hardware: &Hardware,
        answers: &[Option<Answer>],
    ) -> anyhow::Result<BTreeMap<usize, Vec<Measured>>> {
        let table = match &self.server {
            Some(server) => {
                let server = ServerArgs { server: server.clone(), ca: self.ca.clone() };
                tables::of_server(&server.client()?, &hardware.slug).context("--server")?
            }
            None if self.data.is_empty() => return Ok(BTreeMap::new()),
            None => {
                let mut known = datasets::read(&self.data)?;
                known.retain(|dataset| dataset.hardware.slug == hardware.slug);
                if known.is_empty() {
                    anyhow::bail!("--data: got no timings of {}, expected some", hardware.slug);
                }
                Table::from_datasets(&known, None, None).context("--data")?
            }
        };
        let answers =
            answers.iter().enumerate().filter_map(|(place, answer)| Some((place, answer.as_ref()?)));
        Ok(answers.map(|(place, answer)| (place, Measured::near(&table, &answer.problem))).collect())
    }

    fn check_tf32(&self, model: &AnyModel, problems: &[Problem]) -> Result<(), Usage> {
        if model.as_ranking().is_none() {
            return Err(Usage::new("--tf32: this kind of model does not know TF32; leave it out"));
        }
        match problems.first() {
            Some(first) if problems.iter().all(|problem| problem.a_dtype != DType::Float32) => {
                let given = first.a_dtype;
                Err(Usage::new(format!(
                    "--tf32: got problems in {given}, expected float32; add --dtype float32"
                )))
            }
            _ => Ok(()),
        }
    }

    fn answer(
        &self,
        model: &AnyModel,
        ranker: Option<&mut Ranker<&Model>>,
        hardware: &Hardware,
        problem: &Problem,
        alone: bool,
    ) -> anyhow::Result<Answer> {
        self.check_computable(hardware, problem)?;
        let mut question =
            Question { space: self.space, tf32: self.tf32, epilogue: self.epilogue, ..Question::default() };
        question.picks = match self.confidence {
            Some(_) if self.space.is_some_and(|space| Space::Named(space) != model.space()) => {
                anyhow::bail!(
                    "--confidence: got it with --space, expected the model's own space, of which it was measured; leave out --space, or use --top"
                )
            }
            Some(probability) => picks_for(model, problem, &question, probability)?,
            None => self.top(alone) + if self.format == Format::Triton { BESIDE_TILES } else { 0 },
        };
        let answer = match ranker {
            Some(ranker) => ranker.answer(problem, &question),
            None => model.answer(problem, &question),
        };
        match answer {
            Err(ModelError::TooLargeForHardware(error)) => Err(Usage::new(error).into()),
            answer => Ok(answer?),
        }
    }

    fn top(&self, alone: bool) -> usize {
        self.top.unwrap_or(if alone { 10 } else { 1 })
    }

    /// Refuses types that no kernel exists for, unless the user wants to know what the hardware's peak promises.
    fn check_computable(&self, hardware: &Hardware, problem: &Problem) -> Result<(), Usage> {
        let Some(why) = KernelVariant::obstacle(problem) else { return Ok(()) };
        let facts = hardware.facts.as_ref();
        let has_peak = facts.is_some_and(|facts| facts.peak(problem.a_dtype, false).is_some());
        let means_something = has_peak && problem.a_dtype != DType::Bool;
        match (means_something, self.extrapolate) {
            (true, true) => Ok(()),
            (true, false) => {
                Err(Usage::new(format!("{why}; add --extrapolate for a guess by the hardware's peak")))
            }
            (false, _) => Err(Usage::new(why)),
        }
    }
}

/// The configs of published files for each problem that has some, by its place.
fn rivals(
    model: &AnyModel,
    hardware: &Hardware,
    answers: &[Option<Answer>],
) -> anyhow::Result<BTreeMap<usize, Vec<published::Rival>>> {
    let problems = answers.iter().enumerate().filter_map(|(place, answer)| {
        let problem = &answer.as_ref()?.problem;
        (!problem.op.is_plain()).then_some((place, problem))
    });
    let mut problems = problems.peekable();
    let (Some(model), Some(_)) = (model.as_ranking(), problems.peek()) else { return Ok(BTreeMap::new()) };
    let releases = published::all(None)?;
    let found =
        problems.map(|(place, problem)| Ok((place, published::rivals(&releases, model, hardware, problem)?)));
    let found = found.collect::<anyhow::Result<Vec<_>>>()?;
    Ok(found.into_iter().filter(|(_, rivals)| !rivals.is_empty()).collect())
}

/// Prints each note once, with the number of problems that it is about.
fn say_caveats(answers: &[Option<Answer>]) {
    let alone = answers.len() == 1;
    let mut notes: BTreeMap<&str, (usize, String)> = BTreeMap::new();
    for answer in answers.iter().flatten() {
        for note in answer.caveat.iter().chain(&answer.uncounted) {
            let first = || (0, format!("{} {}", answer.problem.op, answer.problem.dims()));
            notes.entry(note).or_insert_with(first).0 += 1;
        }
    }
    for (note, (count, first)) in notes {
        match count {
            _ if alone => say!("note: {note}"),
            1 => say!("note: {first}: {note}"),
            _ => say!("note: {count} problems, such as {first}: {note}"),
        }
    }
}

/// How many picks reach this probability on problems like this one, as the model's file states.
fn picks_for(
    model: &AnyModel,
    problem: &Problem,
    question: &Question<'_>,
    probability: f64,
) -> anyhow::Result<usize> {
    let Some(model) = model.as_ranking() else {
        anyhow::bail!("--confidence: this kind of model does not say how sure it is; use --top");
    };
    model.picks_for(problem, question, probability).map_err(|unsure| match unsure {
        Unsure::Unmeasured { why } => anyhow::anyhow!(
            "--confidence: nobody has measured how sure the model is here; {}use --top",
            why.map(|why| why + " ").unwrap_or_default()
        ),
        Unsure::OutOfReach { most, group } => anyhow::anyhow!(
            "--confidence: got {probability}, expected at most {most:.3}, which is what is reached for {}; \
             time the whole space for more",
            group.in_words()
        ),
    })
}
