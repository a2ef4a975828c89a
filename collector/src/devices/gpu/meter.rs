//! The [`Meter`] of a GPU. It sends problems to a measuring process. If the process hangs or crashes, the
//! meter finds the config that caused it and starts a new process without that config.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_core::{Config, FailureReason, Method, Op, Problem};

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::management::{self, Management};
use crate::devices::gpu::torch::Torch;
use crate::devices::gpu::worker::{
    Cause, EXACT, GpuDescription, KERNEL_SIZES, Measure, Message, Results, no_memory_left,
};
use crate::devices::{
    Lost, MeasuredConfigs, MeasuringProcess, Meter, NotReady, Outcome, Quality, Surroundings,
};
use crate::failure::Interrupted;
use crate::kernels::variant::Variant;

/// After this many crashes and hangs on one problem, the next one ends the problem: all its configs count as
/// failed. The most seen was a dozen, and each costs a few seconds.
const MOST_CULPRITS: usize = 40;

/// If this many problems in a row end the process before it launches a config, the GPU is at fault.
const MOST_LOST_IN_A_ROW: u32 = 2;

/// The start may take this many times as long as a chunk of launches. It loads the driver, the pack and the
/// library, perhaps on a busy node.
const START: u32 = 4;
/// The rates of the slowest kernel that works, in operations and in bytes per second.
const SLOWEST_FLOPS_PER_SECOND: f64 = 1e11;
const SLOWEST_BYTES_PER_SECOND: f64 = 1e9;

/// The fact that names the version of torch which timed what the library does not have.
pub(crate) const TORCH: &str = "torch";

/// How the measuring processes of GPUs are started.
#[derive(Debug, Clone)]
pub(crate) struct GpuOptions {
    /// The packs to begin with. [`Meter::use_packs`] replaces them.
    pub(crate) packs: Vec<PathBuf>,
    /// The vendor of the GPUs.
    pub(crate) vendor: GpuVendor,
    /// The folder with cuBLAS or hipBLASLt; `None` if the system finds it.
    pub(crate) library: Option<PathBuf>,
    /// A Python with torch, which times what the library does not have.
    pub(crate) torch: Option<PathBuf>,
    pub(crate) seed: u64,
    /// After how long a silent process counts as hung, not counting the time that its kernels take.
    pub(crate) patience: Duration,
}

pub(crate) struct GpuMeter {
    process: MeasuringProcess,
    options: GpuOptions,
    torch: Option<Torch>,
    device: u32,
    bus_id: String,
    /// NVML or AMD SMI, opened on first use. The parent asks it, because the measuring process may have
    /// ended.
    management: OnceCell<Option<Box<dyn Management>>>,
    /// Whether the kernels serve only the sizes that they were built for.
    exact: bool,
    /// Kernels that crashed or hung on an earlier problem. They would do so on every problem that uses them.
    culprits: HashMap<String, FailureReason>,
    /// Problems in a row that ended the process before it could launch a config.
    lost_in_a_row: u32,
}

