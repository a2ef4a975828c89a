//! Measuring one problem: a first look at every config, a thorough one at the best.

use std::time::Instant;

use diode_core::hardware::Facts;
use diode_core::space::{Feasibility, feasibility};
use diode_core::{Config, FailureReason, Problem, Tile};
use diode_formats::FormatError;

use super::cuda::cublas::{Cublas, CublasError};
use super::cuda::driver::{Arguments, CudaError, Gpu, Memory, MemoryInfo};
use super::cuda::nvml::Nvml;
use super::operands::{Operands, TURNS, bytes_needed, programs};
use super::phases::CHUNK;
use super::policy::GROUPED_BELOW_NS;
use super::protocol::{Cause, Event, Measure, Results};
use super::queue::{Queue, Spent};
use super::store::{Absent, Place, Store};
use crate::kernels::support::{Support, tolerance};
use crate::kernels::variant::{Variant, tile_of};

/// How much further off than our kernels the library may be.
const LIBRARY_LATITUDE: f32 = 16.0;
/// Left free: the driver and other processes need some too.
const SPARE_BYTES: u64 = 1 << 30;

/// Why measuring cannot go on in this process.
#[derive(Debug, thiserror::Error)]
pub(super) enum Broken {
    #[error(transparent)]
    Cuda(#[from] CudaError),
    #[error(transparent)]
    Cublas(#[from] CublasError),
    #[error(transparent)]
    Pack(FormatError),
    /// The pack is whole, but not for problems of this kind.
    #[error("{0}")]
    Lacking(String),
    #[error(transparent)]
    Other(#[from] anyhow::Error),
}

impl Broken {
    pub(super) fn cause(&self) -> Cause {
        match self {
            Self::Cuda(error) | Self::Cublas(CublasError::Driver(error)) if error.is_out_of_memory() => {
                Cause::Memory
            }
            Self::Pack(_) => Cause::Pack,
            _ => Cause::Gpu,
        }
    }
}

/// A GPU with everything that outlives a problem.
pub(super) struct Session {
    pub(super) gpu: Gpu,
    /// What is known of this kind of GPU.
    facts: Option<Facts>,
    pub(super) store: Store,
    pub(super) library: Option<Cublas>,
    pub(super) nvml: Option<Nvml>,
    pub(super) queue: Queue,
    /// What one event pair adds to a launch that a group of launches does not have.
    pub(super) pair_ns: u64,
}

/// A config that can be launched.
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    /// Its place in the request.
    pub(super) number: usize,
    pub(super) how: How,
}

#[derive(Clone, Copy)]
pub(super) enum How {
    Kernel(Place, Tile),
    Library,
}

/// The problem at hand.
pub(super) struct Work {
    pub(super) operands: Operands,
    /// One counter for each config of the request.
    pub(super) wrong: Memory,
    pub(super) compare: Place,
}

impl Session {
    pub(super) fn new(
        gpu: Gpu,
        facts: Option<Facts>,
        store: Store,
        library: Option<Cublas>,
        nvml: Option<Nvml>,
        cache_bytes: u64,
    ) -> Result<Self, Broken> {
        let queue = Queue::new(&gpu, cache_bytes)?;
        Ok(Self { gpu, facts, store, library, nvml, queue, pair_ns: 0 })
    }

    /// Measures a problem, telling `report` what is going on.
    pub(super) fn measure(
        &mut self,
        request: &Measure,
        report: &mut dyn FnMut(Event) -> anyhow::Result<()>,
    ) -> Result<Event, Broken> {
        let began = Instant::now();
        self.queue.spent = Spent::default();
        let problem = &request.problem;
        let variant = match Variant::in_pack(problem, self.store.is_exact()) {
            Ok(variant) => variant,
            Err(reason) => return Ok(Event::Refused { reason }),
        };
        let mut results = Results::default();
        let candidates = match self.candidates(&variant, request, &mut results)? {
            Ok(candidates) => candidates,
            Err(reason) => return Ok(Event::Refused { reason }),
        };
        let needed = bytes_needed(problem) + SPARE_BYTES;
        let memory = self.gpu.memory()?;
        if needed > memory.total {
            return Ok(Event::OutOfMemory);
        }
        if needed > memory.free {
            return Ok(Event::Refused { reason: no_room(needed, memory) });
        }
        let work = match self.prepare(problem, request) {
            Ok(work) => work,
            // Others were faster.
            Err(broken) if broken.cause() == Cause::Memory => {
                let reason =
                    format!("the GPU has no memory left ({broken}); --resume measures it when it has");
                return Ok(Event::Refused { reason });
            }
            Err(Broken::Lacking(reason)) => return Ok(Event::Refused { reason }),
            Err(broken) => return Err(broken),
        };

        let chunk = if request.careful { 1 } else { CHUNK };
        let mut looks = self.first_look(&work, &candidates, chunk, &mut results, report)?;
        let Some(best) = looks.iter().map(|&(_, nanos)| nanos).min() else {
            return Ok(Event::Measured(results));
        };
        let grouped = work.operands.takes_turns() && best < GROUPED_BELOW_NS;
        if grouped {
            self.look_in_groups(&work, &candidates, best, &mut looks, report)?;
        }
        let near = self.thorough(&work, &candidates, &looks, grouped, &mut results, report)?;
        let best = looks.iter().map(|&(_, nanos)| nanos).min().unwrap_or(best);
        let rest: Vec<(usize, u64)> =
            looks.into_iter().filter(|(number, _)| !near.contains(number)).collect();
        self.look_again(&work, &candidates, &rest, best, grouped, &mut results)?;

        results.timed.sort_unstable_by_key(|(number, _)| *number);
        results.failed.sort_unstable_by_key(|(number, _)| *number);
        let state = self.nvml.as_ref().map(Nvml::state).unwrap_or_default();
        results.sm_mhz = state.sm_mhz;
        results.celsius = state.celsius;
        results.power_capped = state.throttled.is_some_and(|throttled| throttled.by_power_cap());
        results.kernel_ns = self.queue.spent.kernel_ns;
        results.flush_ns = self.queue.spent.flush_ns;
        results.wall_ns = began.elapsed().as_nanos() as u64;
        Ok(Event::Measured(results))
    }

    /// What can be launched of the request; the rest goes to the failures. The
    /// inner error says that the pack is not made for this problem.
    fn candidates(
        &mut self,
        variant: &Variant,
        request: &Measure,
        results: &mut Results,
    ) -> Result<Result<Vec<Candidate>, String>, Broken> {
        let mut candidates = Vec::new();
        let mut missing = None;
        for (number, config) in request.configs.iter().enumerate() {
            let how = match config {
                Config::Library if self.library.is_some() && Cublas::supports(&request.problem) => {
                    How::Library
                }
                Config::Library => continue,
                _ => {
                    let Some(tile) = tile_of(config) else {
                        results.failed.push((number, FailureReason::Compile));
                        continue;
                    };
                    let key = variant.key(tile, variant.fits(tile, &request.problem));
                    match self.store.load(&self.gpu, &key) {
                        Ok(place) => How::Kernel(place, *tile),
                        Err(Absent::NotInPack) if self.is_too_large(&request.problem, tile) => {
                            results.failed.push((number, FailureReason::OutOfResources));
                            continue;
                        }
                        Err(Absent::NotInPack) => {
                            missing = Some(key);
                            continue;
                        }
                        Err(Absent::Failed(reason)) => {
                            results.failed.push((number, reason));
                            continue;
                        }
                        Err(Absent::Fatal(error)) => return Err(error.into()),
                        Err(Absent::Unreadable(error)) => return Err(Broken::Pack(error)),
                    }
                }
            };
            candidates.push(Candidate { number, how });
        }
        Ok(match missing {
            Some(key) if self.store.is_exact() => Err(format!(
                "the pack is for the exact sizes of other problems, without {key}; build one for this"
            )),
            Some(key) => Err(format!("the pack was built without {key}; build one that has it")),
            None => Ok(candidates),
        })
    }

    /// Packs of the `full` space leave out what no GPU of the kind can launch; other spaces name it.
    fn is_too_large(&self, problem: &Problem, tile: &Tile) -> bool {
        let judged = self.facts.as_ref().map(|facts| feasibility(facts, problem, tile));
        judged == Some(Feasibility::SharedMemory)
    }

    /// Inputs and reference.
    fn prepare(&mut self, problem: &Problem, request: &Measure) -> Result<Work, Broken> {
        let dtype = problem.a_dtype;
        let operands = Operands::allocate(&self.gpu, problem)?;
        let wrong = self.gpu.allocate(4 * request.configs.len() as u64)?;
        self.gpu.fill(&wrong, 0)?;
        let fill = self.support(Support::Fill(dtype))?;
        if self.pair_ns == 0 {
            self.pair_ns = self.cost_of_a_pair(fill, &wrong)?;
        }
        for (pointer, count, stream) in operands.inputs() {
            let mut arguments = Arguments::default()
                .pointer(pointer)
                .i64(count)
                .i32(request.seed.wrapping_add(stream))
                .finish();
            self.launch(fill, [programs(count), 1], &mut arguments)?;
        }
        let reference = self.support(Support::Reference { dtype, bias: problem.op.has_bias() })?;
        let (grid, mut arguments) = operands.reference();
        self.launch(reference, grid, &mut arguments)?;
        let compare = self.support(Support::Compare(dtype))?;
        self.gpu.synchronize()?;
        Ok(Work { operands, wrong, compare })
    }

    fn support(&mut self, support: Support) -> Result<Place, Broken> {
        let key = support.key();
        self.store.load(&self.gpu, &key).map_err(|absent| match absent {
            Absent::NotInPack => {
                Broken::Lacking(format!("the pack was built without {key}; build one that has it"))
            }
            Absent::Failed(reason) => anyhow::anyhow!("the kernel {key} cannot be launched: {reason}").into(),
            Absent::Fatal(error) => error.into(),
            Absent::Unreadable(error) => Broken::Pack(error),
        })
    }

    fn launch(&self, place: Place, grid: [u32; 2], arguments: &mut Arguments) -> Result<(), CudaError> {
        let kernel = self.store.get(place);
        self.gpu.launch(&kernel.function, grid, kernel.threads, kernel.shared, arguments)
    }

    /// Launches a config on one of the copies of the inputs. Where memory lies makes
    /// a few percent, so every config gets the same copies in the same order.
    pub(super) fn run(&self, work: &Work, how: How, turn: u64) -> Result<(), Broken> {
        match how {
            How::Kernel(place, tile) => {
                let (grid, mut arguments) = work.operands.launch(&tile, turn);
                Ok(self.launch(place, grid, &mut arguments)?)
            }
            How::Library => {
                let Some(library) = &self.library else { return Ok(()) };
                Ok(library.multiply(&self.gpu, work.operands.problem(), &work.operands.matrices(turn))?)
            }
        }
    }

    /// Launches on poisoned outputs and counts what is wrong afterwards.
    pub(super) fn queue_check(&self, work: &Work, candidate: Candidate) -> Result<(), Broken> {
        self.gpu.fill(work.operands.output(), 0xff)?;
        self.run(work, candidate.how, 0)?;
        let problem = work.operands.problem();
        let tf32 = matches!(candidate.how, How::Kernel(_, tile) if tile.allow_tf32);
        let (mut absolute, relative) = tolerance(problem.a_dtype, problem.k, tf32);
        if matches!(candidate.how, How::Library) {
            // It may split K and add the parts in the type of the output, as torch allows it to.
            absolute *= LIBRARY_LATITUDE;
        }
        let counter = work.wrong.slice(4 * candidate.number as u64, 4);
        let (grid, mut arguments) = work.operands.comparison(counter, absolute, relative);
        Ok(self.launch(work.compare, grid, &mut arguments)?)
    }

    /// What an event pair around one launch costs over a share of a group, from a
    /// kernel that does nothing.
    fn cost_of_a_pair(&mut self, fill: Place, memory: &Memory) -> Result<u64, Broken> {
        const SAMPLES: usize = 25;
        let mut nothing = Arguments::default().pointer(memory.slice(0, 0).pointer()).i64(0).i32(0).finish();
        let mut medians = [0, 0];
        for (median, launches) in medians.iter_mut().zip([1, TURNS]) {
            for _ in 0..SAMPLES {
                self.queue.start(&self.gpu)?;
                for _ in 0..launches {
                    self.launch(fill, [1, 1], &mut nothing)?;
                }
                self.queue.stop(&self.gpu)?;
            }
            let mut times = self.queue.collect(&self.gpu)?;
            times.sort_unstable();
            *median = times[SAMPLES / 2] / launches;
        }
        Ok(medians[0].saturating_sub(medians[1]))
    }
}

/// Why a problem that the GPU is large enough for cannot be measured now.
fn no_room(needed: u64, memory: MemoryInfo) -> String {
    let gib = |bytes: u64| format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30));
    format!(
        "it needs {} of the GPU's memory with what is left to others, and {} of {} are free; where other \
         programs hold them, end those, and --resume measures it",
        gib(needed),
        gib(memory.free),
        gib(memory.total)
    )
}
