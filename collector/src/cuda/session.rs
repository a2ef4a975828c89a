//! Measuring one problem: a first look at every config, a thorough one at the best.

use std::time::Instant;

use diode_core::{Config, FailureReason, Problem, Tile};

use super::cublas::{Cublas, CublasError};
use super::driver::{Arguments, CudaError, Gpu, Memory};
use super::nvml::Nvml;
use super::operands::{Operands, TURNS, bytes_needed, programs};
use super::policy::{self, GROUPED_BELOW_NS, LONG_NS, ROUNDS, WORTH_A_GROUP};
use super::protocol::{Event, Measure, Results};
use super::queue::{MOST_QUEUED, Queue, Spent};
use super::store::{Absent, Place, Store};
use crate::kernels::support::{Support, tolerance};
use crate::kernels::variant::{Variant, tile_of};

/// How much further off than our kernels the library may be.
const LIBRARY_LATITUDE: f32 = 16.0;
/// Launches of a short kernel in the second look.
const SECOND_LOOKS: usize = 3;
/// Launches of the first look between two waits.
const CHUNK: usize = 64;
/// A disturbed problem is measured again this often.
const SECOND_CHANCES: u32 = 2;
/// What queueing one call of the library may take this side.
const LIBRARY_CALL_NS: u64 = 10_000;
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
    Other(#[from] anyhow::Error),
}

/// A GPU with everything that outlives a problem.
pub(super) struct Session {
    gpu: Gpu,
    store: Store,
    library: Option<Cublas>,
    nvml: Option<Nvml>,
    queue: Queue,
    /// What one event pair adds to a launch that a group of launches does not have.
    pair_ns: u64,
}

/// A config that can be launched.
#[derive(Clone, Copy)]
struct Candidate {
    /// Its place in the request.
    number: usize,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Kernel(Place, Tile),
    Library,
}

/// The problem at hand.
struct Work {
    operands: Operands,
    /// One counter for each config of the request.
    wrong: Memory,
    compare: Place,
}

