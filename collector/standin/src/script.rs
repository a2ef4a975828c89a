//! The script of a stand-in: what node it is, and what goes wrong.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A node and its faults.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// The kernels that may be launched.
    pub pack: PathBuf,
    pub gpus: Vec<Gpu>,
    /// The first rule that matches a call decides its effect.
    pub rules: Vec<Rule>,
}

impl Script {
    /// The environment variable that names the script's file.
    pub const VARIABLE: &str = "DIODE_STANDIN";
    /// The file beside the script with this ending has one byte for every process that has started the
    /// driver.
    pub const STARTS: &str = ".starts";
    /// The file beside the script with this ending has a line for each GPU that a process opened: the GPU and
    /// the process's id.
    pub const HOLDERS: &str = ".holders";
    /// The file beside the script with this ending lists launches whose arguments do not match their kernel.
    pub const VIOLATIONS: &str = ".violations";
}

/// One GPU of the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gpu {
    pub name: String,
    /// The major and the minor number.
    pub capability: [i32; 2],
    /// AMD's architecture with its settings, such as `gfx942:sramecc+:xnack-`. `None` for NVIDIA's GPUs.
    pub arch: Option<String>,
    pub memory: u64,
    /// How many bytes other processes hold.
    pub held: u64,
    pub l2_bytes: i32,
    /// The most dynamic shared memory of one block.
    pub shared: u32,
    /// How many kernels can be loaded at once.
    pub kernels: usize,
    pub mig: bool,
    /// How many other processes compute on it.
    pub processes: u32,
    pub power_limit_mw: u32,
}

impl Gpu {
    pub const DEFAULT_POWER_LIMIT_MW: u32 = 700_000;

    pub fn h100() -> Self {
        Self {
            name: "NVIDIA H100 80GB HBM3".to_owned(),
            capability: [9, 0],
            arch: None,
            memory: 4 << 30,
            held: 0,
            l2_bytes: 50 << 20,
            shared: 232_448,
            kernels: 1000,
            mig: false,
            processes: 0,
            power_limit_mw: Self::DEFAULT_POWER_LIMIT_MW,
        }
    }

    pub fn mi300x() -> Self {
        Self {
            name: "AMD Instinct MI300X".to_owned(),
            capability: [9, 4],
            arch: Some("gfx942:sramecc+:xnack-".to_owned()),
            l2_bytes: 4 << 20,
            shared: 65_536,
            ..Self::h100()
        }
    }

    pub(crate) fn is_amd(&self) -> bool {
        self.arch.is_some()
    }
}

/// Which calls are affected, and how.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The call's name, which both vendors' functions share here: `launch`, `allocate`, `synchronize`.
    pub call: String,
    /// If given, only launches of kernels whose name in the pack contains this text are affected.
    pub kernel: Option<String>,
    /// If given, only calls on this GPU are affected.
    pub gpu: Option<u32>,
    /// If given, only calls in this process are affected. Processes that have started the driver with the
    /// script are counted from 1.
    pub process: Option<u64>,
    /// The first matching call that is affected, counted from 1 in each process.
    pub from: u64,
    /// How many calls are affected from then on. All if not given.
    pub times: Option<u64>,
    pub effect: Effect,
}

impl Rule {
    pub fn new(call: &str, effect: Effect) -> Self {
        let call = call.to_owned();
        Self { call, kernel: None, gpu: None, process: None, from: 1, times: None, effect }
    }

    /// A rule for every launch of kernels whose name in the pack contains this text.
    pub fn of_kernel(kernel: &str, effect: Effect) -> Self {
        Self { kernel: Some(kernel.to_owned()), ..Self::new("launch", effect) }
    }

    pub fn on_gpu(self, gpu: u32) -> Self {
        Self { gpu: Some(gpu), ..self }
    }

    pub fn in_process(self, process: u64) -> Self {
        Self { process: Some(process), ..self }
    }

    pub fn from(self, from: u64) -> Self {
        Self { from, ..self }
    }

    pub fn times(self, times: u64) -> Self {
        Self { times: Some(times), ..self }
    }
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// The call does nothing and returns this code.
    Return(i32),
    /// A launch succeeds, and then something breaks: all later calls return this code. A call other than a
    /// launch returns the code, too.
    Break(i32),
    /// A launch never ends, so waiting for it never ends either. A call other than a launch never returns.
    Hang,
    /// The process ends as if it had crashed.
    Die,
    /// A multiplication has wrong elements.
    Wrong,
    /// A kernel takes this many times as long.
    Slow(f64),
    /// The value that the call asks for is this one.
    Value(u64),
}
