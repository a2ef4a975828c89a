//! The kernels of packs. They are loaded onto the GPU when they are needed, and unloaded to make room for others.

use std::collections::HashMap;

use diode_core::FailureReason;
use diode_formats::pack::{Kernel, Outcome, Pack};

use super::driver::{DriverError, Function, Gpu};
use super::session_error::SessionError;

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
    pub(super) fn place_in_packs(&self, slot: KernelSlot) -> (usize, (u32, u64)) {
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
    pub(super) fn load_to_stay(
        &mut self,
        gpu: &Gpu,
        slot: KernelSlot,
    ) -> Result<Option<FailureReason>, SessionError> {
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
