//! The state of this process's GPU, and what every call does before its own work.

use std::collections::HashMap;
use std::ffi::c_int;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process::abort;
use std::sync::{LazyLock, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use diode_core::ids::Digest;

use crate::kernel::{Kernel, kernels_of};
use crate::memory::{Memory, Outside};
use crate::product::Pending;
use crate::script::{Effect, Gpu, Script};

const INVALID: i32 = 1;
/// The driver's code for a kernel that reads or writes outside of all allocations.
const ILLEGAL_ADDRESS: i32 = 700;

/// The node, seen from one process, which uses one GPU.
pub(crate) struct Node {
    pub(crate) script: Script,
    path: PathBuf,
    /// The number of this process among all that have started the driver, counted from 1.
    process: u64,
    /// For each rule, how many calls it has matched.
    matched: Vec<u64>,
    pub(crate) current: usize,
    pub(crate) kernels: HashMap<Digest, Kernel>,
    /// The loaded kernels, with the dynamic shared memory that each was allowed. An unloaded kernel leaves `None`.
    /// A handle is a place in this list plus 1.
    pub(crate) loaded: Vec<Option<(Kernel, u32)>>,
    /// Whether something was launched that nobody has waited for yet.
    pub(crate) launched: bool,
    pub(crate) memory: Memory,
    pub(crate) pending: Pending,
    /// The GPU's time in nanoseconds, once all queued work has run.
    pub(crate) clock: u64,
    /// The time of each recorded event, and whether the host has waited for it. A handle is a place in this list
    /// plus 1.
    pub(crate) events: Vec<(u64, bool)>,
    /// How often the power limit held clocks down, and how often heat held them down.
    pub(crate) residencies: [u64; 2],
    /// The code that every call returns since something broke.
    broken: Option<i32>,
    /// Whether a launch never ends.
    hung: bool,
}

static NODE: LazyLock<Mutex<Node>> = LazyLock::new(|| match Node::read() {
    Ok(node) => Mutex::new(node),
    Err(error) => {
        let _ = writeln!(std::io::stderr(), "the stand-in cannot start: {error}");
        abort()
    }
});

/// Runs a call of the driver or of a library above it. The script may decide the outcome. Otherwise the body runs,
/// with the script's effect on it. Once something is broken, calls only return the code.
pub(crate) fn perform(call: &str, body: impl FnOnce(&mut Node, Option<Effect>) -> Result<(), i32>) -> c_int {
    answer(call, |node, effect| node.broken.map_or_else(|| body(node, effect), Err))
}

/// Like [`perform`], for calls that still answer after something has broken.
pub(crate) fn answer(call: &str, body: impl FnOnce(&mut Node, Option<Effect>) -> Result<(), i32>) -> c_int {
    let mut node = NODE.lock().unwrap_or_else(PoisonError::into_inner);
    let effect = node.effect(call, "");
    let done = match effect {
        Some(Effect::Return(code)) => Err(code),
        Some(Effect::Break(code)) => {
            node.broken = Some(code);
            Err(code)
        }
        Some(Effect::Hang) => hang(),
        Some(Effect::Die) => abort(),
        _ => body(&mut node, effect),
    };
    done.err().unwrap_or(0)
}

/// Waits until the parent process is gone, and then ends this process. The parent would normally end it.
fn hang() -> ! {
    let parent = parent_id();
    while parent_id() == parent {
        thread::sleep(Duration::from_millis(100));
    }
    abort()
}

impl Node {
    fn read() -> Result<Self, String> {
        let variable = Script::VARIABLE;
        let path = PathBuf::from(std::env::var_os(variable).ok_or(format!("{variable} names no script"))?);
        let text = fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let script: Script =
            serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        let mut node = Self {
            matched: vec![0; script.rules.len()],
            kernels: kernels_of(&script.pack)?,
            script,
            path,
            process: 0,
            current: 0,
            loaded: Vec::new(),
            launched: false,
            memory: Memory::default(),
            pending: Pending::default(),
            clock: 0,
            events: Vec::new(),
            residencies: [0; 2],
            broken: None,
            hung: false,
        };
        node.process = node.append(Script::STARTS, "+")?;
        Ok(node)
    }

    /// Appends to a file beside the script. Returns the file's new length.
    fn append(&self, name: &str, text: &str) -> Result<u64, String> {
        let path = self.beside(name);
        let add = || {
            let mut file = OpenOptions::new().create(true).append(true).open(&path)?;
            file.write_all(text.as_bytes())?;
            Ok(file.metadata()?.len())
        };
        add().map_err(|error: std::io::Error| format!("{}: {error}", path.display()))
    }

    fn beside(&self, name: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(name);
        path.into()
    }

    /// Tells other processes that this process computes on a GPU from now on.
    pub(crate) fn hold(&mut self, number: usize) {
        self.current = number;
        if let Err(error) = self.append(Script::HOLDERS, &format!("{number} {}\n", std::process::id())) {
            let _ = writeln!(std::io::stderr(), "the stand-in cannot say who computes: {error}");
        }
    }

    /// The processes that compute on a GPU: processes of `diode`, and as many others as the script says.
    pub(crate) fn holders(&self, number: usize, effect: Option<Effect>) -> Vec<u32> {
        let text = fs::read_to_string(self.beside(Script::HOLDERS)).unwrap_or_default();
        let of_gpu =
            |line: &str| line.split_once(' ').filter(|(gpu, _)| *gpu == number.to_string())?.1.parse().ok();
        let mut holders: Vec<u32> = text.lines().filter_map(of_gpu).collect();
        holders.sort_unstable();
        holders.dedup();
        holders.retain(|id| PathBuf::from(format!("/proc/{id}")).exists());
        // No process of this node has such a large number.
        holders.extend(
            (0..value(effect, self.script.gpus[number].processes.into()) as u32)
                .map(|other| u32::MAX - other),
        );
        holders
    }

    pub(crate) fn gpu(&self) -> &Gpu {
        &self.script.gpus[self.current]
    }

    /// The effect of the first rule that applies to this call.
    pub(crate) fn effect(&mut self, call: &str, kernel: &str) -> Option<Effect> {
        let (current, process) = (self.current as u32, self.process);
        self.script.rules.iter().zip(&mut self.matched).find_map(|(rule, matched)| {
            let matches = rule.call == call
                && rule.kernel.as_ref().is_none_or(|text| kernel.contains(text.as_str()))
                && rule.gpu.is_none_or(|gpu| gpu == current)
                && rule.process.is_none_or(|number| number == process);
            if !matches {
                return None;
            }
            *matched += 1;
            let due = *matched >= rule.from && rule.times.is_none_or(|times| *matched < rule.from + times);
            due.then_some(rule.effect)
        })
    }

    /// Decides the outcome of a launch. Returns the effect, if it concerns the launch's kernel.
    pub(crate) fn effect_of_launch(&mut self, key: &str) -> Result<Option<Effect>, i32> {
        match self.effect("launch", key) {
            Some(Effect::Return(code)) => {
                // The process may give up now. Then its queued work ends, too.
                self.launched = false;
                return Err(code);
            }
            Some(Effect::Break(code)) => self.broken = Some(code),
            Some(Effect::Hang) => self.hung = true,
            Some(Effect::Die) => abort(),
            effect => return Ok(effect),
        }
        Ok(None)
    }

    pub(crate) fn free_memory(&self) -> u64 {
        let gpu = self.gpu();
        gpu.memory.saturating_sub(gpu.held).saturating_sub(self.memory.used)
    }

    /// Waits for all queued work.
    pub(crate) fn wait(&mut self) {
        if self.hung {
            hang();
        }
        self.launched = false;
        self.events.iter_mut().for_each(|(_, waited)| *waited = true);
    }

    /// A loaded kernel, and the dynamic shared memory that it was allowed.
    pub(crate) fn loaded(&mut self, handle: usize) -> Result<&mut (Kernel, u32), i32> {
        place(&mut self.loaded, handle)?.as_mut().ok_or(INVALID)
    }

    /// Unloads a kernel. A kernel that may still run must not be unloaded.
    pub(crate) fn unload(&mut self, handle: usize) -> Result<(), i32> {
        let kernel = place(&mut self.loaded, handle)?.take().ok_or(INVALID)?.0;
        if self.launched && self.broken.is_none() {
            return Err(self.violation(&format!("{}: unloaded while launches are queued", kernel.key)));
        }
        Ok(())
    }

    /// Reports a launch that does not match its kernel. On a real GPU, anything could happen.
    pub(crate) fn violation(&mut self, what: &str) -> i32 {
        if let Err(error) = self.append(Script::VIOLATIONS, &format!("{what}\n")) {
            let _ = writeln!(std::io::stderr(), "the stand-in cannot report {what}: {error}");
        }
        self.broken = Some(ILLEGAL_ADDRESS);
        ILLEGAL_ADDRESS
    }

    pub(crate) fn outside(&mut self, outside: &Outside) -> i32 {
        self.violation(&outside.to_string())
    }

    /// Computes the results that belong into this memory.
    pub(crate) fn settle(&mut self, address: u64, bytes: u64) -> Result<(), i32> {
        self.pending
            .settle(address, bytes, &mut self.memory)
            .map_err(|outside| self.violation(&outside.to_string()))
    }
}

/// The object that a handle stands for.
pub(crate) fn place<T>(all: &mut [T], handle: usize) -> Result<&mut T, i32> {
    handle.checked_sub(1).and_then(|place| all.get_mut(place)).ok_or(INVALID)
}

/// The value that the script gives, or else the usual one.
pub(crate) fn value(effect: Option<Effect>, usual: u64) -> u64 {
    if let Some(Effect::Value(value)) = effect { value } else { usual }
}
