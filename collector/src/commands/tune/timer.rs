//! Kernels timed by a Python process: vLLM's and SGLang's own where they are installed, or else ours.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_core::{Config, Problem, Scaling, Tile};
use diode_workloads::file_names::Consumer;
use diode_workloads::tuning::Pick;
use serde::{Deserialize, Serialize};

use crate::devices::{LineProcess, Lost};
use crate::interrupt::Interrupt;
use crate::kernels::cache_folder;

/// The process's program, and the kernels of ours that it may time.
const SOURCES: [(&str, &str); 2] = [
    ("timer.py", include_str!("../../../kernels/timer.py")),
    ("serving.py", include_str!("../../../kernels/serving.py")),
];
/// How long the start may take. Importing torch from a cold disk takes half a minute.
const START_PATIENCE: Duration = Duration::from_secs(60);
/// No batch size takes as long to compile and to time.
const PATIENCE: Duration = Duration::from_secs(300);
/// Of each config, so many rounds are timed unless they take long.
const ROUNDS: u32 = 24;
/// The most seconds of GPU time for a launch's configs at one batch size.
const SECONDS: f64 = 1.5;

/// A process that times configs.
pub(super) struct Timer {
    process: LineProcess,
    /// What the process writes to stderr.
    errors: File,
    interrupt: Interrupt,
    pub(super) ready: Ready,
}

/// What the process says at its start.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct Ready {
    /// The GPU's name as torch has it.
    pub(super) gpu: String,
    pub(super) versions: BTreeMap<String, String>,
    /// Whose kernels there are.
    kernels: BTreeMap<String, Installed>,
}

/// A package whose kernel was found.
#[derive(Debug, Clone, Deserialize)]
struct Installed {
    version: Option<String>,
    package: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Ready(Ready),
    Refused(String),
    /// How many kernels are compiled, and of how many.
    Compiled([u64; 2]),
    Timed(Timed),
    Done {},
}

/// The times of a batch size's launches, in the order of the request.
#[derive(Deserialize)]
struct Timed {
    batch: u64,
    launches: Vec<Outcome>,
}

/// The times of a launch, or why there are none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    /// µs of each round.
    Us(Vec<f64>),
    Failed(String),
}

/// A launch's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Parameters {
    block_m: u32,
    block_n: u32,
    block_k: u32,
    group_m: u32,
    num_warps: u32,
    num_stages: u32,
    swap: bool,
}

impl From<&Tile> for Parameters {
    fn from(tile: &Tile) -> Self {
        Self {
            block_m: tile.block_m,
            block_n: tile.block_n,
            block_k: tile.block_k,
            group_m: tile.group_m,
            num_warps: tile.num_warps,
            num_stages: tile.num_stages,
            swap: tile.swap_ab,
        }
    }
}

impl Parameters {
    /// The config that runs on a problem with this K.
    pub(super) fn config(&self, k: u64) -> Config {
        let Self { block_m, block_n, block_k, group_m, num_warps, num_stages, swap } = *self;
        let tile = Tile::new(block_m, block_n, block_k, num_stages, num_warps);
        Config::Mm(Tile { group_m, swap_ab: swap, ..tile }.for_k(k))
    }
}

/// A launch of a batch: gate-up and down are the stages 0 and 1 of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Launch {
    pub(super) stage: usize,
    pub(super) config: Parameters,
}

impl Launch {
    /// The launches of a pick, one for each of so many stages.
    pub(super) fn all_of(pick: &Pick, stages: usize) -> impl Iterator<Item = Self> + '_ {
        let tile =
            move |stage| if stage == 1 { pick.down.as_ref().unwrap_or(&pick.tile) } else { &pick.tile };
        (0..stages).map(move |stage| Self { stage, config: Parameters::from(tile(stage)) })
    }
}

/// What to time of one batch size.
pub(super) struct Wanted {
    pub(super) batch: u64,
    /// The problem of each stage.
    pub(super) problems: Vec<Problem>,
    pub(super) launches: Vec<Launch>,
}

/// A layer's batch sizes.
pub(super) struct LayerRequest<'a> {
    pub(super) consumer: Consumer,
    pub(super) block: Option<[u32; 2]>,
    /// Whether its experts are spread over GPUs.
    pub(super) spread: bool,
    pub(super) budget: Duration,
    pub(super) wanted: &'a [Wanted],
}

