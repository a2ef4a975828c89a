//! Measures one problem: looks at every config, then times the best in rounds. `timing` says how often and takes the
//! times.

use std::collections::HashMap;
use std::ops::Range;
use std::time::Instant;

use diode_core::FailureReason;

use crate::devices::Quality;
use crate::devices::gpu::driver::MemoryInfo;
use crate::devices::gpu::library::LibraryError;
use crate::devices::gpu::operands::{SPARE_BYTES, TURNS, bytes_needed};
use crate::devices::gpu::session::{
    Launchable, LaunchableConfig, MOST_LOADED, PreparedProblem, Session, SessionError,
};
use crate::devices::gpu::timing::{
    self, CODE_COUNTS_BELOW_NS, GROUPED_BELOW_NS, MOST_QUEUED, ROUNDS, Spent, WORTH_A_GROUP,
};
use crate::devices::gpu::worker::{Cause, Measure, Message, Results, no_memory_left};
use crate::kernels::variant::Variant;

/// Measures a problem, and reports its progress to `report`.
pub(super) fn measure<'a>(
    session: &'a mut Session,
    request: &Measure,
    report: &'a mut Report<'a>,
) -> Result<Message, SessionError> {
    let began = Instant::now();
    session.queue.begin_problem();
    let problem = &request.problem;
    let variant = match Variant::in_pack(problem, session.store.exact) {
        Ok(variant) => variant,
        Err(reason) => return Ok(Message::Refused { reason }),
    };
    let mut results = Results::default();
    let candidates = match session.candidates(&variant, request, &mut results) {
        Ok(candidates) => candidates,
        Err(reason) => return Ok(Message::Refused { reason }),
    };
    let needed = bytes_needed(problem) + SPARE_BYTES;
    let memory = session.gpu.memory()?;
    if needed > memory.total {
        return Ok(Message::OutOfMemory);
    }
    if needed > memory.free {
        return Ok(Message::Refused { reason: no_room(needed, memory) });
    }
    let prepared = match PreparedProblem::new(session, &variant, request) {
        Ok(prepared) => prepared,
        // Another program has taken the GPU's memory meanwhile.
        Err(error) if error.cause() == Cause::Memory => {
            return Ok(Message::Refused { reason: no_memory_left(error) });
        }
        Err(SessionError::Lacking(reason)) => return Ok(Message::Refused { reason }),
        Err(error) => return Err(error),
    };

    let mut measurement = MeasuredProblem {
        prepared,
        candidates: &candidates,
        launchables: candidates.iter().map(|candidate| (candidate.number, candidate.launchable)).collect(),
        looks: Vec::new(),
        grouped: false,
        results,
        report,
    };
    measurement.first_look(if request.careful { 1 } else { CHUNK })?;
    let Some(best) = measurement.best() else { return Ok(Message::Measured(measurement.results)) };
    measurement.grouped = measurement.prepared.takes_turns() && best < GROUPED_BELOW_NS;
    if measurement.grouped {
        measurement.look_in_groups(best)?;
    }
    let near = measurement.thorough()?;
    let best = measurement.best().unwrap_or(best);
    let rest: Vec<(usize, u64)> =
        measurement.looks.iter().copied().filter(|(number, _)| !near.contains(number)).collect();
    measurement.look_again(&rest, best)?;

    let MeasuredProblem { mut results, prepared, .. } = measurement;
    results.timed.sort_unstable_by_key(|(number, _)| *number);
    results.failed.sort_unstable_by_key(|(number, _)| *number);
    let state = prepared.session.management.as_ref().map(|library| library.state()).unwrap_or_default();
    let Spent { busy_ns, late } = prepared.session.queue.spent;
    results.quality = Quality {
        busy_ns,
        wall_ns: began.elapsed().as_nanos() as u64,
        late,
        power_capped: state.throttled.is_some_and(|throttled| throttled.by_power_cap),
        ..results.quality
    };
    Ok(Message::Measured(results))
}

/// The reason for refusing a problem that would fit on the GPU, but not beside what other programs
/// hold now.
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

/// Receives messages about the progress.
type Report<'a> = dyn FnMut(Message) -> anyhow::Result<()> + 'a;

