//! Measuring on a GPU, as a [`Meter`]: a measuring process that hangs or crashes is replaced,
//! and the config that did it is found and left out.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_core::{Config, FailureReason, Method, Problem};

use super::management::Management;
use super::process::{Attempt, GpuDescription, GpuProcess};
use super::protocol::{EXACT, KERNEL_SIZES, Measure, Results};
use super::vendor::Vendor;
use crate::devices::measured::MeasuredConfigs;
use crate::devices::measuring_process::{Lost, MeasuringProcess};
use crate::devices::meter::{Meter, Outcome, Quality, Surroundings};
use crate::devices::samples::Samples;
use crate::failure::Interrupted;
use crate::kernels::variant::{Variant, tile_of};

/// If more configs of one problem than this crash or hang, the rest is given up too. A dozen tiles of one
/// variant have done so; each costs a few seconds.
const MOST_CULPRITS: usize = 40;

/// If this many problems in a row end the process before it launches a config, the GPU is at fault.
const MOST_LOST_IN_A_ROW: u32 = 2;

/// How the measuring processes of GPUs are started.
#[derive(Debug, Clone)]
pub(crate) struct GpuOptions {
    /// Those to begin with; others can follow.
    pub(crate) packs: Vec<PathBuf>,
    /// Whose GPUs they are.
    pub(crate) vendor: Vendor,
    pub(crate) library: Option<PathBuf>,
    pub(crate) seed: u64,
    /// How long a process may be silent, besides what its kernels take.
    pub(crate) patience: Duration,
}

pub(crate) struct GpuMeter {
    process: GpuProcess,
    options: GpuOptions,
    device: u32,
    bus_id: String,
    /// Opened when it is first asked. This process asks it, since the measuring process may be gone.
    management: OnceCell<Option<Management>>,
    /// Whether kernels serve one problem's sizes only.
    exact: bool,
    /// Kernels that crashed or hung on an earlier problem. They would do so on every problem that they serve.
    culprits: HashMap<String, FailureReason>,
    /// Problems in a row that ended the process before it could launch a config.
    lost_in_a_row: u32,
}

impl GpuMeter {
    /// Starts the process of one GPU, which describes it; gives up when `abandon` is true.
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

    /// The kernel of the pack that runs a config on a problem.
    fn kernel(&self, problem: &Problem, config: &Config) -> Option<String> {
        let (variant, tile) = (Variant::in_pack(problem, self.exact).ok()?, tile_of(config)?);
        Some(variant.key(tile, variant.fits(tile, problem)))
    }

    fn known_failure(&self, problem: &Problem, config: &Config) -> Option<FailureReason> {
        self.culprits.get(&self.kernel(problem, config)?).copied()
    }
}

