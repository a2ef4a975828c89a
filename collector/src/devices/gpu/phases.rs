//! The phases of measuring a problem: looks at every config, then rounds over the best.

use diode_core::FailureReason;

use super::cuda::cublas::CublasError;
use super::operands::TURNS;
use super::policy::{self, LONG_NS, ROUNDS, WORTH_A_GROUP};
use super::protocol::{Event, Results};
use super::queue::MOST_QUEUED;
use super::session::{Broken, Candidate, How, Session, Work};

/// Launches of a short kernel in the second look.
const SECOND_LOOKS: usize = 3;
/// Launches of the first look between two waits.
pub(super) const CHUNK: usize = 64;
/// A disturbed problem is measured again this often.
const SECOND_CHANCES: u32 = 2;
/// What queueing one call of the library may take this side.
const LIBRARY_CALL_NS: u64 = 10_000;

impl Session {
    /// One timed launch of every config that launches at all; kernels that have
    /// never been checked are checked before.
    pub(super) fn first_look(
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
    pub(super) fn look_in_groups(
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
    pub(super) fn thorough(
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
    pub(super) fn look_again(
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
}

/// What a refused launch says of a config; errors that concern the whole process pass on.
fn refusal(launched: Result<(), Broken>) -> Result<Option<FailureReason>, Broken> {
    match launched {
        Ok(()) => Ok(None),
        Err(Broken::Cuda(error)) if error.is_sticky() => Err(error.into()),
        Err(Broken::Cuda(error)) if error.is_out_of_resources() => Ok(Some(FailureReason::OutOfResources)),
        // What a kernel spills takes memory on all processors at once.
        Err(Broken::Cuda(error)) if error.is_out_of_memory() => Ok(Some(FailureReason::OutOfMemory)),
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
