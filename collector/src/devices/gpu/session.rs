//! A GPU with its kernels and cuBLAS or hipBLASLt. It serves one problem after another.

use std::collections::HashMap;

use anyhow::Context as _;
use diode_core::hardware::Facts;
use diode_core::space::{Feasibility, feasibility};
use diode_core::{Config, FailureReason, Problem, Tile};
use diode_formats::FormatError;
use diode_formats::pack::{Kernel, Outcome, Pack};

use crate::devices::gpu::driver::{Description, DriverError, Function, Gpu, Memory};
use crate::devices::gpu::library::{LibraryError, VendorLibrary};
use crate::devices::gpu::management::Management;
use crate::devices::gpu::operands::{Arguments, TURNS};
use crate::devices::gpu::policy;
use crate::devices::gpu::process::{Cause, Measure, Results};
use crate::devices::gpu::timing_queue::Queue;
use crate::kernels::support::Support;
use crate::kernels::variant::{Form, Variant};

/// A GPU and everything that outlives one problem.
pub(super) struct Session {
    pub(super) gpu: Gpu,
    /// The catalogue's facts about this kind of GPU.
    facts: Option<Facts>,
    pub(super) store: Store,
    pub(super) library: Option<VendorLibrary>,
    pub(super) management: Option<Box<dyn Management>>,
    pub(super) queue: Queue,
    /// How many multiprocessors the GPU has.
    pub(super) sms: u64,
    /// The cost of a pair of events: how much longer one launch between two events takes than one launch of a
    /// group.
    pub(super) pair_ns: u64,
}

/// A config that can be launched.
#[derive(Clone, Copy)]
pub(super) struct LaunchableConfig {
    /// The config's place in the request.
    pub(super) number: usize,
    pub(super) launchable: Launchable,
}

/// What a launch of a config runs.
#[derive(Clone, Copy)]
pub(super) enum Launchable {
    Kernel(KernelSlot, Form),
    /// cuBLAS or hipBLASLt, which rounds float32 to TF32 or does not.
    Library {
        rounds: bool,
    },
}

impl Launchable {
    pub(super) fn is_library(self) -> bool {
        matches!(self, Self::Library { .. })
    }
}

impl Session {
    pub(super) fn new(
        gpu: Gpu,
        facts: Option<Facts>,
        store: Store,
        library: Option<VendorLibrary>,
        management: Option<Box<dyn Management>>,
    ) -> Result<Self, SessionError> {
        let Description { sms, cache_bytes, .. } = gpu.describe()?;
        let queue = Queue::new(&gpu, cache_bytes)?;
        Ok(Self { gpu, facts, store, library, management, queue, sms, pair_ns: 0 })
    }

    /// The configs of the request that can be launched, in the order of the packs. The others become failures.
    /// The inner error says that no pack was made for this problem.
    pub(super) fn candidates(
        &mut self,
        variant: &Variant,
        request: &Measure,
        results: &mut Results,
    ) -> Result<Vec<LaunchableConfig>, String> {
        let mut candidates = Vec::new();
        let mut missing = None;
        for (number, config) in request.configs.iter().enumerate() {
            match config {
                Config::Library | Config::RoundingLibrary => {
                    let rounds = config.rounds(&request.problem);
                    let library = self.library.as_ref();
                    if library.is_some_and(|library| library.supports(&request.problem, rounds)) {
                        candidates
                            .push(LaunchableConfig { number, launchable: Launchable::Library { rounds } });
                    }
                }
                _ => match variant.form(config, &request.problem) {
                    Some(form) => {
                        let key = variant.key(&form);
                        match self.store.find(&key) {
                            Ok(slot) => {
                                let launchable = Launchable::Kernel(slot, form);
                                candidates.push(LaunchableConfig { number, launchable });
                            }
                            Err(MissingKernel::NotInPack)
                                if self.is_too_large(&request.problem, &form.tile) =>
                            {
                                results.failed.push((number, FailureReason::OutOfResources));
                            }
                            Err(MissingKernel::NotInPack) => missing = Some(key),
                            Err(MissingKernel::Failed(reason)) => results.failed.push((number, reason)),
                        }
                    }
                    None => results.failed.push((number, FailureReason::Compile)),
                },
            }
        }
        candidates.sort_by_key(|candidate| match candidate.launchable {
            Launchable::Kernel(slot, _) => Some(self.store.place_in_packs(slot)),
            Launchable::Library { .. } => None,
        });
        match missing {
            Some(key) if self.store.is_exact() => Err(format!(
                "the pack is for the exact sizes of other problems, without {key}; build one for this"
            )),
            Some(key) => Err(format!("the pack was built without {key}; build one that has it")),
            None => Ok(candidates),
        }
    }

