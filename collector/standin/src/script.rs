//! What the stand-in is told to be, and what is to go wrong.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A node and its faults.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Script {
    /// The kernels that may be launched.
    pub pack: PathBuf,
    pub gpus: Vec<Gpu>,
    /// The first that matches a call decides what becomes of it.
    pub rules: Vec<Rule>,
}

impl Script {
    /// The environment variable that names the script's file.
    pub const VARIABLE: &str = "DIODE_STANDIN";
    /// Appended to the script's name: one byte for every process that has started the driver.
    pub const STARTS: &str = ".starts";
    /// Appended to the script's name: a line for each GPU that a process has opened, with the process's id.
    pub const HOLDERS: &str = ".holders";
    /// Appended to the script's name: launches with arguments that their kernels are not compiled for.
    pub const VIOLATIONS: &str = ".violations";
}

/// One GPU of the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Gpu {
    pub name: String,
    /// Major and minor.
    pub capability: [i32; 2],
    /// AMD's architecture with its settings, such as `gfx942:sramecc+:xnack-`; NVIDIA's GPUs have none.
    pub arch: Option<String>,
    pub memory: u64,
    /// Bytes that others hold.
    pub held: u64,
    pub l2_bytes: i32,
    /// The most dynamic shared memory of a block.
    pub shared: u32,
    /// How many kernels can be loaded at once.
    pub kernels: usize,
    pub mig: bool,
    /// Other processes that compute on it.
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

/// When something happens, and what.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Rule {
    /// The call, by the name that both vendors' functions share here: `launch`, `allocate`, `synchronize`.
    pub call: String,
    /// Only launches of kernels whose key in the pack has this text.
    pub kernel: Option<String>,
    /// Only on this GPU.
    pub gpu: Option<u32>,
    /// Only in this process, counted from 1 over all that have started the driver with the script.
    pub process: Option<u64>,
    /// The first such call that is affected, counted from 1 in each process.
    pub from: u64,
    /// How many are affected from there on.
    pub times: Option<u64>,
    pub effect: Effect,
}

impl Rule {
    pub fn new(call: &str, effect: Effect) -> Self {
        let call = call.to_owned();
        Self { call, kernel: None, gpu: None, process: None, from: 1, times: None, effect }
    }

    /// Every launch of the kernels whose key in the pack has this text.
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

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// It does nothing and returns this code.
    Return(i32),
    /// A launch is taken, and breaks: all later calls return this code. Other calls return it themselves, too.
    Break(i32),
    /// A launch never ends, so waiting for it does not either. Other calls never return.
    Hang,
    /// The process ends as if it had crashed.
    Die,
    /// A multiplication has wrong elements.
    Wrong,
    /// A kernel takes this many times as long.
    Slow(f64),
    /// What is asked for has this value.
    Value(u64),
}
