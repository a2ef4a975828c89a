//! A GPU with its kernels and cuBLAS or hipBLASLt, and the problem in hand with its inputs on the GPU.

use std::collections::HashMap;
use std::ops::Range;

use anyhow::Context as _;
use diode_core::hardware::Facts;
use diode_core::space::{Feasibility, feasibility};
use diode_core::{Config, FailureReason, Problem, Tile};
use diode_formats::FormatError;
use diode_formats::pack::{Kernel, Outcome, Pack};

use crate::devices::gpu::driver::{Description, DriverError, Function, Gpu, Memory};
use crate::devices::gpu::library::{LibraryError, VendorLibrary};
use crate::devices::gpu::management::Management;
use crate::devices::gpu::operands::{Arguments, Operands, TURNS, programs};
use crate::devices::gpu::timing::{Queue, median};
use crate::devices::gpu::worker::{Cause, Measure, Results};
use crate::kernels::support::{Support, tolerance};
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
        let problem = &request.problem;
        for (number, config) in request.configs.iter().enumerate() {
            if matches!(config, Config::Library | Config::RoundingLibrary) {
                let rounds = config.rounds(problem);
                if self.library.as_ref().is_some_and(|library| library.supports(problem, rounds)) {
                    candidates.push(LaunchableConfig { number, launchable: Launchable::Library { rounds } });
                }
                continue;
            }
            let Some(form) = variant.form(config, problem) else {
                results.failed.push((number, FailureReason::Compile));
                continue;
            };
            let key = variant.key(&form);
            match self.store.find(&key) {
                Some(Ok(slot)) => {
                    candidates.push(LaunchableConfig { number, launchable: Launchable::Kernel(slot, form) });
                }
                Some(Err(reason)) => results.failed.push((number, reason)),
                None if self.is_too_large(problem, &form.tile) => {
                    results.failed.push((number, FailureReason::OutOfResources));
                }
                None => missing = Some(key),
            }
        }
        candidates.sort_by_key(|candidate| match candidate.launchable {
            Launchable::Kernel(slot, _) => Some(self.store.place_in_packs(slot)),
            Launchable::Library { .. } => None,
        });
        match missing {
            Some(key) if self.store.exact => Err(format!(
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
        let Some(found) = self.store.find(&key) else {
            let reason = format!("the pack was built without {key}; build one that has it");
            return Err(SessionError::Lacking(reason));
        };
        let slot = found.map_err(refused)?;
        // Every problem needs it.
        self.store.kernels[slot.0].stays = true;
        match self.store.load(&self.gpu, &[slot])?.pop() {
            Some((_, reason)) => Err(refused(reason).into()),
            None => Ok(slot),
        }
    }

    pub(super) fn launch(
        &self,
        slot: KernelSlot,
        grid: [u32; 2],
        arguments: &mut Arguments,
    ) -> Result<(), SessionError> {
        let StoredKernel { kernel, function, .. } = &self.store.kernels[slot.0];
        let function = function.as_ref().context("a kernel is to be launched that is not loaded")?;
        Ok(self.gpu.launch(function, grid, kernel.threads, kernel.shared, arguments)?)
    }

    /// The cost of a pair of events, measured with a kernel that does nothing: how much longer one launch
    /// between two events takes than one launch of a group.
    pub(super) fn cost_of_a_pair(&mut self, fill: KernelSlot, memory: &Memory) -> Result<u64, SessionError> {
        const SAMPLES: usize = 25;
        let mut nothing = Arguments::default().pointer(memory.slice(0, 0).pointer()).i64(0).i32(0).finish();
        let mut medians = [0, 0];
        for (time, launches) in medians.iter_mut().zip([1, TURNS]) {
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
            *time = median(&self.queue.collect(&self.gpu)?) / launches;
        }
        Ok(medians[0].saturating_sub(medians[1]))
    }
}

/// The result of cuBLAS may be this many times as far from the reference as that of a pack's kernel.
const LIBRARY_LATITUDE: f32 = 16.0;
/// How long the host may take to queue one call of cuBLAS.
const LIBRARY_CALL_NS: u64 = 10_000;

/// The problem in hand, and the session that launches its configs.
pub(super) struct PreparedProblem<'s> {
    pub(super) session: &'s mut Session,
    operands: Operands,
    /// One counter of wrong elements for each config of the request.
    wrong: Memory,
    compare: KernelSlot,
}