    /// Loads the kernels of some configs, at most [`MOST_LOADED`]. So nothing needs
    /// to be loaded between launches. Returns the kernels that the driver refuses.
    pub(super) fn load(
        &mut self,
        launchables: impl Iterator<Item = Launchable>,
    ) -> Result<Vec<(KernelSlot, FailureReason)>, SessionError> {
        let slots: Vec<KernelSlot> = launchables
            .filter_map(|launchable| match launchable {
                Launchable::Kernel(slot, _) => Some(slot),
                Launchable::Library { .. } => None,
            })
            .collect();
        self.store.load(&self.gpu, &slots)
    }

    /// Whether a tile is too large for this kind of GPU. Packs of the `full` space have no such tiles, but other
    /// spaces may list them.
    fn is_too_large(&self, problem: &Problem, tile: &Tile) -> bool {
        let judged = self.facts.as_ref().map(|facts| feasibility(facts, problem, tile));
        judged == Some(Feasibility::SharedMemory)
    }

    /// Loads a kernel that prepares or checks a measurement.
    pub(super) fn support(&mut self, support: Support) -> Result<KernelSlot, SessionError> {
        let key = support.key();
        let refused = |reason| anyhow::anyhow!("the kernel {key} cannot be launched: {reason}");
        let slot = match self.store.find(&key) {
            Ok(slot) => slot,
            Err(MissingKernel::NotInPack) => {
                let reason = format!("the pack was built without {key}; build one that has it");
                return Err(SessionError::Lacking(reason));
            }
            Err(MissingKernel::Failed(reason)) => return Err(refused(reason).into()),
        };
        match self.store.load_to_stay(&self.gpu, slot)? {
            Some(reason) => Err(refused(reason).into()),
            None => Ok(slot),
        }
    }

    pub(super) fn launch(
        &self,
        slot: KernelSlot,
        grid: [u32; 2],
        arguments: &mut Arguments,
    ) -> Result<(), SessionError> {
        let kernel = self.store.get(slot).context("a kernel is to be launched that is not loaded")?;
        Ok(self.gpu.launch(kernel.function, grid, kernel.threads, kernel.shared, arguments)?)
    }

    /// The cost of a pair of events, measured with a kernel that does nothing: how much longer one launch
    /// between two events takes than one launch of a group.
    pub(super) fn cost_of_a_pair(&mut self, fill: KernelSlot, memory: &Memory) -> Result<u64, SessionError> {
        const SAMPLES: usize = 25;
        let mut nothing = Arguments::default().pointer(memory.slice(0, 0).pointer()).i64(0).i32(0).finish();
        let mut medians = [0, 0];
        for (median, launches) in medians.iter_mut().zip([1, TURNS]) {
            for _ in 0..SAMPLES {
                loop {
                    self.queue.start(&self.gpu)?;
                    for _ in 0..launches {
                        self.launch(fill, [1, 1], &mut nothing)?;
                    }
                    if self.queue.stop(&self.gpu)? {
                        break;
                    }
                }
            }
            *median = policy::median(&self.queue.collect(&self.gpu)?) / launches;
        }
        Ok(medians[0].saturating_sub(medians[1]))
    }
}

/// The most kernels that are loaded at once. Each takes memory of the host and of the GPU.
pub(super) const MOST_LOADED: usize = 112;

/// A kernel's place in the [`Store`]. It is valid for as long as the store exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelSlot(usize);

/// A kernel that some pack has.
struct StoredKernel {
    pack: usize,
    kernel: Kernel,
    function: Option<Function>,
    /// When the kernel was last asked for, counted in calls of `load`.
    used: u64,
    /// Whether the kernel stays loaded. Only kernels that belong to no config do.
    stays: bool,
    /// Whether the kernel's result was compared with the reference and was right.
    verified: bool,
}

/// A kernel that can be launched.
pub(super) struct LoadedKernel<'a> {
    pub(super) function: &'a Function,
    pub(super) threads: u32,
    pub(super) shared: u32,
}

/// Why the packs have no such kernel.
pub(super) enum MissingKernel {
    /// The packs were built without it.
    NotInPack,
    /// The build of the kernel failed.
    Failed(FailureReason),
}

/// The kernels of packs. They are loaded onto the GPU when they are needed, and unloaded to make room for others.
pub(super) struct Store {
    packs: Vec<Pack>,
    exact: bool,
    kernels: Vec<StoredKernel>,
    slots: HashMap<String, KernelSlot>,
    calls: u64,
}

impl Store {
    pub(super) fn new(packs: Vec<Pack>) -> Self {
        let exact = packs.iter().any(Pack::is_exact);
        Self { packs, exact, kernels: Vec::new(), slots: HashMap::new(), calls: 0 }
    }

