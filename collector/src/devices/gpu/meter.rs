//! A GPU's side of [`Meter`]: a child process that hangs or crashes is replaced,
//! and the config that did it is found and left out.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use diode_core::{Config, FailureReason, Method, Problem};

use super::protocol::{Cause, EXACT, Event, KERNEL_SIZES, Measure, Results};
use crate::devices::child::{Child, Lost};
use crate::devices::measured::MeasuredConfigs;
use crate::devices::meter::{Meter, Outcome, Quality};
use crate::devices::samples::Samples;
use crate::kernels::variant::{Variant, tile_of};

/// Starting the driver, loading the pack and the library, on a node that is busy.
const START_PATIENCE: Duration = Duration::from_secs(120);
/// What a chunk of launches may take besides the kernels themselves.
const BASE_PATIENCE: Duration = Duration::from_secs(30);
/// The slowest honest kernel computes at this rate, and moves so many bytes.
const SLOWEST_FLOPS_PER_SECOND: f64 = 1e11;
const SLOWEST_BYTES_PER_SECOND: f64 = 1e9;
/// So many configs of one problem may crash or hang before the rest is given up
/// too. A dozen tiles of one variant have been seen to; each costs a few seconds.
const MOST_CULPRITS: usize = 40;

/// So many problems in a row that end the child before it launches a config say that the GPU is at fault.
const MOST_LOST_IN_A_ROW: u32 = 2;

/// How GPU children are started.
#[derive(Debug, Clone)]
pub(crate) struct GpuOptions {
    pub(crate) pack: PathBuf,
    pub(crate) cublas: Option<PathBuf>,
    pub(crate) seed: u64,
}

/// What a child said of its GPU when it started.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) facts: BTreeMap<String, String>,
    /// How many GPUs are there.
    pub(crate) devices: u32,
    pub(crate) warnings: Vec<String>,
}

pub(crate) struct GpuMeter {
    child: Child,
    seed: u64,
    /// Whether kernels serve one problem's sizes only.
    exact: bool,
    /// Kernels that crashed or hung on an earlier problem. They do on every other that they serve.
    culprits: HashMap<String, FailureReason>,
    /// Problems in a row that ended the child before it could launch a config.
    lost_in_a_row: u32,
}

/// How one attempt at a problem ended.
enum Attempt {
    Done(Results),
    Refused(String),
    OutOfMemory,
    Abandoned,
    /// The child is gone; the configs it was last about to launch, if it said so.
    Lost {
        why: Lost,
        at: Option<(usize, usize)>,
        /// Whether it came to launching configs at all.
        launched: bool,
    },
}