impl<'s> PreparedProblem<'s> {
    /// Makes the inputs and the reference on the GPU.
    pub(super) fn new(
        session: &'s mut Session,
        variant: &Variant,
        request: &Measure,
    ) -> Result<Self, SessionError> {
        let heights = request.configs.iter().filter_map(Config::tile).map(|tile| tile.block_m).collect();
        let operands = Operands::allocate(&session.gpu, &request.problem, &heights, session.sms)?;
        let wrong = session.gpu.allocate(4 * request.configs.len() as u64)?;
        session.gpu.fill(&wrong, 0)?;
        let [fill, first, second, compare] = Support::all(variant);
        let fill = session.support(fill)?;
        if session.pair_ns == 0 {
            session.queue.warm_up(&session.gpu)?;
            session.pair_ns = session.cost_of_a_pair(fill, &wrong)?;
        }
        session.queue.begin(&session.gpu)?;
        for (pointer, count, stream) in operands.inputs() {
            let mut arguments = Arguments::default()
                .pointer(pointer)
                .i64(count)
                .i32(request.seed.wrapping_add(stream))
                .finish();
            session.launch(fill, [programs(count), 1], &mut arguments)?;
        }
        for (pointer, [rows, columns], turned, stream) in operands.scales() {
            let fill = session.support(Support::FillScales)?;
            let [rows, columns] = if turned { [rows, columns] } else { [rows * columns, 1] };
            let mut arguments = Arguments::default()
                .pointer(pointer)
                .i64(rows * columns)
                .i32(request.seed.wrapping_add(stream))
                .i64(rows)
                .i64(columns)
                .finish();
            session.launch(fill, [programs(rows * columns), 1], &mut arguments)?;
        }
        let has_second = !variant.kernel.is_plain() || request.problem.op.has_bias();
        let reference = session.support(if has_second { second } else { first })?;
        let (grid, mut arguments) = operands.reference();
        session.launch(reference, grid, &mut arguments)?;
        let compare = session.support(compare)?;
        session.queue.wait(&session.gpu)?;
        Ok(Self { session, operands, wrong, compare })
    }

    /// Whether there are enough copies of the inputs to take turns. Then the inputs of a launch are not in
    /// the cache, even right after another launch.
    pub(super) fn takes_turns(&self) -> bool {
        self.operands.takes_turns()
    }

    /// Whether the result of a kernel was compared before, on any problem. The result of cuBLAS is compared
    /// on every problem.
    pub(super) fn is_verified(&self, launchable: Launchable) -> bool {
        match launchable {
            Launchable::Kernel(slot, _) => self.session.store.kernels[slot.0].verified,
            Launchable::Library { .. } => false,
        }
    }

    pub(super) fn set_verified(&mut self, launchable: Launchable) {
        if let Launchable::Kernel(slot, _) = launchable {
            self.session.store.kernels[slot.0].verified = true;
        }
    }

    /// An untimed launch. It brings back the kernel's code, which other kernels have pushed out of the cache.
    pub(super) fn bring_code(&mut self, launchable: Launchable, turn: u64) -> Result<(), SessionError> {
        self.session.queue.begin(&self.session.gpu)?;
        self.run(launchable, turn)
    }

    /// Launches a config on one copy of the inputs. The place of a copy in memory changes times by a few
    /// percent, so every config gets the same copies in the same order.
    fn run(&self, launchable: Launchable, turn: u64) -> Result<(), SessionError> {
        match launchable {
            Launchable::Kernel(place, form) => {
                let (grid, mut arguments) = self.operands.launch(&form, turn);
                self.session.launch(place, grid, &mut arguments)
            }
            Launchable::Library { rounds } => {
                let Some(library) = &self.session.library else { return Ok(()) };
                let (problem, matrices) = (self.operands.problem(), self.operands.matrices(turn));
                Ok(library.multiply(&self.session.gpu, problem, rounds, &matrices)?)
            }
        }
    }