/// One problem, from the first look at its configs to their times.
struct MeasuredProblem<'a> {
    prepared: PreparedProblem<'a>,
    candidates: &'a [LaunchableConfig],
    /// What to launch for a config, by its number in the request.
    launchables: HashMap<usize, Launchable>,
    /// The configs that run, by number, with the nanoseconds that they took in their looks.
    looks: Vec<(usize, u64)>,
    /// Whether launches are so short that a group of them is timed together.
    grouped: bool,
    results: Results,
    report: &'a mut Report<'a>,
}

impl<'a> MeasuredProblem<'a> {
    /// The shortest time among the looks.
    fn best(&self) -> Option<u64> {
        self.looks.iter().map(|&(_, nanos)| nanos).min()
    }

    fn say(&mut self, event: Message) -> Result<(), SessionError> {
        Ok((self.report)(event)?)
    }
}

/// The copies of the inputs that the launches of a second look at a short kernel take.
const SECOND_LOOKS: [Range<u64>; 3] = [0..1, 1..2, 2..3];
/// One group of launches, on every copy.
const GROUP: Range<u64> = 0..TURNS;
/// The launches of a config that is neither near the best nor far slower.
const MORE_LAUNCHES: [Range<u64>; 2] = [0..1, 1..2];
/// How many configs are launched before the host waits for the GPU. Their kernels are loaded together.
const CHUNK: usize = 64;

const _: () = assert!(CHUNK <= MOST_LOADED && CHUNK * SECOND_LOOKS.len() <= MOST_QUEUED);

