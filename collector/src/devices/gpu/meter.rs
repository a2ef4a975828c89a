//! The [`Meter`] of a GPU. It sends problems to a measuring process. If the process hangs or crashes, the
//! meter finds the config that caused it and starts a new process without that config.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_core::{Config, FailureReason, Method, Problem};

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::management::{self, Management};
use crate::devices::gpu::process::{
    Attempt, EXACT, GpuDescription, GpuProcess, KERNEL_SIZES, Measure, Results,
};
use crate::devices::measuring_process::{Lost, MeasuringProcess};
use crate::devices::{MeasuredConfigs, Meter, Outcome, Quality, Surroundings};
use crate::failure::Interrupted;
use crate::kernels::variant::Variant;

/// After this many crashes and hangs on one problem, the next one ends the problem: all its configs count as
/// failed. The most seen was a dozen, and each costs a few seconds.
const MOST_CULPRITS: usize = 40;

/// If this many problems in a row end the process before it launches a config, the GPU is at fault.
const MOST_LOST_IN_A_ROW: u32 = 2;

/// How the measuring processes of GPUs are started.
#[derive(Debug, Clone)]
pub(crate) struct GpuOptions {
    /// The packs to begin with. [`Meter::use_packs`] replaces them.
    pub(crate) packs: Vec<PathBuf>,
    /// The vendor of the GPUs.
    pub(crate) vendor: GpuVendor,
    /// The folder with cuBLAS or hipBLASLt; `None` if the system finds it.
    pub(crate) library: Option<PathBuf>,
    pub(crate) seed: u64,
    /// After how long a silent process counts as hung, not counting the time that its kernels take.
    pub(crate) patience: Duration,
}

pub(crate) struct GpuMeter {
    process: GpuProcess,
    options: GpuOptions,
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
        let options = options.clone();
        let (process, described) = started(&options, device, abandon)?;
        let exact = is_exact(&described);
        let (bus_id, management) = (described.bus_id.clone(), OnceCell::new());
        let culprits = HashMap::new();
        let meter = Self { process, options, device, bus_id, management, exact, culprits, lost_in_a_row: 0 };
        Ok((meter, described))
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

/// Starts a measuring process and waits for its description of the GPU.
fn started(
    options: &GpuOptions,
    device: u32,
    abandon: &dyn Fn() -> bool,
) -> anyhow::Result<(GpuProcess, GpuDescription)> {
    let program = std::env::current_exe().context("cannot find the diode program itself")?;
    let GpuOptions { packs, vendor, library, patience, .. } = options.clone();
    let process = MeasuringProcess::new(move || {
        let mut command = Command::new(&program);
        command.arg("measure-gpu").args(["--device", &device.to_string(), "--backend", vendor.backend()]);
        for pack in &packs {
            command.arg("--kernels").arg(pack);
        }
        if let Some(folder) = &library {
            command.arg("--library").arg(folder);
        }
        Ok(command)
    });
    let mut process = GpuProcess::new(process, patience);
    let Some(described) = process.ready(abandon)? else {
        return Err(Interrupted::new("interrupted while the GPU was starting").into());
    };
    Ok((process, described))
}

fn is_exact(described: &GpuDescription) -> bool {
    described.facts.get(KERNEL_SIZES).is_some_and(|sizes| sizes == EXACT)
}

impl Meter for GpuMeter {
    fn use_packs(
        &mut self,
        packs: &[PathBuf],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<BTreeMap<String, String>> {
        self.options.packs = packs.to_vec();
        // A new process is started, because the old one would go on with the packs that it has opened.
        let (process, described) = started(&self.options, self.device, abandon)?;
        self.process = process;
        self.exact = is_exact(&described);
        Ok(described.facts)
    }

    fn surroundings(&self) -> Surroundings {
        let open = || management::open(self.options.vendor, &self.bus_id);
        let Some(management) = self.management.get_or_init(open) else { return Surroundings::default() };
        let own = usize::from(self.process.is_running());
        let state = management.state();
        Surroundings {
            others: management.processes().map(|processes| processes.saturating_sub(own)),
            celsius: state.celsius,
            slowed: state.throttled.is_some_and(|throttled| throttled.by_fault),
        }
    }

    fn let_go(&mut self) {
        self.process.end();
    }

    fn take_again(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<()> {
        self.process.restart(abandon).map(drop)
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
        let mut left: Vec<Config> = configs.to_vec();
        let mut failed = Vec::new();
        left.retain(|config| match self.known_failure(problem, config) {
            None => true,
            Some(reason) => {
                failed.push((*config, reason));
                false
            }
        });
        let known = failed.len();
        let (mut careful, mut ever_launched) = (false, false);
        // After a lost process, the next attempt has one config less, or launches them one by one to find
        // the culprit.
        loop {
            let request =
                Measure { problem: problem.clone(), configs: left.clone(), seed: self.options.seed, careful };
            match self.process.attempt(&request, abandon)? {
                Attempt::Done(results) => {
                    self.lost_in_a_row = 0;
                    return Ok(outcome(&left, results, failed));
                }
                Attempt::Refused(reason) => return Ok(Outcome::Refused(reason)),
                Attempt::Abandoned => return Ok(Outcome::Abandoned),
                Attempt::OutOfMemory => {
                    self.lost_in_a_row = 0;
                    return Ok(all_failed(configs, FailureReason::OutOfMemory));
                }
                Attempt::Lost { why, at, launched } => {
                    ever_launched |= launched;
                    if launched {
                        self.lost_in_a_row = 0;
                    }
                    let reason = match why {
                        Lost::TimedOut => FailureReason::Timeout,
                        Lost::Died => FailureReason::Launch,
                    };
                    match at {
                        Some((first, last)) if first == last && failed.len() < known + MOST_CULPRITS => {
                            let culprit = left.remove(first);
                            if let Some(key) = self.kernel(problem, &culprit) {
                                self.culprits.insert(key, reason);
                            }
                            failed.push((culprit, reason));
                        }
                        // Launching the configs one by one shows which one was at fault.
                        _ if !careful => careful = true,
                        _ if !ever_launched => return self.lost_before_a_launch(why),
                        _ => return Ok(all_failed(configs, reason)),
                    }
                }
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
        let what = match why {
            Lost::TimedOut => "hung",
            Lost::Died => "broke down",
        };
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
    let quality = results.quality;
    let timed = results
        .timed
        .into_iter()
        .filter(|(number, _)| *number < configs.len())
        .map(|(number, nanos)| (configs[number], nanos.into_iter().collect()));
    let timed = timed.collect();
    let more = results.failed.into_iter().filter(|(number, _)| *number < configs.len());
    failed.extend(more.map(|(number, reason)| (configs[number], reason)));
    Outcome::Measured { measured: MeasuredConfigs { timed, failed }, quality }
}

#[cfg(unix)]
#[cfg(test)]
mod tests;