    /// Times launches on some copies of the inputs between two events, the first one with a cold cache. The next
    /// [`Self::collect`] returns the time.
    pub(super) fn time(&mut self, launchable: Launchable, turns: Range<u64>) -> Result<(), SessionError> {
        loop {
            if turns.end - turns.start > 1 && launchable.is_library() {
                self.session.queue.delay(&self.session.gpu, TURNS * LIBRARY_CALL_NS)?;
            }
            self.session.queue.start(&self.session.gpu)?;
            for turn in turns.clone() {
                self.run(launchable, turn)?;
            }
            if self.session.queue.stop(&self.session.gpu)? {
                return Ok(());
            }
        }
    }

    /// Waits for all launches. Returns their times in nanoseconds, in the order in which they were started.
    pub(super) fn collect(&mut self) -> Result<Vec<u64>, SessionError> {
        Ok(self.session.queue.collect(&self.session.gpu)?)
    }

    /// The time of one launch in a group. The cost of a pair of events is added, so that short and long
    /// problems are on one scale.
    pub(super) fn per_launch(&self, group_ns: u64) -> u64 {
        group_ns / TURNS + self.session.pair_ns
    }

    /// Launches a config on a poisoned output and counts the wrong elements afterwards.
    pub(super) fn queue_check(&mut self, candidate: LaunchableConfig) -> Result<(), SessionError> {
        let LaunchableConfig { number, launchable } = candidate;
        self.session.queue.begin(&self.session.gpu)?;
        self.session.gpu.fill(self.operands.output(), 0xff)?;
        self.run(launchable, 0)?;
        let problem = self.operands.problem();
        let tf32 = match launchable {
            Launchable::Kernel(_, form) => form.tile.allow_tf32,
            Launchable::Library { rounds } => rounds,
        };
        let (mut absolute, relative) = tolerance(problem.a_dtype, problem.k, tf32);
        if launchable.is_library() {
            // cuBLAS may split K and add the parts in the output's type, as torch allows it to.
            absolute *= LIBRARY_LATITUDE;
        }
        let counter = self.wrong.slice(4 * number as u64, 4);
        let (grid, mut arguments) = self.operands.comparison(counter, absolute, relative);
        self.session.launch(self.compare, grid, &mut arguments)
    }

    /// Waits for all checks. Returns how many elements each config of the request got wrong since the last call.
    pub(super) fn wrong_elements(&mut self) -> Result<Vec<u32>, SessionError> {
        self.session.queue.wait(&self.session.gpu)?;
        let wrong = self.session.gpu.read(&self.wrong)?;
        self.session.gpu.fill(&self.wrong, 0)?;
        Ok(wrong)
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

/// The kernels of packs. They are loaded onto the GPU when they are needed, and unloaded to make room for others.
pub(super) struct Store {
    packs: Vec<Pack>,
    /// Whether the kernels serve only the sizes that they were built for.
    pub(super) exact: bool,
    kernels: Vec<StoredKernel>,
    slots: HashMap<String, KernelSlot>,
    calls: u64,
}

impl Store {
    pub(super) fn new(packs: Vec<Pack>) -> Self {
        let exact = packs.iter().any(Pack::is_exact);
        Self { packs, exact, kernels: Vec::new(), slots: HashMap::new(), calls: 0 }
    }

    /// Finds a kernel in the packs, or the reason why its build failed. `None` if the packs were built without it.
    fn find(&mut self, key: &str) -> Option<Result<KernelSlot, FailureReason>> {
        if let Some(slot) = self.slots.get(key) {
            return Some(Ok(*slot));
        }
        let found = |(pack, kernels): (usize, &'_ Pack)| Some((pack, kernels.find(key)?.clone()));
        let (pack, kernel) = match self.packs.iter().enumerate().find_map(found)? {
            (_, Outcome::Failed { reason, .. }) => return Some(Err(reason)),
            (pack, Outcome::Built(kernel)) => (pack, kernel),
        };
        let slot = KernelSlot(self.kernels.len());
        let stored = StoredKernel { pack, kernel, function: None, used: 0, stays: false, verified: false };
        self.kernels.push(stored);
        self.slots.insert(key.to_owned(), slot);
        Some(Ok(slot))
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
}

/// The reason why a kernel could not be loaded. Errors that concern the whole process are passed on.
fn refusal(error: DriverError) -> Result<FailureReason, DriverError> {
    match error {
        error if error.is_sticky() || error.is_out_of_memory() => Err(error),
        error if error.is_out_of_resources() => Ok(FailureReason::OutOfResources),
        _ => Ok(FailureReason::Launch),
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