impl GpuMeter {
    /// Starts the process that measures one GPU. Also returns its description of the GPU. Gives up once `abandon`
    /// is true.
    pub(crate) fn start(
        options: &GpuOptions,
        device: u32,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<(Self, GpuDescription)> {
        let mut meter = Self {
            process: process(options, device)?,
            options: options.clone(),
            torch: None,
            device,
            bus_id: String::new(),
            management: OnceCell::new(),
            exact: false,
            culprits: HashMap::new(),
            lost_in_a_row: 0,
        };
        let mut described = meter.started(abandon)?;
        meter.bus_id.clone_from(&described.bus_id);
        // Torch starts last. Otherwise the first process would report it as another user of the GPU.
        if let Some(python) = &options.torch {
            meter.torch = Some(Torch::start(python, device, abandon)?);
            described.facts.extend(meter.torch_version());
        }
        Ok((meter, described))
    }

    /// Starts the process, which describes the GPU. A failure that may pass later is a [`NotReady`].
    fn started(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<GpuDescription> {
        let patience = self.options.patience.saturating_mul(START);
        let not_ready = |message: String| Err(NotReady(message).into());
        let began = self.process.ask(None::<&Measure>, patience, abandon, Some);
        let described = began.and_then(|began| match began {
            Ok(Message::Ready(mut described)) => {
                described.facts.extend(self.torch_version());
                Ok(described)
            }
            Ok(Message::Broken { message, cause: Cause::Gpu | Cause::Memory }) => not_ready(message),
            Ok(Message::Broken { message, cause: Cause::Pack | Cause::Setup }) => bail!("{message}"),
            Ok(other) => bail!("the measuring process began with {other:?}"),
            Err(Lost::Abandoned) => Err(Interrupted::new("interrupted while the GPU was starting").into()),
            Err(Lost::Died) => not_ready("the measuring process ended at its start".to_owned()),
            Err(Lost::TimedOut) => not_ready(format!(
                "the GPU did not answer within {} s of starting; if it is busy, give it more with --gpu-patience",
                patience.as_secs()
            )),
        });
        match &described {
            Ok(described) => {
                self.exact = described.facts.get(KERNEL_SIZES).is_some_and(|sizes| sizes == EXACT);
            }
            // A process that did not start well is of no use.
            Err(_) => self.process.end(),
        }
        described
    }

    /// The fact of the node that torch adds.
    fn torch_version(&self) -> Option<(String, String)> {
        Some((TORCH.to_owned(), self.torch.as_ref()?.version.clone()))
    }

    /// Starts the process if it is gone. `false` if the start was abandoned.
    fn restarted(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<bool> {
        if self.process.is_running() {
            return Ok(true);
        }
        match self.started(abandon) {
            Err(error) if error.is::<Interrupted>() => Ok(false),
            started => started.map(|_| true),
        }
    }

    /// The name of the kernel that runs a config on a problem.
    fn kernel(&self, problem: &Problem, config: &Config) -> Option<String> {
        let variant = Variant::in_pack(problem, self.exact).ok()?;
        Some(variant.key(&variant.form(config, problem)?))
    }

    /// Why the config's kernel failed on an earlier problem; `None` if it did not.
    fn known_failure(&self, problem: &Problem, config: &Config) -> Option<FailureReason> {
        self.culprits.get(&self.kernel(problem, config)?).copied()
    }
}

/// The process that measures on a GPU. It starts when it is first asked.
fn process(options: &GpuOptions, device: u32) -> anyhow::Result<MeasuringProcess> {
    let program = std::env::current_exe().context("cannot find the diode program itself")?;
    let GpuOptions { packs, vendor, library, .. } = options.clone();
    Ok(MeasuringProcess::new(move || {
        let mut command = Command::new(&program);
        command.arg("measure-gpu").args(["--device", &device.to_string(), "--backend", vendor.backend()]);
        for pack in &packs {
            command.arg("--kernels").arg(pack);
        }
        if let Some(folder) = &library {
            command.arg("--library").arg(folder);
        }
        command
    }))
}

impl Meter for GpuMeter {
    fn use_packs(
        &mut self,
        packs: &[PathBuf],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        self.options.packs = packs.to_vec();
        // A new process is started, because the old one would go on with the packs that it has opened.
        self.process = process(&self.options, self.device)?;
        Ok(self.started(abandon)?.facts)
    }

    fn surroundings(&self) -> Surroundings {
        let open = || management::open(self.options.vendor, &self.bus_id);
        let Some(management) = self.management.get_or_init(open) else { return Surroundings::default() };
        let torch = self.torch.as_ref().is_some_and(Torch::is_running);
        let own = usize::from(self.process.is_running()) + usize::from(torch);
        let state = management.state();
        Surroundings {
            others: management.processes().map(|processes| processes.saturating_sub(own)),
            celsius: state.celsius,
            slowed: state.throttled.is_some_and(|throttled| throttled.by_fault),
        }
    }

    fn let_go(&mut self) {
        self.process.end();
        self.torch.iter_mut().for_each(Torch::end);
    }

    fn take_again(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<()> {
        self.restarted(abandon).map(drop)
    }

    fn method(&self) -> Method {
        Method::MEDIAN_COLD_EVENT
    }

    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        match self.measure_kernels(problem, configs, abandon)? {
            Outcome::Measured { measured, quality } => {
                let with_torch = self.add_torch(problem, configs, measured, abandon)?;
                Ok(with_torch.map_or(Outcome::Abandoned, |measured| Outcome::Measured { measured, quality }))
            }
            other => Ok(other),
        }
    }
}

impl GpuMeter {
    /// Adds what torch takes, if the library was to be timed and has no such multiplication. `None` if it is
    /// abandoned.
    fn add_torch(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        mut measured: MeasuredConfigs,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<MeasuredConfigs>> {
        let Some(torch) = &mut self.torch else { return Ok(Some(measured)) };
        let known = measured.timed.iter().map(|one| one.0).chain(measured.failed.iter().map(|one| one.0));
        let lacks_library =
            configs.contains(&Config::Library) && known.into_iter().all(|one| !one.is_library());
        if lacks_library && !problem.op.is_plain() && problem.op != Op::FusedMoe {
            let patience = self.options.patience.saturating_add(slowest(problem, 16));
            match torch.time(problem, patience, abandon)? {
                None => return Ok(None),
                Some(Ok(samples)) => measured.timed.push((Config::Library, samples)),
                Some(Err(why)) => say!("note: {} by torch: {why}", problem.canonical()),
            }
        }
        Ok(Some(measured))
    }

    fn measure_kernels(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        let (mut left, mut failed) = (Vec::new(), Vec::new());
        for &config in configs {
            match self.known_failure(problem, &config) {
                None => left.push(config),
                Some(reason) => failed.push((config, reason)),
            }
        }
        let most = failed.len() + MOST_CULPRITS;
        let (mut careful, mut ever_launched) = (false, false);
        // After a lost process, the next attempt has one config less, or launches them one by one to find
        // the culprit.
        loop {
            if !self.restarted(abandon)? {
                return Ok(Outcome::Abandoned);
            }
            let request =
                Measure { problem: problem.clone(), configs: left.clone(), seed: self.options.seed, careful };
            // Between two messages, the process makes the inputs and the reference or runs one chunk of launches.
            let patience = self.options.patience.saturating_add(slowest(problem, left.len()));
            // The first and the last config that the process is about to launch, if it has said so.
            let (mut at, mut launched) = (None, false);
            let read = |message| match message {
                Message::At { first, last } => {
                    (at, launched) = (Some((first, last)), true);
                    None
                }
                Message::Busy => {
                    at = None;
                    None
                }
                last => Some(last),
            };
            let answer = self.process.ask(Some(&request), patience, abandon, read)?;
            if launched || matches!(answer, Ok(Message::Measured(_) | Message::OutOfMemory)) {
                self.lost_in_a_row = 0;
            }
            let why = match answer {
                Ok(Message::Measured(results)) => return Ok(outcome(&left, results, failed)),
                Ok(Message::Refused { reason }) => return Ok(Outcome::Refused(reason)),
                Ok(Message::OutOfMemory) => return Ok(all_failed(configs, FailureReason::OutOfMemory)),
                Ok(Message::Broken { message, cause: Cause::Gpu }) => {
                    self.process.end();
                    say!("the measuring process broke down ({message}); another takes over");
                    Lost::Died
                }
                Ok(Message::Broken { message, cause: Cause::Memory }) => {
                    self.process.end();
                    return Ok(Outcome::Refused(no_memory_left(&message)));
                }
                Ok(Message::Broken { message, cause: Cause::Pack | Cause::Setup }) => {
                    self.process.end();
                    bail!("{message}")
                }
                Ok(other) => bail!("the measuring process answered a problem with {other:?}"),
                Err(Lost::Abandoned) => return Ok(Outcome::Abandoned),
                Err(why) => why,
            };
            ever_launched |= launched;
            match at {
                Some((first, last)) if first == last && failed.len() < most => {
                    let culprit = left.remove(first);
                    if let Some(key) = self.kernel(problem, &culprit) {
                        self.culprits.insert(key, why.reason());
                    }
                    failed.push((culprit, why.reason()));
                }
                // Launching the configs one by one shows which one was at fault.
                _ if !careful => careful = true,
                _ if !ever_launched => return self.lost_before_a_launch(why),
                _ => return Ok(all_failed(configs, why.reason())),
            }
        }
    }
}

impl GpuMeter {
    /// Counts a problem on which the process ended before a launch. On a healthy GPU this may happen once.
    /// After two such problems in a row, the GPU is at fault. No failure is recorded, because no config
    /// caused it.
    fn lost_before_a_launch(&mut self, why: Lost) -> anyhow::Result<Outcome> {
        self.lost_in_a_row += 1;
        let what = if why == Lost::TimedOut { "hung" } else { "broke down" };
        if self.lost_in_a_row >= MOST_LOST_IN_A_ROW {
            bail!(
                "the GPU {what} before a config was launched, on {} problems in a row; see what `{}` and \
                 the system's log say of it, then go on with --resume",
                self.lost_in_a_row,
                self.options.vendor.tool()
            );
        }
        Ok(Outcome::Refused(format!(
            "the GPU {what} before a config was launched, twice; --resume tries again"
        )))
    }
}

fn all_failed(configs: &[Config], reason: FailureReason) -> Outcome {
    Outcome::Measured { measured: MeasuredConfigs::all_failed(configs, reason), quality: Quality::default() }
}

fn outcome(configs: &[Config], results: Results, mut failed: Vec<(Config, FailureReason)>) -> Outcome {
    let Results { timed, failed: more, quality, .. } = results;
    let config = |number: usize| configs.get(number).copied();
    let timed =
        timed.into_iter().filter_map(|(number, nanos)| Some((config(number)?, nanos.into_iter().collect())));
    failed.extend(more.into_iter().filter_map(|(number, reason)| Some((config(number)?, reason))));
    Outcome::Measured { measured: MeasuredConfigs { timed: timed.collect(), failed }, quality }
}

/// How long the kernels themselves may take while the process is silent.
fn slowest(problem: &Problem, configs: usize) -> Duration {
    let kernel = problem.flops() / SLOWEST_FLOPS_PER_SECOND + problem.bytes() / SLOWEST_BYTES_PER_SECOND;
    // A chunk may have more than 16 launches, but nearly all of them are far faster than the slowest kernel.
    let launches = configs.clamp(1, 16) as f64;
    Duration::try_from_secs_f64(kernel * launches).unwrap_or(Duration::MAX)
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