impl MeasuredProblem<'_> {
    /// Times one launch of every config that can be launched, and more launches of short kernels. The result of a
    /// kernel is checked first if it was never checked before.
    fn first_look(&mut self, chunk: usize) -> Result<(), SessionError> {
        let mut checked = Vec::new();
        for part in self.candidates.chunks(chunk) {
            self.say(Message::Busy)?;
            let part = self.load(part)?;
            if let (Some(first), Some(last)) = (part.first(), part.last()) {
                self.say(Message::At { first: first.number, last: last.number })?;
                let launched = self.look_at(&part, &mut checked)?;
                self.second_look(launched)?;
            }
        }
        let wrong = self.prepared.wrong_elements()?;
        for candidate in checked {
            if wrong[candidate.number] > 0 {
                self.results.failed.push((candidate.number, FailureReason::WrongResult));
            } else {
                self.prepared.set_verified(candidate.launchable);
            }
        }
        self.looks.retain(|&(number, _)| wrong[number] == 0);
        Ok(())
    }

    /// Loads the kernels of some configs. Returns the configs that the driver does not refuse.
    fn load(&mut self, part: &[LaunchableConfig]) -> Result<Vec<LaunchableConfig>, SessionError> {
        let refused = self.prepared.session.load(part.iter().map(|candidate| candidate.launchable))?;
        let mut loaded = Vec::new();
        for &candidate in part {
            let Launchable::Kernel(slot, _) = candidate.launchable else {
                loaded.push(candidate);
                continue;
            };
            match refused.iter().find(|(refused, _)| *refused == slot) {
                Some((_, reason)) => self.results.failed.push((candidate.number, *reason)),
                None => loaded.push(candidate),
            }
        }
        Ok(loaded)
    }

    /// Launches some configs and waits for them. Returns the configs that launched, with their times. Configs
    /// whose results are compared are added to `checked`.
    fn look_at(
        &mut self,
        part: &[LaunchableConfig],
        checked: &mut Vec<LaunchableConfig>,
    ) -> Result<Vec<(usize, u64)>, SessionError> {
        let mut launched = Vec::new();
        for &candidate in part {
            if !self.prepared.is_verified(candidate.launchable) {
                if let Some(reason) = refusal(self.prepared.queue_check(candidate))? {
                    self.results.failed.push((candidate.number, reason));
                    continue;
                }
                checked.push(candidate);
            }
            match refusal(self.prepared.time(candidate.launchable, 1..2))? {
                Some(reason) => self.results.failed.push((candidate.number, reason)),
                None => launched.push(candidate.number),
            }
        }
        let times = self.prepared.collect()?;
        Ok(launched.into_iter().zip(times).collect())
    }

    /// Launches short kernels again. A kernel's first launch also fetches its code, which takes about as long as a
    /// short kernel runs. So the median of the further launches counts. A kernel that is far slower than the best
    /// keeps its first time.
    fn second_look(&mut self, mut looks: Vec<(usize, u64)>) -> Result<(), SessionError> {
        let best = self.looks.iter().chain(&looks).map(|&(_, nanos)| nanos).min().unwrap_or(u64::MAX);
        let mut short: Vec<&mut (usize, u64)> =
            looks.iter_mut().filter(|(_, nanos)| timing::worth_a_second_look(*nanos, best)).collect();
        let numbers: Vec<usize> = short.iter().map(|look| look.0).collect();
        let times = self.time_each(&numbers, &SECOND_LOOKS, true)?;
        short.iter_mut().zip(times).for_each(|(look, times)| look.1 = timing::median(&times));
        self.looks.extend(looks);
        Ok(())
    }

    /// Looks at very short kernels again, with many launches between two events.
    fn look_in_groups(&mut self, best: u64) -> Result<(), SessionError> {
        let limit = (best as f64 * WORTH_A_GROUP) as u64;
        let worth: Vec<usize> = (0..self.looks.len()).filter(|&place| self.looks[place].1 <= limit).collect();
        for places in worth.chunks(CHUNK) {
            let numbers: Vec<usize> = places.iter().map(|&place| self.looks[place].0).collect();
            self.load_again(&numbers)?;
            let times = self.time_each(&numbers, &[GROUP], false)?.concat();
            for (&place, nanos) in places.iter().zip(times) {
                self.looks[place].1 = self.prepared.per_launch(nanos);
            }
        }
        Ok(())
    }

    /// Launches configs twice more. A config that is far slower than the best keeps its first time.
    fn look_again(&mut self, rest: &[(usize, u64)], best: u64) -> Result<(), SessionError> {
        let (again, settled): (Vec<_>, Vec<_>) =
            rest.iter().partition(|&&(_, nanos)| !self.grouped && timing::worth_more_launches(nanos, best));
        self.results.timed.extend(settled.into_iter().map(|(number, nanos)| (number, vec![nanos])));
        for part in again.chunks(CHUNK) {
            let numbers: Vec<usize> = part.iter().map(|look| look.0).collect();
            self.load_again(&numbers)?;
            let times = self.time_each(&numbers, &MORE_LAUNCHES, false)?;
            let rows = part.iter().zip(times);
            self.results
                .timed
                .extend(rows.map(|(&(number, first), more)| (number, [vec![first], more].concat())));
        }
        Ok(())
    }

    /// Times configs, each on the same copies of the inputs. With `fetches_code`, an untimed launch of each comes first.
    /// Returns the times of each config.
    fn time_each(
        &mut self,
        numbers: &[usize],
        turns: &[Range<u64>],
        fetches_code: bool,
    ) -> Result<Vec<Vec<u64>>, SessionError> {
        for number in numbers {
            let launchable = self.launchables[number];
            if fetches_code {
                self.prepared.bring_code(launchable, 0)?;
            }
            for turn in turns {
                self.prepared.time(launchable, turn.clone())?;
            }
        }
        Ok(self.prepared.collect()?.chunks(turns.len()).map(<[u64]>::to_vec).collect())
    }

    /// Loads kernels again that were loaded for the same problem before. If one is refused now, something has broken.
    fn load_again(&mut self, numbers: &[usize]) -> Result<(), SessionError> {
        self.say(Message::Busy)?;
        let launchables = numbers.iter().map(|number| self.launchables[number]);
        match self.prepared.session.load(launchables)?.first() {
            None => Ok(()),
            Some((_, reason)) => {
                Err(anyhow::anyhow!("a kernel that ran cannot be loaded again: {reason}").into())
            }
        }
    }
}

/// The reason why a config could not be launched. Errors that concern the whole process are passed on.
fn refusal(launched: Result<(), SessionError>) -> Result<Option<FailureReason>, SessionError> {
    match launched {
        Ok(()) => Ok(None),
        Err(SessionError::Driver(error)) if error.is_sticky() => Err(error.into()),
        Err(SessionError::Driver(error)) if error.is_out_of_resources() => {
            Ok(Some(FailureReason::OutOfResources))
        }
        // The registers that a kernel spills take memory on all processors at once.
        Err(SessionError::Driver(error)) if error.is_out_of_memory() => Ok(Some(FailureReason::OutOfMemory)),
        Err(SessionError::Driver(_) | SessionError::Library(LibraryError::Refused { .. })) => {
            Ok(Some(FailureReason::Launch))
        }
        Err(error) => Err(error),
    }
}

/// How often a disturbed problem is measured again.
const SECOND_CHANCES: u32 = 2;