#[derive(Serialize)]
struct Order<'a> {
    folder: &'a Path,
    consumers: [&'a str; 2],
    kind: &'static str,
}

#[derive(Serialize)]
struct Request<'a> {
    consumer: &'a str,
    reader: Consumer,
    kind: &'static str,
    experts: u32,
    spread: bool,
    operand: &'static str,
    scaling: &'static str,
    block: Option<[u32; 2]>,
    budget: f64,
    rounds: u32,
    seconds: f64,
    batches: Vec<BatchRequest<'a>>,
}

#[derive(Serialize)]
struct BatchRequest<'a> {
    batch: u64,
    tokens: u64,
    top_k: u32,
    /// N and K of each stage.
    stages: Vec<[u64; 2]>,
    launches: &'a [Launch],
}

/// How the timing of a layer ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// All batch sizes were timed, or those that the budget allowed.
    Over,
    /// The user wants it to stop.
    Stopped,
}

const OURS: &str = "diode";

impl Timer {
    /// Starts the process. The error says what Python lacks.
    pub(super) fn start(
        python: &Path,
        consumer: Consumer,
        problem: &Problem,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let folder = cache_folder()?.join("timer");
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot create {}", folder.display()))?;
        for (name, text) in SOURCES {
            let path = folder.join(name);
            if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
                crate::output::files::write(&path, text.as_bytes())?;
            }
        }
        let mut command = Command::new(python);
        command.arg(folder.join("timer.py"));
        let order = Order { folder: &folder, consumers: [consumer.as_str(), OURS], kind: kind(problem) };
        say!("starting {}", python.display());
        Self::greet(command, &serde_json::to_string(&order)?, START_PATIENCE, interrupt)
    }

    /// Starts a process, and waits for what it says at its start.
    fn greet(
        mut command: Command,
        order: &str,
        patience: Duration,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Self> {
        let program = Path::new(command.get_program()).display().to_string();
        let errors = tempfile::tempfile().context("cannot make a temporary file")?;
        command.stderr(errors.try_clone()?);
        let process = LineProcess::start(command).with_context(|| format!("cannot start {program}"))?;
        let ready = Ready { gpu: String::new(), versions: BTreeMap::new(), kernels: BTreeMap::new() };
        let mut timer = Self { process, errors, interrupt: interrupt.clone(), ready };
        // A failed write means that the process is gone, which the answer reports.
        let _ = timer.process.send(order);
        match timer.answer(patience) {
            Ok(Answer::Ready(ready)) => timer.ready = ready,
            Ok(Answer::Refused(why)) => bail!("{program}: {why}"),
            Ok(_) => bail!("{program}: it began with an answer to something else"),
            Err(Lost::Abandoned) => {
                let why = "interrupted while the GPU was starting; nothing was written";
                return Err(crate::failure::Interrupted::new(why).into());
            }
            Err(Lost::TimedOut) => {
                let last = timer.last_words();
                bail!("{program}: it was silent for {} s at its start{last}", patience.as_secs())
            }
            Err(Lost::Died) => {
                let last = timer.last_words();
                bail!(
                    "{program}: it ended without an answer{last}; try `{program} -c 'import torch, triton'`"
                )
            }
        }
        Ok(timer)
    }

    /// The last line that the process wrote to stderr, after a colon. Nothing if it wrote none.
    fn last_words(&mut self) -> String {
        /// No line that helps is longer.
        const MOST: u64 = 4096;
        let mut bytes = Vec::new();
        // The process is at its end, so that it writes nothing at the place to which this moves.
        let length = self.errors.metadata().map_or(0, |file| file.len());
        let read = self
            .errors
            .seek(SeekFrom::Start(length.saturating_sub(MOST)))
            .and_then(|_| (&self.errors).take(MOST).read_to_end(&mut bytes));
        let text = String::from_utf8_lossy(&bytes);
        let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
        last.filter(|_| read.is_ok()).map_or_else(String::new, |line| format!(": {line:.300}"))
    }

    /// Whether the server's own kernel was found.
    pub(super) fn has(&self, consumer: Consumer) -> bool {
        self.ready.kernels.contains_key(consumer.as_str())
    }

    /// The folder of the server's package.
    pub(super) fn package(&self, consumer: Consumer) -> Option<&Path> {
        self.ready.kernels.get(consumer.as_str())?.package.as_deref().map(Path::new)
    }

    /// Whose kernel is timed, in words.
    pub(super) fn kernel(&self, consumer: Consumer) -> String {
        let triton = self.ready.versions.get("triton").map_or("", String::as_str);
        match self.ready.kernels.get(consumer.as_str()) {
            Some(Installed { version: Some(version), .. }) => {
                format!("{} {version}'s kernel, Triton {triton}", consumer.title())
            }
            Some(_) => format!("{}'s kernel, Triton {triton}", consumer.title()),
            None => format!("diode's kernel, Triton {triton}"),
        }
    }

    /// Times the launches of a layer. Each batch size's times go to `timed`, and how many kernels are compiled, to
    /// `compiled`.
    pub(super) fn run(
        &mut self,
        layer: &LayerRequest<'_>,
        mut timed: impl FnMut(u64, Vec<Outcome>) -> anyhow::Result<()>,
        mut compiled: impl FnMut(u64, u64),
    ) -> anyhow::Result<End> {
        let Some(first) = layer.wanted.first().and_then(|wanted| wanted.problems.first()) else {
            return Ok(End::Over);
        };
        let consumer = layer.consumer;
        let batches = layer.wanted.iter().map(|wanted| BatchRequest {
            batch: wanted.batch,
            tokens: wanted.problems[0].m,
            top_k: wanted.problems[0].groups.map_or(1, |groups| groups.top_k),
            stages: wanted.problems.iter().map(|problem| [problem.n, problem.k]).collect(),
            launches: &wanted.launches,
        });
        let request = Request {
            consumer: if self.has(consumer) { consumer.as_str() } else { OURS },
            reader: consumer,
            kind: kind(first),
            experts: first.groups.map_or(1, |groups| groups.count),
            spread: layer.spread,
            operand: if first.a_dtype.is_fp8() { "fp8" } else { "bf16" },
            scaling: match first.scaling {
                Scaling::None => "none",
                Scaling::Block => "block",
                _ => "row",
            },
            block: layer.block,
            budget: layer.budget.as_secs_f64(),
            rounds: ROUNDS,
            seconds: SECONDS,
            batches: batches.collect(),
        };
        let _ = self.process.send(&serde_json::to_string(&request)?);
        loop {
            match self.answer(PATIENCE) {
                Ok(Answer::Timed(Timed { batch, launches })) => timed(batch, launches)?,
                Ok(Answer::Compiled([done, all])) => compiled(done, all),
                Ok(Answer::Done {}) => return Ok(End::Over),
                Ok(Answer::Refused(why)) => bail!("cannot time {}: {why}", self.kernel(consumer)),
                Ok(Answer::Ready(_)) => bail!("the timing process started twice"),
                Err(Lost::Abandoned) => return Ok(End::Stopped),
                Err(Lost::TimedOut) => {
                    let last = self.last_words();
                    bail!(
                        "the timing process was silent for {} s{last}; --resume goes on",
                        PATIENCE.as_secs()
                    )
                }
                Err(Lost::Died) => {
                    let last = self.last_words();
                    bail!("the timing process ended{last}; what was timed is kept, --resume goes on")
                }
            }
        }
    }

    fn answer(&self, patience: Duration) -> Result<Answer, Lost> {
        let line = self.process.reply(patience, &|| self.interrupt.requested())?;
        serde_json::from_str(&line).map_err(|_| Lost::Died)
    }
}

/// The kernel's kind as the process calls it.
fn kind(problem: &Problem) -> &'static str {
    if problem.groups.is_some() { "experts" } else { "dense" }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_hangs_at_its_start_is_ended() {
        let mut command = Command::new("sh");
        command.args(["-c", "echo first >&2; echo 'importing torch' >&2; exec sleep 60"]);
        let patience = Duration::from_secs(2);
        let error = Timer::greet(command, "{}", patience, &Interrupt::default()).err().unwrap().to_string();
        assert_eq!(error, "sh: it was silent for 2 s at its start: importing torch");
    }
}
