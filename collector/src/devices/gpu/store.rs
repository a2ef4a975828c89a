//! Kernels of packs, loaded onto the GPU when they are first needed.

use std::collections::{BTreeMap, HashMap, HashSet};

use diode_core::FailureReason;
use diode_formats::FormatError;
use diode_formats::pack::{Kernel, Outcome, Pack};

use super::driver::{DriverError, Function, Gpu};

/// The most kernels that stay loaded from one problem to the next. The driver takes some 0.2 MB of the host for
/// each.
const MOST_KEPT: usize = 100;

/// A loaded kernel's place in the [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct KernelSlot(usize);

/// A kernel that can be launched.
pub(super) struct Loaded {
    pub(super) function: Function,
    pub(super) threads: u32,
    pub(super) shared: u32,
    key: String,
    /// The problem that it was last used for.
    problem: u64,
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
    /// Problems so far.
    problem: u64,
    next: KernelSlot,
    loaded: BTreeMap<KernelSlot, Loaded>,
    places: HashMap<String, KernelSlot>,
    /// Kernels whose results have been compared with the reference, and were right.
    verified: HashSet<String>,
}

impl Store {
    pub(super) fn new(packs: Vec<Pack>) -> Self {
        let exact = packs.iter().any(Pack::is_exact);
        Self {
            packs,
            exact,
            problem: 0,
            next: KernelSlot(0),
            loaded: BTreeMap::new(),
            places: HashMap::new(),
            verified: HashSet::new(),
        }
    }

    /// Whether the kernels serve the sizes only that they were built for.
    pub(super) fn is_exact(&self) -> bool {
        self.exact
    }

    /// Begins another problem: kernels that were not used for long make room. Places of before hold no more.
    pub(super) fn begin_problem(&mut self) {
        self.problem += 1;
        let surplus = self.loaded.len().saturating_sub(MOST_KEPT);
        if surplus == 0 {
            return;
        }
        let mut by_use: Vec<(u64, KernelSlot)> =
            self.loaded.iter().map(|(place, kernel)| (kernel.problem, *place)).collect();
        by_use.sort_unstable();
        for (_, place) in by_use.into_iter().take(surplus) {
            if let Some(kernel) = self.loaded.remove(&place) {
                self.places.remove(&kernel.key);
            }
        }
    }

    /// Where a kernel that is not loaded is in the packs. Kernels that are loaded in this order are unpacked once.
    pub(super) fn place_in_packs(&self, key: &str) -> Option<(usize, (u32, u64))> {
        if self.places.contains_key(key) {
            return None;
        }
        self.packs.iter().enumerate().find_map(|(number, pack)| match pack.find(key)? {
            Outcome::Built(kernel) => Some((number, kernel.place())),
            Outcome::Failed { .. } => None,
        })
    }

    /// Finds a kernel, and loads it if that is not done yet.
    pub(super) fn load(&mut self, gpu: &Gpu, key: &str) -> Result<KernelSlot, MissingKernel> {
        if let Some(place) = self.places.get(key) {
            if let Some(kernel) = self.loaded.get_mut(place) {
                kernel.problem = self.problem;
            }
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
        let place = self.next;
        self.next = KernelSlot(place.0 + 1);
        let (threads, shared) = (kernel.threads, kernel.shared);
        let loaded = Loaded { function, threads, shared, key: key.to_owned(), problem: self.problem };
        self.loaded.insert(place, loaded);
        self.places.insert(key.to_owned(), place);
        Ok(place)
    }

    pub(super) fn get(&self, place: KernelSlot) -> &Loaded {
        &self.loaded[&place]
    }

    pub(super) fn set_verified(&mut self, place: KernelSlot) {
        self.verified.insert(self.get(place).key.clone());
    }

    /// Whether the kernel's result has been compared with the reference, and was right.
    pub(super) fn is_verified(&self, place: KernelSlot) -> bool {
        self.verified.contains(&self.get(place).key)
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