    /// Whether the kernels serve only the sizes that they were built for.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Finds a kernel in the packs.
    pub(super) fn find(&mut self, key: &str) -> Result<KernelSlot, MissingKernel> {
        if let Some(slot) = self.slots.get(key) {
            return Ok(*slot);
        }
        let found =
            self.packs.iter().enumerate().find_map(|(pack, kernels)| Some((pack, kernels.find(key)?)));
        let (pack, kernel) = match found {
            None => return Err(MissingKernel::NotInPack),
            Some((_, Outcome::Failed { reason, .. })) => return Err(MissingKernel::Failed(*reason)),
            Some((pack, Outcome::Built(kernel))) => (pack, kernel.clone()),
        };
        let slot = KernelSlot(self.kernels.len());
        let stored = StoredKernel { pack, kernel, function: None, used: 0, stays: false, verified: false };
        self.kernels.push(stored);
        self.slots.insert(key.to_owned(), slot);
        Ok(slot)
    }

    /// A kernel's place in the packs. Loading kernels in the order of their places unpacks each block only once.
    fn place_in_packs(&self, slot: KernelSlot) -> (usize, (u32, u64)) {
        let StoredKernel { pack, kernel, .. } = &self.kernels[slot.0];
        (*pack, kernel.place())
    }

    /// Loads kernels, at most [`MOST_LOADED`]. Others may be unloaded for them. Returns the kernels that the driver
    /// refuses.
    pub(super) fn load(
        &mut self,
        gpu: &Gpu,
        slots: &[KernelSlot],
    ) -> Result<Vec<(KernelSlot, FailureReason)>, SessionError> {
        self.calls += 1;
        for slot in slots {
            self.kernels[slot.0].used = self.calls;
        }
        let mut missing: Vec<KernelSlot> =
            slots.iter().copied().filter(|slot| self.kernels[slot.0].function.is_none()).collect();
        missing.sort_unstable_by_key(|slot| self.place_in_packs(*slot));
        missing.dedup();
        self.make_room(gpu, missing.len())?;
        let mut refused = Vec::new();
        for slot in missing {
            let StoredKernel { pack, kernel, function, .. } = &mut self.kernels[slot.0];
            let binary = self.packs[*pack].binary(kernel).map_err(SessionError::Pack)?;
            match gpu.load(&binary, &kernel.symbol, kernel.shared) {
                Ok(loaded) => *function = Some(loaded),
                Err(error) => refused.push((slot, refusal(error)?)),
            }
        }
        Ok(refused)
    }

    /// Loads a kernel that stays loaded, because every problem needs it.
    fn load_to_stay(&mut self, gpu: &Gpu, slot: KernelSlot) -> Result<Option<FailureReason>, SessionError> {
        self.kernels[slot.0].stays = true;
        Ok(self.load(gpu, &[slot])?.pop().map(|(_, reason)| reason))
    }

    /// Makes room for `more` kernels. It unloads the kernels that were asked for longest ago.
    fn make_room(&mut self, gpu: &Gpu, more: usize) -> Result<(), DriverError> {
        let loaded = |kernel: &&mut StoredKernel| kernel.function.is_some() && !kernel.stays;
        let mut others: Vec<&mut StoredKernel> = self.kernels.iter_mut().filter(loaded).collect();
        let surplus = (others.len() + more).saturating_sub(MOST_LOADED);
        if surplus == 0 {
            return Ok(());
        }
        // Launches of the kernels to unload may still be queued.
        gpu.synchronize()?;
        others.sort_unstable_by_key(|kernel| kernel.used);
        for kernel in others.into_iter().take(surplus).filter(|kernel| kernel.used < self.calls) {
            kernel.function = None;
        }
        Ok(())
    }

    /// A loaded kernel. `None` if it was never loaded or is unloaded again.
    pub(super) fn get(&self, slot: KernelSlot) -> Option<LoadedKernel<'_>> {
        let StoredKernel { kernel, function, .. } = &self.kernels[slot.0];
        let function = function.as_ref()?;
        Some(LoadedKernel { function, threads: kernel.threads, shared: kernel.shared })
    }

    pub(super) fn set_verified(&mut self, slot: KernelSlot) {
        self.kernels[slot.0].verified = true;
    }

    /// Whether the kernel's result was compared with the reference and was right.
    pub(super) fn is_verified(&self, slot: KernelSlot) -> bool {
        self.kernels[slot.0].verified
    }
}

/// The reason why a kernel could not be loaded. Errors that concern the whole process are passed on.
fn refusal(error: DriverError) -> Result<FailureReason, DriverError> {
    if error.is_sticky() || error.is_out_of_memory() {
        Err(error)
    } else if error.is_out_of_resources() {
        Ok(FailureReason::OutOfResources)
    } else {
        Ok(FailureReason::Launch)
    }
}

/// Why measuring cannot go on in this process.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    #[error(transparent)]
    Driver(#[from] DriverError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Pack(FormatError),
    /// The pack is undamaged, but it was not built for this kind of problem.
    #[error("{0}")]
    Lacking(String),
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl SessionError {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Driver(error) | Self::Library(LibraryError::Driver(error)) if error.is_out_of_memory() => {
                Cause::Memory
            }
            Self::Pack(_) => Cause::Pack,
            _ => Cause::Gpu,
        }
    }
}
