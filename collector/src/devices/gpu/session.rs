//! A GPU with its kernels and its library. It serves one problem after another.

use anyhow::Context as _;
use diode_core::hardware::Facts;
use diode_core::space::{Feasibility, feasibility};
use diode_core::{Config, FailureReason, Problem, Tile};

use super::arguments::Arguments;
use super::driver::{Gpu, Memory};
use super::library::VendorLibrary;
use super::management::Management;
use super::operands::TURNS;
use super::policy;
use super::protocol::{Measure, Results};
use super::session_error::SessionError;
use super::store::{KernelSlot, MissingKernel, Store};
use super::timing_queue::Queue;
use crate::kernels::support::Support;
use crate::kernels::variant::{Variant, tile_of};

/// A GPU and everything that outlives one problem.
pub(super) struct Session {
    pub(super) gpu: Gpu,
    /// The catalogue's facts about this kind of GPU.
    facts: Option<Facts>,
    pub(super) store: Store,
    pub(super) library: Option<VendorLibrary>,
    pub(super) management: Option<Management>,
    pub(super) queue: Queue,
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
    Kernel(KernelSlot, Tile),
    /// The library, which rounds float32 to TF32 or does not.
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
        management: Option<Management>,
        cache_bytes: u64,
    ) -> Result<Self, SessionError> {
        let queue = Queue::new(&gpu, cache_bytes)?;
        Ok(Self { gpu, facts, store, library, management, queue, pair_ns: 0 })
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
                _ => match tile_of(config) {
                    Some(tile) => {
                        let key = variant.key(tile, variant.fits(tile, &request.problem));
                        match self.store.find(&key) {
                            Ok(slot) => {
                                let launchable = Launchable::Kernel(slot, *tile);
                                candidates.push(LaunchableConfig { number, launchable });
                            }
                            Err(MissingKernel::NotInPack) if self.is_too_large(&request.problem, tile) => {
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

    /// Loads the kernels of some configs, at most [`MOST_LOADED`](super::store::MOST_LOADED). So nothing needs
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