impl Session {
    pub(super) fn new(
        gpu: Gpu,
        store: Store,
        library: Option<Cublas>,
        nvml: Option<Nvml>,
        cache_bytes: u64,
    ) -> Result<Self, Broken> {
        let queue = Queue::new(&gpu, cache_bytes)?;
        Ok(Self { gpu, store, library, nvml, queue, pair_ns: 0 })
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
        let variant = match Variant::of(problem) {
            Ok(variant) => variant,
            Err(reason) => return Ok(Event::Refused { reason }),
        };
        let mut results = Results::default();
        let candidates = match self.candidates(&variant, request, &mut results)? {
            Ok(candidates) => candidates,
            Err(reason) => return Ok(Event::Refused { reason }),
        };
        if bytes_needed(problem) + SPARE_BYTES > self.gpu.free_memory()? {
            return Ok(Event::OutOfMemory);
        }
        let Some(work) = self.prepare(problem, request)? else { return Ok(Event::OutOfMemory) };

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
                    let key = variant.key(tile);
                    match self.store.load(&self.gpu, &key) {
                        Ok(place) => How::Kernel(place, *tile),
                        Err(Absent::NotInPack) => {
                            missing = Some(key);
                            continue;
                        }
                        Err(Absent::Failed(reason)) => {
                            results.failed.push((number, reason));
                            continue;
                        }
                        Err(Absent::Fatal(error)) => return Err(error.into()),
                    }
                }
            };
            candidates.push(Candidate { number, how });
        }
        Ok(match missing {
            Some(key) => Err(format!("the pack was built without {key}; `diode kernels build` adds it")),
            None => Ok(candidates),
        })
    }

    /// Inputs and reference. `None` if the GPU has too little memory after all.
    fn prepare(&mut self, problem: &Problem, request: &Measure) -> Result<Option<Work>, Broken> {
        let dtype = problem.a_dtype;
        let operands = match Operands::allocate(&self.gpu, problem) {
            Ok(operands) => operands,
            Err(error) if error.is_out_of_memory() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
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
        Ok(Some(Work { operands, wrong, compare }))
    }

    fn support(&mut self, support: Support) -> Result<Place, Broken> {
        let key = support.key();
        self.store.load(&self.gpu, &key).map_err(|absent| match absent {
            Absent::NotInPack => anyhow::anyhow!("the pack has no kernel {key}; build it again").into(),
            Absent::Failed(reason) => anyhow::anyhow!("the kernel {key} cannot be launched: {reason}").into(),
            Absent::Fatal(error) => error.into(),
        })
    }

    fn launch(&self, place: Place, grid: [u32; 2], arguments: &mut Arguments) -> Result<(), CudaError> {
        let kernel = self.store.get(place);
        self.gpu.launch(&kernel.function, grid, kernel.threads, kernel.shared, arguments)
    }

    /// Launches a config on one of the copies of the inputs. Where memory lies makes
    /// a few percent, so every config gets the same copies in the same order.
    fn run(&self, work: &Work, how: How, turn: u64) -> Result<(), Broken> {
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
    fn queue_check(&self, work: &Work, candidate: Candidate) -> Result<(), Broken> {
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

    /// One timed launch of every config that launches at all; kernels that have
    /// never been checked are checked before.
    fn first_look(
        &mut self,
        work: &Work,
        candidates: &[Candidate],
        chunk: usize,
        results: &mut Results,
        report: &mut dyn FnMut(Event) -> anyhow::Result<()>,
    ) -> Result<Vec<(usize, u64)>, Broken> {
        let mut looks = Vec::new();
        let mut checked = Vec::new();
        for part in candidates.chunks(chunk) {
            report(Event::At { first: part[0].number, last: part[part.len() - 1].number })?;
            let mut launched = Vec::new();
            for &candidate in part {
                let verified = match candidate.how {
                    How::Kernel(place, _) => self.store.get(place).verified,
                    How::Library => false,
                };
                if !verified {
                    if let Some(reason) = refusal(self.queue_check(work, candidate))? {
                        results.failed.push((candidate.number, reason));
                        continue;
                    }
                    checked.push(candidate);
                }
                self.queue.start(&self.gpu)?;
                let refused = refusal(self.run(work, candidate.how, 1))?;
                self.queue.stop(&self.gpu)?;
                results.failed.extend(refused.map(|reason| (candidate.number, reason)));
                launched.push((candidate.number, refused));
            }
            let times = self.queue.collect(&self.gpu)?;
            let timed = launched.into_iter().zip(times).filter(|((_, refused), _)| refused.is_none());
            looks.extend(timed.map(|((number, _), nanos)| (number, nanos)));
        }
        let wrong = self.gpu.read(&work.wrong)?;
        for candidate in checked {
            if wrong[candidate.number] > 0 {
                results.failed.push((candidate.number, FailureReason::WrongResult));
            } else if let How::Kernel(place, _) = candidate.how {
                self.store.set_verified(place);
            }
        }
        looks.retain(|&(number, _)| wrong[number] == 0);
        self.second_look(work, candidates, &mut looks)?;
        Ok(looks)
    }

    /// The first launch of a kernel also fetches its code, which takes as long as
    /// a short kernel runs: those are launched again, and the median of that counts.
    fn second_look(
        &mut self,
        work: &Work,
        candidates: &[Candidate],
        looks: &mut [(usize, u64)],
    ) -> Result<(), Broken> {
        let how = by_number(candidates);
        let mut short: Vec<&mut (usize, u64)> =
            looks.iter_mut().filter(|(_, nanos)| *nanos < LONG_NS).collect();
        for part in short.chunks_mut(MOST_QUEUED / SECOND_LOOKS) {
            for (number, _) in part.iter().map(|look| **look) {
                let Some(how) = how(number) else { continue };
                self.run(work, how, 0)?;
                for turn in 0..SECOND_LOOKS {
                    self.queue.start(&self.gpu)?;
                    self.run(work, how, turn as u64)?;
                    self.queue.stop(&self.gpu)?;
                }
            }
            let times = self.queue.collect(&self.gpu)?;
            for (look, times) in part.iter_mut().zip(times.chunks(SECOND_LOOKS)) {
                look.1 = policy::median(times);
            }
        }
        Ok(())
    }

    /// Very short kernels: many launches between two events.
    fn look_in_groups(
        &mut self,
        work: &Work,
        candidates: &[Candidate],
        best: u64,
        looks: &mut [(usize, u64)],
        report: &mut dyn FnMut(Event) -> anyhow::Result<()>,
    ) -> Result<(), Broken> {
        let how = by_number(candidates);
        let limit = (best as f64 * WORTH_A_GROUP) as u64;
        let mut worth: Vec<&mut (usize, u64)> =
            looks.iter_mut().filter(|(_, nanos)| *nanos <= limit).collect();
        for part in worth.chunks_mut(CHUNK) {
            report(Event::Busy)?;
            for (number, _) in part.iter().map(|look| **look) {
                let Some(how) = how(number) else { continue };
                self.queue_group(work, how)?;
            }
            let times = self.queue.collect(&self.gpu)?;
            part.iter_mut().zip(times).for_each(|(look, nanos)| look.1 = self.per_launch(nanos));
        }
        Ok(())
    }

    fn queue_group(&mut self, work: &Work, how: How) -> Result<(), Broken> {
        if matches!(how, How::Library) {
            self.queue.delay(&self.gpu, TURNS * LIBRARY_CALL_NS)?;
        }
        self.queue.start(&self.gpu)?;
        for turn in 0..TURNS {
            self.run(work, how, turn)?;
        }
        Ok(self.queue.stop(&self.gpu)?)
    }

    /// One launch's share of a group, with what an event pair of its own would add,
    /// so that short and long problems are on one scale.
    fn per_launch(&self, group_ns: u64) -> u64 {
        group_ns / TURNS + self.pair_ns
    }

    /// Rounds over the near-best, until they agree; their numbers.
    fn thorough(
        &mut self,
        work: &Work,
        candidates: &[Candidate],
        looks: &[(usize, u64)],
        grouped: bool,
        results: &mut Results,
        report: &mut dyn FnMut(Event) -> anyhow::Result<()>,
    ) -> Result<Vec<usize>, Broken> {
        let how = by_number(candidates);
        let mut near = policy::near_best(looks);
        // The library's kernel is what every other is held against.
        let library = candidates.iter().find(|candidate| matches!(candidate.how, How::Library));
        let library = library.filter(|library| looks.iter().any(|(number, _)| *number == library.number));
        near.extend(library.map(|library| library.number).filter(|number| !near.contains(number)));
        report(Event::Busy)?;
        let checked = near.clone();
        self.gpu.fill(&work.wrong, 0)?;
        for number in &near {
            let Some(how) = how(*number) else { continue };
            self.queue_check(work, Candidate { number: *number, how })?;
        }
        let wrong = self.gpu.read(&work.wrong)?;
        near.retain(|&number| wrong[number] == 0);
        let failures = checked.iter().filter(|&&number| wrong[number] > 0);
        results.failed.extend(failures.map(|&number| (number, FailureReason::WrongResult)));

        let sum: u64 = looks.iter().filter(|(number, _)| near.contains(number)).map(|(_, nanos)| nanos).sum();
        let launches = if grouped { 2 } else { policy::per_round(sum, near.len()) };
        loop {
            let mut rounds = Vec::new();
            for round in 0..ROUNDS {
                rounds.push(self.round(work, &near, &how, launches, round, grouped, report)?);
            }
            let heat = self.nvml.as_ref().and_then(|nvml| nvml.state().throttled);
            let disturbed =
                !policy::is_steady(&rounds) || heat.is_some_and(|reasons| reasons.is_disturbing());
            if disturbed && results.repeated < SECOND_CHANCES {
                results.repeated += 1;
                continue;
            }
            results.disturbed = disturbed;
            let times =
                |place: usize| rounds.iter().flat_map(|round| round[place].clone()).collect::<Vec<u64>>();
            results.timed.extend(near.iter().enumerate().map(|(place, number)| (*number, times(place))));
            return Ok(checked);
        }
    }

    #[expect(clippy::too_many_arguments, reason = "the state of one loop of its only caller")]
    fn round(
        &mut self,
        work: &Work,
        near: &[usize],
        how: &dyn Fn(usize) -> Option<How>,
        launches: usize,
        round: usize,
        grouped: bool,
        report: &mut dyn FnMut(Event) -> anyhow::Result<()>,
    ) -> Result<Vec<Vec<u64>>, Broken> {
        let mut times = vec![Vec::new(); near.len()];
        // Each round starts elsewhere: nobody is always first.
        let order: Vec<usize> =
            (0..near.len()).map(|place| (place + round * near.len() / ROUNDS) % near.len()).collect();
        let mut queued: Vec<usize> = Vec::new();
        for place in order {
            if self.queue.room() < launches {
                report(Event::Busy)?;
                self.settle(&mut queued, &mut times, grouped)?;
            }
            let Some(how) = how(near[place]) else { continue };
            let first = (round * launches) as u64;
            // Untimed: brings the code back, which the kernel before has driven out.
            self.run(work, how, first)?;
            for launch in 0..launches as u64 {
                if grouped {
                    self.queue_group(work, how)?;
                } else {
                    self.queue.start(&self.gpu)?;
                    self.run(work, how, first + launch)?;
                    self.queue.stop(&self.gpu)?;
                }
                queued.push(place);
            }
        }
        self.settle(&mut queued, &mut times, grouped)?;
        Ok(times)
    }

    fn settle(
        &mut self,
        queued: &mut Vec<usize>,
        times: &mut [Vec<u64>],
        grouped: bool,
    ) -> Result<(), Broken> {
        let collected = self.queue.collect(&self.gpu)?;
        for (place, nanos) in queued.drain(..).zip(collected) {
            times[place].push(if grouped { self.per_launch(nanos) } else { nanos });
        }
        Ok(())
    }

    /// Two more launches for what is not hopeless; the rest stays as it was seen.
    fn look_again(
        &mut self,
        work: &Work,
        candidates: &[Candidate],
        rest: &[(usize, u64)],
        best: u64,
        grouped: bool,
        results: &mut Results,
    ) -> Result<(), Broken> {
        let how = by_number(candidates);
        let (again, settled): (Vec<_>, Vec<_>) =
            rest.iter().partition(|&&(_, nanos)| !grouped && policy::worth_a_look(nanos, best));
        results.timed.extend(settled.into_iter().map(|(number, nanos)| (number, vec![nanos])));
        for part in again.chunks(MOST_QUEUED / 2) {
            for &(number, _) in part {
                let Some(how) = how(number) else { continue };
                for turn in 0..2 {
                    self.queue.start(&self.gpu)?;
                    self.run(work, how, turn)?;
                    self.queue.stop(&self.gpu)?;
                }
            }
            let times = self.queue.collect(&self.gpu)?;
            let rows = part.iter().zip(times.chunks(2));
            results.timed.extend(rows.map(|(&(number, first), more)| (number, [&[first], more].concat())));
        }
        Ok(())
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

/// What a refused launch says of a config; errors that concern the whole process pass on.
fn refusal(launched: Result<(), Broken>) -> Result<Option<FailureReason>, Broken> {
    match launched {
        Ok(()) => Ok(None),
        Err(Broken::Cuda(error)) if error.is_sticky() => Err(error.into()),
        Err(Broken::Cuda(error)) if error.is_out_of_resources() => Ok(Some(FailureReason::OutOfResources)),
        Err(Broken::Cuda(_) | Broken::Cublas(CublasError::Refused { .. })) => Ok(Some(FailureReason::Launch)),
        Err(error) => Err(error),
    }
}

fn by_number(candidates: &[Candidate]) -> impl Fn(usize) -> Option<How> {
    let last = candidates.last().map_or(0, |candidate| candidate.number + 1);
    let mut table = vec![None; last];
    for candidate in candidates {
        table[candidate.number] = Some(candidate.how);
    }
    move |number| table.get(number).copied().flatten()
}