/// Starts a measuring process, and waits for what it says of its GPU.
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
        // The old process would go on with the packs that it has opened.
        let (process, described) = started(&self.options, self.device, abandon)?;
        self.process = process;
        self.exact = is_exact(&described);
        Ok(described.facts)
    }

    fn surroundings(&self) -> Surroundings {
        let open = || Management::open(self.options.vendor, &self.bus_id);
        let Some(management) = self.management.get_or_init(open) else { return Surroundings::default() };
        let own = usize::from(self.process.is_running());
        let state = management.state();
        Surroundings {
            others: management.processes().map(|processes| processes.saturating_sub(own)),
            celsius: state.celsius,
            slowed: state.throttled.is_some_and(|throttled| throttled.by_trouble),
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
                        // Launching them one by one shows which config it was.
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
    /// One problem may end the process of a sound GPU; after two in a row the GPU is at fault. Neither case
    /// tells anything about configs, so nothing is recorded.
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
    let quality = Quality {
        disturbed: results.disturbed,
        busy_ns: results.busy_ns,
        wall_ns: results.wall_ns,
        late: results.late,
        power_capped: results.power_capped,
    };
    let timed =
        results.timed.into_iter().filter(|(number, _)| *number < configs.len()).map(|(number, nanos)| {
            let mut samples = Samples::default();
            samples.add(nanos);
            (configs[number], samples)
        });
    let timed = timed.collect();
    let more = results.failed.into_iter().filter(|(number, _)| *number < configs.len());
    failed.extend(more.map(|(number, reason)| (configs[number], reason)));
    Outcome::Measured { measured: MeasuredConfigs { timed, failed }, quality }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;
    use crate::devices::meter::NotReady;

    const READY: &str = r#"echo '{"ready":{"name":"NVIDIA Test","arch":"sm_90","bus_id":"0000:ff:1f.7","memory_bytes":1,"facts":{},"devices":1,"warnings":[]}}'"#;

    fn meter(script: &str) -> GpuMeter {
        let script = format!("{READY}; {script}");
        let process = MeasuringProcess::new(move || {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            Ok(command)
        });
        let process = GpuProcess::new(process, Duration::from_secs(30));
        let (vendor, patience) = (Vendor::Nvidia, Duration::from_secs(30));
        GpuMeter {
            process,
            options: GpuOptions { packs: Vec::new(), vendor, library: None, seed: 1, patience },
            device: 0,
            bus_id: String::new(),
            management: OnceCell::from(None),
            exact: false,
            culprits: HashMap::new(),
            lost_in_a_row: 0,
        }
    }

    fn problem() -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, 16, 16, 16, DType::Float16)).unwrap()
    }

    fn configs() -> Vec<Config> {
        [16, 32, 64].map(|block| Config::Mm(Tile::new(block, 16, 16, 1, 2))).to_vec()
    }

    fn measure(script: &str) -> MeasuredConfigs {
        let outcome = meter(script).measure(&problem(), &configs(), &|| false).unwrap();
        let Outcome::Measured { measured, .. } = outcome else { panic!("not measured") };
        measured
    }

    const RESULTS: &str = r#"{"measured":{"timed":[[0,[5,7,6]],[1,[9]]],"failed":[],"repeated":0,"disturbed":false,
        "busy_ns":30,"wall_ns":40,"late":0,"sm_mhz":null,"celsius":null,"power_capped":false}}"#;

    #[test]
    fn times_and_failures_are_those_of_the_right_configs() {
        let results = RESULTS.replace('\n', "").replace(r#""failed":[]"#, r#""failed":[[2,"wrong_result"]]"#);
        let measured = measure(&format!("read l; echo '{results}'"));
        assert_eq!(measured.failed, [(configs()[2], FailureReason::WrongResult)]);
        let medians: Vec<_> = measured.timed.iter().map(|(config, s)| (*config, s.median())).collect();
        assert_eq!(medians, [(configs()[0], Some(6)), (configs()[1], Some(9))]);
    }

    #[test]
    fn a_config_that_crashes_the_process_is_found_and_left_out() {
        // Dies at the first three together, then at the second alone, then measures two.
        let results = RESULTS.replace('\n', "");
        let script = format!(
            r#"while read -r l; do case "$l" in
            *'"careful":false'*'"block_m":32'*|*'"block_m":32'*'"careful":false'*) echo '{{"at":{{"first":0,"last":2}}}}'; exit 1;;
            *'"block_m":32'*) echo '{{"at":{{"first":0,"last":0}}}}'; echo '{{"at":{{"first":1,"last":1}}}}'; exit 1;;
            *) echo '{results}';; esac; done"#
        );
        let mut meter = meter(&script);
        for problem in [problem(), Problem::new(ProblemFields { m: 32, ..problem().into_fields() }).unwrap()]
        {
            let Ok(Outcome::Measured { measured, .. }) = meter.measure(&problem, &configs(), &|| false)
            else {
                panic!("not measured")
            };
            assert_eq!(measured.failed, [(configs()[1], FailureReason::Launch)]);
            let timed: Vec<Config> = measured.timed.iter().map(|(config, _)| *config).collect();
            assert_eq!(timed, [configs()[0], configs()[2]]);
            // On the next problem no process dies again: one that is asked for all three would.
        }
    }

    #[test]
    fn a_gpu_that_fails_before_any_launch_is_given_up_at_the_second_problem_in_a_row() {
        let mut meter = meter("read l; exit 1");
        let first = meter.measure(&problem(), &configs(), &|| false).unwrap();
        assert!(matches!(first, Outcome::Refused(reason) if reason.contains("--resume tries again")));
        let error = meter.measure(&problem(), &configs(), &|| false).err().unwrap();
        assert!(error.to_string().contains("on 2 problems in a row"), "{error}");
    }

    #[test]
    fn a_process_that_keeps_dying_at_its_launches_costs_the_problem_and_no_more() {
        let measured = measure(r#"read l; echo '{"at":{"first":0,"last":2}}'; exit 1"#);
        assert_eq!(measured.timed.len(), 0);
        assert_eq!(measured.failed.len(), 3);
        assert!(measured.failed.iter().all(|(_, reason)| *reason == FailureReason::Launch));
    }

    #[test]
    fn refusals_and_memory_are_told_apart() {
        let refused = meter(r#"read l; echo '{"refused":{"reason":"no kernels"}}'"#);
        let outcome = { refused }.measure(&problem(), &configs(), &|| false).unwrap();
        assert!(matches!(outcome, Outcome::Refused(reason) if reason == "no kernels"));
        let measured = measure(r#"read l; echo '"out_of_memory"'"#);
        assert!(measured.failed.iter().all(|(_, reason)| *reason == FailureReason::OutOfMemory));
    }

    #[test]
    fn a_pack_that_cannot_be_read_ends_the_collection_and_lack_of_memory_the_problem() {
        let broken =
            |cause: &str| format!(r#"read l; echo '{{"broken":{{"message":"why","cause":"{cause}"}}}}'"#);
        let error = meter(&broken("pack")).measure(&problem(), &configs(), &|| false).err().unwrap();
        assert_eq!(error.to_string(), "why");
        let outcome = meter(&broken("memory")).measure(&problem(), &configs(), &|| false).unwrap();
        assert!(matches!(outcome, Outcome::Refused(reason) if reason.contains("no memory left (why)")));
        let outcome = meter(&broken("gpu")).measure(&problem(), &configs(), &|| false).unwrap();
        assert!(matches!(outcome, Outcome::Refused(reason) if reason.contains("broke down")));
    }

    #[test]
    fn a_process_that_does_not_start_again_may_do_so_later() {
        let broken = r#"echo '{"broken":{"message":"the driver is being updated","cause":"gpu"}}'"#;
        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mended");
        let results = RESULTS.replace('\n', "");
        let script = format!(
            "test -e '{}' || {{ {broken}; exit; }}; {READY}; read l; echo '{results}'",
            mark.display()
        );
        let mut meter = meter("");
        meter.process = GpuProcess::new(
            MeasuringProcess::new(move || {
                let mut command = Command::new("sh");
                command.args(["-c", &script]);
                Ok(command)
            }),
            Duration::from_secs(30),
        );
        let never = || false;
        for error in [
            meter.take_again(&never).unwrap_err(),
            meter.measure(&problem(), &configs(), &never).err().unwrap(),
        ] {
            assert!(error.is::<NotReady>() && error.to_string().contains("being updated"), "{error}");
        }
        diode_formats::write_atomically(&mark, b"").unwrap();
        meter.take_again(&never).unwrap();
        let outcome = meter.measure(&problem(), &configs(), &never).unwrap();
        assert!(matches!(outcome, Outcome::Measured { .. }));
    }

    #[test]
    fn a_second_ctrl_c_ends_the_wait() {
        let outcome = meter("read l; exec sleep 100").measure(&problem(), &configs(), &|| true).unwrap();
        assert!(matches!(outcome, Outcome::Abandoned));
    }
}