/// One round over the near-best configs.
struct Round {
    /// The times that have been read, by the config's place among the near-best.
    times: Vec<Vec<u64>>,
    /// The places of the launches whose times have not been read yet, in the order of the launches.
    queued: Vec<usize>,
}

impl MeasuredProblem<'_> {
    /// Times the near-best configs in rounds until the rounds agree. Returns the numbers of these
    /// configs.
    fn thorough(&mut self) -> Result<Vec<usize>, SessionError> {
        let mut near = timing::near_best(&self.looks);
        // cuBLAS is always included, with and without rounding, because every kernel is compared with it.
        let libraries = self.candidates.iter().filter(|candidate| candidate.launchable.is_library());
        for library in libraries.map(|candidate| candidate.number) {
            if self.looks.iter().any(|(number, _)| *number == library) && !near.contains(&library) {
                near.push(library);
            }
        }
        self.load_again(&near)?;
        let checked = near.clone();
        self.keep_right_ones(&mut near)?;

        let looks = self.looks.iter().filter(|(number, _)| near.contains(number));
        let sum: u64 = looks.map(|(_, nanos)| nanos).sum();
        let launches = if self.grouped { 2 } else { timing::per_round(sum, near.len()) };
        loop {
            let mut rounds = Vec::new();
            for number in 0..ROUNDS {
                rounds.push(self.round(&near, launches, number)?);
            }
            let throttled =
                self.prepared.session.management.as_ref().and_then(|library| library.state().throttled);
            let disturbed =
                !timing::is_steady(&rounds) || throttled.is_some_and(|throttled| throttled.by_fault);
            if disturbed && self.results.repeated < SECOND_CHANCES {
                self.results.repeated += 1;
                continue;
            }
            self.results.quality.disturbed = disturbed;
            let times =
                |place: usize| rounds.iter().flat_map(|round| round[place].clone()).collect::<Vec<u64>>();
            self.results.timed.extend(near.iter().enumerate().map(|(place, number)| (*number, times(place))));
            return Ok(checked);
        }
    }

    /// Compares the results of the near-best configs. A config with a wrong result becomes a failure.
    fn keep_right_ones(&mut self, near: &mut Vec<usize>) -> Result<(), SessionError> {
        for &number in near.iter() {
            self.prepared.queue_check(LaunchableConfig { number, launchable: self.launchables[&number] })?;
        }
        let wrong = self.prepared.wrong_elements()?;
        let failures = near.iter().filter(|&&number| wrong[number] > 0);
        self.results.failed.extend(failures.map(|&number| (number, FailureReason::WrongResult)));
        near.retain(|&number| wrong[number] == 0);
        Ok(())
    }

    /// Launches each config `launches` times, one config after the other. Returns the times of each
    /// config.
    fn round(
        &mut self,
        near: &[usize],
        launches: usize,
        number: usize,
    ) -> Result<Vec<Vec<u64>>, SessionError> {
        let mut round = Round { times: vec![Vec::new(); near.len()], queued: Vec::new() };
        // Each round starts at another config, so that no config is always the first.
        let order = (0..near.len()).map(|place| (place + number * near.len() / ROUNDS) % near.len());
        let code_counts = self.best().is_none_or(|best| best < CODE_COUNTS_BELOW_NS);
        for place in order {
            if self.prepared.session.queue.room() < launches {
                self.say(Message::Busy)?;
                self.settle(&mut round)?;
            }
            let launchable = self.launchables[&near[place]];
            let first = (number * launches) as u64;
            // An untimed launch brings the kernel's code back, which the kernel before has pushed
            // out.
            if code_counts {
                self.prepared.bring_code(launchable, first)?;
            }
            for turn in first..first + launches as u64 {
                let turns = if self.grouped { 0..TURNS } else { turn..turn + 1 };
                self.prepared.time(launchable, turns)?;
                round.queued.push(place);
            }
        }
        self.settle(&mut round)?;
        Ok(round.times)
    }

    /// Waits for the queued launches and reads their times.
    fn settle(&mut self, round: &mut Round) -> Result<(), SessionError> {
        let collected = self.prepared.collect()?;
        for (place, nanos) in round.queued.drain(..).zip(collected) {
            let nanos = if self.grouped { self.prepared.per_launch(nanos) } else { nanos };
            round.times[place].push(nanos);
        }
        Ok(())
    }
}
