//! The measuring process of a GPU, seen from its parent.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::bail;
use diode_core::{Config, FailureReason, Problem};
use serde::{Deserialize, Serialize};

use crate::devices::measuring_process::{Lost, MeasuringProcess};
use crate::devices::{NotReady, Quality};

/// The start may take this many times as long as a chunk of launches. It loads the driver, the pack and the
/// library, perhaps on a busy node.
const START: u32 = 4;
/// The rates of the slowest kernel that works, in operations and in bytes per second.
const SLOWEST_FLOPS_PER_SECOND: f64 = 1e11;
const SLOWEST_BYTES_PER_SECOND: f64 = 1e9;

/// What a measuring process reports about its GPU when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GpuDescription {
    /// The GPU's name.
    pub(crate) name: String,
    /// The architecture that packs must be for: `sm_90`, `gfx942`.
    pub(crate) arch: String,
    /// The GPU's address, by which the management library finds it.
    pub(crate) bus_id: String,
    /// All of the GPU's memory, free or not.
    pub(crate) memory_bytes: u64,
    pub(crate) facts: BTreeMap<String, String>,
    /// How many GPUs the node has.
    pub(crate) devices: u32,
    /// What the user should know before measuring for hours.
    pub(crate) warnings: Vec<String>,
}

/// How one attempt at a problem ended.
pub(super) enum Attempt {
    Done(Results),
    Refused(String),
    OutOfMemory,
    Abandoned,
    /// The process is gone. `at` names the first and the last config that it was about to launch, if it
    /// reported them.
    Lost {
        why: Lost,
        at: Option<(usize, usize)>,
        /// Whether the process launched any config.
        launched: bool,
    },
}

/// A process that measures problems on one GPU.
pub(super) struct GpuProcess {
    process: MeasuringProcess,
    /// How long a chunk of launches may take, besides the kernels themselves.
    patience: Duration,
}

impl GpuProcess {
    pub(super) fn new(process: MeasuringProcess, patience: Duration) -> Self {
        Self { process, patience }
    }

    /// Starts the process. `None` if the start was abandoned. A failure that may pass later is a [`NotReady`].
    pub(super) fn ready(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<Option<GpuDescription>> {
        self.process.start()?;
        let patience = self.patience.saturating_mul(START);
        let Some(event) = self.process.receive(patience, abandon)? else { return Ok(None) };
        match event {
            Ok(Message::Ready(description)) => Ok(Some(description)),
            Ok(Message::Broken { message, cause: Cause::Gpu | Cause::Memory }) => {
                Err(NotReady(message).into())
            }
            Ok(Message::Broken { message, cause: Cause::Pack | Cause::Setup }) => bail!("{message}"),
            Ok(other) => bail!("the measuring process began with {other:?}"),
            Err(Lost::Died) => Err(NotReady("the measuring process ended at its start".to_owned()).into()),
            Err(Lost::TimedOut) => Err(NotReady(format!(
                "the GPU did not answer within {} s of starting; if it is busy, give it more with --gpu-patience",
                patience.as_secs()
            ))
            .into()),
        }
    }

    /// Starts the process if it is gone. `false` if the start was abandoned.
    pub(super) fn restart(&mut self, abandon: &dyn Fn() -> bool) -> anyhow::Result<bool> {
        if self.process.is_running() {
            return Ok(true);
        }
        match self.ready(abandon) {
            Ok(described) => Ok(described.is_some()),
            Err(error) => {
                // A process that did not start well is of no use.
                self.process.end();
                Err(error)
            }
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.process.is_running()
    }

    /// Ends the process. The next attempt starts another one.
    pub(super) fn end(&mut self) {
        self.process.end();
    }

    /// Lets the process measure one problem.
    pub(super) fn attempt(
        &mut self,
        request: &Measure,
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Attempt> {
        if !self.restart(abandon)? {
            return Ok(Attempt::Abandoned);
        }
        self.process.send(request)?;
        let (mut at, mut launched) = (None, false);
        // Between two messages, the process makes the inputs and the reference or runs one chunk of launches.
        let patience = self.patience.saturating_add(slowest(&request.problem, request.configs.len()));
        loop {
            let event = match self.process.receive(patience, abandon)? {
                None => return Ok(Attempt::Abandoned),
                Some(Ok(event)) => event,
                Some(Err(why)) => return Ok(Attempt::Lost { why, at, launched }),
            };
            match event {
                Message::At { first, last } => {
                    at = Some((first, last));
                    launched = true;
                }
                Message::Busy => at = None,
                Message::Measured(results) => return Ok(Attempt::Done(results)),
                Message::Refused { reason } => return Ok(Attempt::Refused(reason)),
                Message::OutOfMemory => return Ok(Attempt::OutOfMemory),
                Message::Broken { message, cause } => {
                    self.process.end();
                    return match cause {
                        Cause::Gpu => {
                            say!("the measuring process broke down ({message}); another takes over");
                            Ok(Attempt::Lost { why: Lost::Died, at, launched })
                        }
                        Cause::Memory => Ok(Attempt::Refused(format!(
                            "the GPU has no memory left ({message}); --resume measures it when it has"
                        ))),
                        Cause::Pack | Cause::Setup => bail!("{message}"),
                    };
                }
                Message::Ready(_) => bail!("the measuring process started twice"),
            }
        }
    }
}

/// How long the kernels themselves may take while the process is silent.
fn slowest(problem: &Problem, configs: usize) -> Duration {
    let kernel = problem.flops() / SLOWEST_FLOPS_PER_SECOND + problem.bytes() / SLOWEST_BYTES_PER_SECOND;
    // A chunk may have more than 16 launches, but nearly all of them are far faster than the slowest kernel.
    let launches = configs.clamp(1, 16) as f64;
    Duration::try_from_secs_f64(kernel * launches).unwrap_or(Duration::MAX)
}

/// The name of a fact of the provenance, and below it the fact's only value. The fact says that the pack's
/// kernels serve only the sizes that they were built for.
pub(crate) const KERNEL_SIZES: &str = "kernel_sizes";
pub(crate) const EXACT: &str = "exact";

/// What the parent sends: a JSON document on one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) problem: Problem,
    pub(crate) configs: Vec<Config>,
    pub(crate) seed: u64,
    /// Launch one config at a time, so that a hang or a crash shows which config caused it.
    pub(crate) careful: bool,
}

/// What the measuring process sends. After its start it sends one `Ready`. After a request it sends any number
/// of `At` and `Busy`, and then one of the other messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Ready(GpuDescription),
    /// The process is about to launch some configs for the first time. `At` holds the places of the first and
    /// the last of them in the request. For a single config, both are its place.
    At {
        first: usize,
        last: usize,
    },
    /// The process is still working.
    Busy,
    Measured(Results),
    /// This problem cannot be measured here. The next problem may be.
    Refused {
        reason: String,
    },
    /// The inputs are too large for this GPU.
    OutOfMemory,
    /// The process can do nothing more and ends now.
    Broken {
        message: String,
        cause: Cause,
    },
}

/// What ended a measuring process. The cause decides whether another process could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The GPU is of no more use to this process. Another process can go on.
    Gpu,
    /// Other programs hold the GPU's memory. The next problem may need less.
    Memory,
    /// The pack cannot be read, so nothing can be measured with it.
    Pack,
    /// The process was started with settings that do not fit the node. Somebody must change them first.
    Setup,
}