impl GpuMeter {
    /// Starts the child of one GPU and hears what it has to say; gives up when `abandon` says so.
    pub(crate) fn start(
        options: &GpuOptions,
        device: u32,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<(Self, Node)> {
        let program = std::env::current_exe().context("cannot find the diode program itself")?;
        let GpuOptions { pack, cublas, seed } = options.clone();
        let child = Child::new(move || {
            let mut command = Command::new(&program);
            command.arg("measure-gpu").arg("--device").arg(device.to_string()).arg("--kernels").arg(&pack);
            if let Some(folder) = &cublas {
                command.arg("--cublas").arg(folder);
            }
            Ok(command)
        });
        let mut meter = Self { child, seed, exact: false, culprits: HashMap::new(), lost_in_a_row: 0 };
        let Some(node) = meter.ready(abandon)? else { bail!("interrupted while the GPU was starting") };
        meter.exact = node.facts.get(KERNEL_SIZES).is_some_and(|sizes| sizes == EXACT);
        Ok((meter, node))
    }

    /// Which kernel of the pack a config is on a problem.
    fn kernel(&self, problem: &Problem, config: &Config) -> Option<String> {
        let (variant, tile) = (Variant::in_pack(problem, self.exact).ok()?, tile_of(config)?);
        Some(variant.key(tile, variant.fits(tile, problem)))
    }

    fn known_failure(&self, problem: &Problem, config: &Config) -> Option<FailureReason> {
        self.culprits.get(&self.kernel(problem, config)?).copied()
    }

    /// Starts the child. `None` if that was abandoned.
    fn ready(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<Option<Node>> {
        self.child.start()?;
        let Some(event) = self.receive(START_PATIENCE, abandon)? else { return Ok(None) };
        match event {
            Ok(Event::Ready { name, facts, devices, warnings }) => {
                Ok(Some(Node { name, facts, devices, warnings }))
            }
            Ok(Event::Broken { message, .. }) => bail!("{message}"),
            Ok(other) => bail!("the measuring process began with {other:?}"),
            Err(Lost::Died) => bail!("the measuring process ended at its start"),
            Err(Lost::TimedOut) => {
                bail!("the GPU did not answer within {} s of starting", START_PATIENCE.as_secs())
            }
        }
    }

    fn attempt(&mut self, request: &Measure, abandon: &dyn Fn() -> bool) -> anyhow::Result<Attempt> {
        if !self.child.is_running() && self.ready(abandon)?.is_none() {
            return Ok(Attempt::Abandoned);
        }
        self.child.send(request)?;
        let (mut at, mut launched) = (None, false);
        // Between two events lie the inputs and the reference, or one chunk of launches.
        let patience = patience(&request.problem, request.configs.len());
        loop {
            let event = match self.receive(patience, abandon)? {
                None => return Ok(Attempt::Abandoned),
                Some(Ok(event)) => event,
                Some(Err(why)) => return Ok(Attempt::Lost { why, at, launched }),
            };
            match event {
                Event::At { first, last } => {
                    at = Some((first, last));
                    launched = true;
                }
                Event::Busy => at = None,
                Event::Measured(results) => return Ok(Attempt::Done(results)),
                Event::Refused { reason } => return Ok(Attempt::Refused(reason)),
                Event::OutOfMemory => return Ok(Attempt::OutOfMemory),
                Event::Broken { message, cause } => {
                    self.child.end();
                    return match cause {
                        Cause::Gpu => {
                            say!("the measuring process broke down ({message}); another takes over");
                            Ok(Attempt::Lost { why: Lost::Died, at, launched })
                        }
                        Cause::Memory => Ok(Attempt::Refused(format!(
                            "the GPU has no memory left ({message}); --resume measures it when it has"
                        ))),
                        Cause::Pack => bail!("{message}"),
                    };
                }
                Event::Ready { .. } => bail!("the measuring process started twice"),
            }
        }
    }

    /// Waits for an event in short turns, so that a user who insists is heard.
    fn receive(
        &mut self,
        patience: Duration,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Result<Event, Lost>>> {
        const TURN: Duration = Duration::from_millis(200);
        let began = Instant::now();
        loop {
            if let Some(line) = self.child.poll(TURN)? {
                return Ok(Some(line));
            }
            if abandon() {
                self.child.end();
                return Ok(None);
            }
            if began.elapsed() >= patience {
                self.child.end();
                return Ok(Some(Err(Lost::TimedOut)));
            }
        }
    }
}

impl Meter for GpuMeter {
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
                Measure { problem: problem.clone(), configs: left.clone(), seed: self.seed, careful };
            match self.attempt(&request, abandon)? {
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
                        // Which config it was shows when they are launched one by one.
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
    /// One problem may end the child of a sound GPU; after two in a row it is the GPU. Neither says anything of configs,
    /// so nothing is recorded.
    fn lost_before_a_launch(&mut self, why: Lost) -> anyhow::Result<Outcome> {
        self.lost_in_a_row += 1;
        let what = match why {
            Lost::TimedOut => "hung",
            Lost::Died => "broke down",
        };
        if self.lost_in_a_row >= MOST_LOST_IN_A_ROW {
            bail!(
                "the GPU {what} before a config was launched, on {} problems in a row; see what `nvidia-smi` and \
                 the system's log say of it, then go on with --resume",
                self.lost_in_a_row
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
        busy_ns: results.kernel_ns + results.flush_ns,
        wall_ns: results.wall_ns,
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

/// How long a child may be silent.
fn patience(problem: &Problem, configs: usize) -> Duration {
    let kernel = problem.flops() / SLOWEST_FLOPS_PER_SECOND + problem.bytes() / SLOWEST_BYTES_PER_SECOND;
    // A chunk is at most this many launches, and nearly all of them are far from the slowest.
    let launches = configs.clamp(1, 16) as f64;
    BASE_PATIENCE + Duration::try_from_secs_f64(kernel * launches).unwrap_or(Duration::MAX / 2)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;

    const READY: &str = r#"echo '{"ready":{"name":"NVIDIA Test","facts":{},"devices":1,"warnings":[]}}'"#;

    fn meter(script: &str) -> GpuMeter {
        let script = format!("{READY}; {script}");
        let child = Child::new(move || {
            let mut command = Command::new("sh");
            command.args(["-c", &script]);
            Ok(command)
        });
        GpuMeter { child, seed: 1, exact: false, culprits: HashMap::new(), lost_in_a_row: 0 }
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
        "kernel_ns":20,"flush_ns":10,"wall_ns":40,"sm_mhz":null,"celsius":null,"power_capped":false}}"#;

    #[test]
    fn times_and_failures_are_those_of_the_right_configs() {
        let results = RESULTS.replace('\n', "").replace(r#""failed":[]"#, r#""failed":[[2,"wrong_result"]]"#);
        let measured = measure(&format!("read l; echo '{results}'"));
        assert_eq!(measured.failed, [(configs()[2], FailureReason::WrongResult)]);
        let medians: Vec<_> = measured.timed.iter().map(|(config, s)| (*config, s.median())).collect();
        assert_eq!(medians, [(configs()[0], Some(6)), (configs()[1], Some(9))]);
    }

    #[test]
    fn a_config_that_crashes_the_child_is_found_and_left_out() {
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
            // On the next problem nobody has to die again: a child that is asked for all three would.
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
    fn a_child_that_keeps_dying_at_its_launches_costs_the_problem_and_no_more() {
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
    fn a_user_who_insists_is_heard() {
        let outcome = meter("read l; exec sleep 100").measure(&problem(), &configs(), &|| true).unwrap();
        assert!(matches!(outcome, Outcome::Abandoned));
    }

    #[test]
    fn what_stops_a_child_at_its_start_is_told() {
        let child = Child::new(|| {
            let mut command = Command::new("sh");
            command.args(["-c", r#"echo '{"broken":{"message":"no driver","cause":"gpu"}}'"#]);
            Ok(command)
        });
        let mut meter = GpuMeter { child, seed: 1, exact: false, culprits: HashMap::new(), lost_in_a_row: 0 };
        assert_eq!(meter.ready(&|| false).unwrap_err().to_string(), "no driver");
        let mut hanging = GpuMeter {
            child: Child::new(|| {
                let mut command = Command::new("sleep");
                command.arg("100");
                Ok(command)
            }),
            ..meter
        };
        assert!(hanging.ready(&|| true).unwrap().is_none());
    }
}
