//! Kernels of packs, loaded onto the GPU when they are needed and unloaded when others are.

use std::collections::HashMap;

use diode_core::FailureReason;
use diode_formats::pack::{Kernel, Outcome, Pack};

use super::driver::{DriverError, Function, Gpu};
use super::session_error::SessionError;

/// The most kernels that are loaded at once. Each takes memory of the host and of the GPU.
pub(super) const MOST_LOADED: usize = 112;

/// A kernel's place in the [`Store`]. It holds as long as the store does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelSlot(usize);

/// A kernel that packs have.
struct StoredKernel {
    pack: usize,
    kernel: Kernel,
    function: Option<Function>,
    /// When it was last asked for, counted in calls.
    used: u64,
    /// It is no config's kernel, and stays loaded.
    stays: bool,
    /// Its result has been compared with the reference, and was right.
    verified: bool,
}

/// A kernel that can be launched.
pub(super) struct LoadedKernel<'a> {
    pub(super) function: &'a Function,
    pub(super) threads: u32,
    pub(super) shared: u32,
}

/// Why packs have no kernel to load.
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

    /// Whether the kernels serve the sizes only that they were built for.
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

    /// Where a kernel is in the packs. Kernels that are loaded in this order are unpacked once.
    pub(super) fn place_in_packs(&self, slot: KernelSlot) -> (usize, (u32, u64)) {
        let StoredKernel { pack, kernel, .. } = &self.kernels[slot.0];
        (*pack, kernel.place())
    }

    /// Loads kernels, at most [`MOST_LOADED`]; others may have to go for them. Returns those that the driver refuses.
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

    /// Loads a kernel that stays, since every problem needs it.
    pub(super) fn load_to_stay(
        &mut self,
        gpu: &Gpu,
        slot: KernelSlot,
    ) -> Result<Option<FailureReason>, SessionError> {
        self.kernels[slot.0].stays = true;
        Ok(self.load(gpu, &[slot])?.pop().map(|(_, reason)| reason))
    }

    /// Unloads what was not asked for the longest, if there is no room for so many more.
    fn make_room(&mut self, gpu: &Gpu, more: usize) -> Result<(), DriverError> {
        let loaded = |kernel: &&mut StoredKernel| kernel.function.is_some() && !kernel.stays;
        let mut others: Vec<&mut StoredKernel> = self.kernels.iter_mut().filter(loaded).collect();
        let surplus = (others.len() + more).saturating_sub(MOST_LOADED);
        if surplus == 0 {
            return Ok(());
        }
        // Launches of them may still be queued.
        gpu.synchronize()?;
        others.sort_unstable_by_key(|kernel| kernel.used);
        for kernel in others.into_iter().take(surplus).filter(|kernel| kernel.used < self.calls) {
            kernel.function = None;
        }
        Ok(())
    }

    /// A kernel that was loaded; `None` if it was not, or has gone since.
    pub(super) fn get(&self, slot: KernelSlot) -> Option<LoadedKernel<'_>> {
        let StoredKernel { kernel, function, .. } = &self.kernels[slot.0];
        let function = function.as_ref()?;
        Some(LoadedKernel { function, threads: kernel.threads, shared: kernel.shared })
    }

    pub(super) fn set_verified(&mut self, slot: KernelSlot) {
        self.kernels[slot.0].verified = true;
    }

    /// Whether the kernel's result has been compared with the reference, and was right.
    pub(super) fn is_verified(&self, slot: KernelSlot) -> bool {
        self.kernels[slot.0].verified
    }
}

/// What a refused load says of a kernel; errors that concern the whole process pass on.
fn refusal(error: DriverError) -> Result<FailureReason, DriverError> {
    if error.is_sticky() || error.is_out_of_memory() {
        Err(error)
    } else if error.is_out_of_resources() {
        Ok(FailureReason::OutOfResources)
    } else {
        Ok(FailureReason::Launch)
    }
}