/// The outcome for each config of a problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The configs' places in the request, and their times in nanoseconds.
    pub(crate) timed: Vec<(usize, Vec<u64>)>,
    pub(crate) failed: Vec<(usize, FailureReason)>,
    /// How often the near-best configs had to be measured again because the GPU was disturbed.
    pub(crate) repeated: u32,
    #[serde(flatten)]
    pub(crate) quality: Quality,
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn what_stops_a_process_at_its_start_is_told() {
        let patience = Duration::from_secs(30);
        let broken = MeasuringProcess::new(|| {
            let mut command = Command::new("sh");
            command.args(["-c", r#"echo '{"broken":{"message":"no driver","cause":"gpu"}}'"#]);
            Ok(command)
        });
        let mut broken = GpuProcess::new(broken, patience);
        assert_eq!(broken.ready(&|| false).unwrap_err().to_string(), "no driver");
        let hanging = MeasuringProcess::new(|| {
            let mut command = Command::new("sleep");
            command.arg("100");
            Ok(command)
        });
        let mut hanging = GpuProcess::new(hanging, patience);
        assert!(hanging.ready(&|| true).unwrap().is_none());
    }

    #[test]
    fn only_what_may_pass_is_to_be_tried_again() {
        let said = |cause: &str| format!(r#"echo '{{"broken":{{"message":"why","cause":"{cause}"}}}}'"#);
        for (script, may_pass) in [
            (said("gpu"), true),
            (said("memory"), true),
            ("exit 1".to_owned(), true),
            (said("pack"), false),
            (said("setup"), false),
            ("echo another program".to_owned(), false),
            ("echo '\"busy\"'".to_owned(), false),
        ] {
            let process = MeasuringProcess::new({
                let script = script.clone();
                move || {
                    let mut command = Command::new("sh");
                    command.args(["-c", &script]);
                    Ok(command)
                }
            });
            let mut process = GpuProcess::new(process, Duration::from_secs(30));
            let error = process.restart(&|| false).unwrap_err();
            assert_eq!(error.is::<NotReady>(), may_pass, "{script}: {error}");
            assert!(!process.is_running());
        }
        let absent = MeasuringProcess::new(|| Ok(Command::new("/nowhere/diode")));
        let error = GpuProcess::new(absent, Duration::from_secs(30)).restart(&|| false).unwrap_err();
        assert!(!error.is::<NotReady>() && error.to_string().contains("/nowhere/diode"), "{error}");
    }
}
