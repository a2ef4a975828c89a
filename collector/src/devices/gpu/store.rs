//! Kernels of packs, loaded onto the GPU when they are first needed.

use std::collections::HashMap;

use diode_core::FailureReason;
use diode_formats::FormatError;
use diode_formats::pack::{Kernel, Outcome, Pack};

use super::driver::{DriverError, Function, Gpu};

/// A loaded kernel's place in the [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct KernelSlot(usize);

/// A kernel that can be launched.
pub(super) struct Loaded {
    pub(super) function: Function,
    pub(super) threads: u32,
    pub(super) shared: u32,
    /// Its result has been compared with the reference, and was right.
    pub(super) verified: bool,
}

/// Why a kernel cannot be launched.
pub(super) enum MissingKernel {
    /// The packs were built without it.
    NotInPack,
    /// The build of the kernel failed, or the driver refuses it now.
    Failed(FailureReason),
    /// The process can do nothing more on the GPU.
    Fatal(DriverError),
    /// The pack is damaged, or its file cannot be read.
    Unreadable(FormatError),
}

pub(super) struct Store {
    packs: Vec<Pack>,
    exact: bool,
    loaded: Vec<Loaded>,
    places: HashMap<String, KernelSlot>,
}

impl Store {
    pub(super) fn new(packs: Vec<Pack>) -> Self {
        let exact = packs.iter().any(Pack::is_exact);
        Self { packs, exact, loaded: Vec::new(), places: HashMap::new() }
    }

    /// Whether the kernels serve the sizes only that they were built for.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Finds a kernel, and loads it if that is not done yet.
    pub(super) fn load(&mut self, gpu: &Gpu, key: &str) -> Result<KernelSlot, MissingKernel> {
        if let Some(place) = self.places.get(key) {
            return Ok(*place);
        }
        let found = self.packs.iter_mut().find_map(|pack| pack.find(key).cloned().map(|found| (pack, found)));
        let (pack, kernel): (&mut Pack, Kernel) = match found {
            None => return Err(MissingKernel::NotInPack),
            Some((_, Outcome::Failed { reason, .. })) => return Err(MissingKernel::Failed(reason)),
            Some((pack, Outcome::Built(kernel))) => (pack, kernel),
        };
        let binary = pack.binary(&kernel).map_err(MissingKernel::Unreadable)?;
        let function = gpu.load(&binary, &kernel.symbol, kernel.shared).map_err(refused)?;
        let place = KernelSlot(self.loaded.len());
        let (threads, shared) = (kernel.threads, kernel.shared);
        self.loaded.push(Loaded { function, threads, shared, verified: false });
        self.places.insert(key.to_owned(), place);
        Ok(place)
    }

    pub(super) fn get(&self, place: KernelSlot) -> &Loaded {
        &self.loaded[place.0]
    }

    pub(super) fn set_verified(&mut self, place: KernelSlot) {
        self.loaded[place.0].verified = true;
    }
}

fn refused(error: DriverError) -> MissingKernel {
    if error.is_sticky() || error.is_out_of_memory() {
        MissingKernel::Fatal(error)
    } else if error.is_out_of_resources() {
        MissingKernel::Failed(FailureReason::OutOfResources)
    } else {
        MissingKernel::Failed(FailureReason::Launch)
    }
}
