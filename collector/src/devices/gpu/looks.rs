//! Looks at every config, to find the configs that deserve more launches.

use diode_core::FailureReason;

use super::library::LibraryError;
use super::measured_problem::MeasuredProblem;
use super::policy::{self, WORTH_A_GROUP};
use super::protocol::Message;
use super::session::{Launchable, LaunchableConfig};
use super::session_error::SessionError;
use super::store::{KernelSlot, MOST_LOADED};
use super::timing_queue::MOST_QUEUED;

/// How many launches a second look at a short kernel takes.
const SECOND_LOOKS: usize = 3;
/// How many configs are launched before the host waits for the GPU. Their kernels are loaded together.
pub(super) const CHUNK: usize = 64;

const _: () = assert!(CHUNK <= MOST_LOADED && CHUNK * SECOND_LOOKS <= MOST_QUEUED);

impl MeasuredProblem<'_> {
    /// Times one launch of every config that can be launched, and more launches of short kernels. The result of a
    /// kernel is checked first if it was never checked before.
    pub(super) fn first_look(&mut self, chunk: usize) -> Result<(), SessionError> {
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
            } else if let Launchable::Kernel(slot, _) = candidate.launchable {
                self.prepared.session.store.set_verified(slot);
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
            match refusal(self.prepared.time(candidate.launchable, 1))? {
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
        let here = looks.iter().map(|&(_, nanos)| nanos).min();
        let best = self.best().into_iter().chain(here).min().unwrap_or(u64::MAX);
        let mut short: Vec<&mut (usize, u64)> =
            looks.iter_mut().filter(|(_, nanos)| policy::worth_a_second_look(*nanos, best)).collect();
        for (number, _) in short.iter().map(|look| **look) {
            let Some(launchable) = self.launchables.get(number) else { continue };
            self.prepared.bring_code(launchable, 0)?;
            for turn in 0..SECOND_LOOKS {
                self.prepared.time(launchable, turn as u64)?;
            }
        }
        let times = self.prepared.collect()?;
        for (look, times) in short.iter_mut().zip(times.chunks(SECOND_LOOKS)) {
            look.1 = policy::median(times);
        }
        self.looks.extend(looks);
        Ok(())
    }

    /// Looks at very short kernels again, with many launches between two events.
    pub(super) fn look_in_groups(&mut self, best: u64) -> Result<(), SessionError> {
        let limit = (best as f64 * WORTH_A_GROUP) as u64;
        let mut worth: Vec<&mut (usize, u64)> =
            self.looks.iter_mut().filter(|(_, nanos)| *nanos <= limit).collect();
        for part in worth.chunks_mut(CHUNK) {
            (self.report)(Message::Busy)?;
            let launchables = part.iter().filter_map(|look| self.launchables.get(look.0));
            loaded_again(self.prepared.session.load(launchables)?)?;
            for (number, _) in part.iter().map(|look| **look) {
                let Some(launchable) = self.launchables.get(number) else { continue };
                self.prepared.time_group(launchable)?;
            }
            let times = self.prepared.collect()?;
            part.iter_mut().zip(times).for_each(|(look, nanos)| look.1 = self.prepared.per_launch(nanos));
        }
        Ok(())
    }

    /// Launches configs twice more. A config that is far slower than the best keeps its first time.
    pub(super) fn look_again(&mut self, rest: &[(usize, u64)], best: u64) -> Result<(), SessionError> {
        let (again, settled): (Vec<_>, Vec<_>) =
            rest.iter().partition(|&&(_, nanos)| !self.grouped && policy::worth_a_look(nanos, best));
        self.results.timed.extend(settled.into_iter().map(|(number, nanos)| (number, vec![nanos])));
        for part in again.chunks(CHUNK) {
            self.say(Message::Busy)?;
            self.load_again(part.iter().map(|look| look.0))?;
            for &(number, _) in part {
                let Some(launchable) = self.launchables.get(number) else { continue };
                for turn in 0..2 {
                    self.prepared.time(launchable, turn)?;
                }
            }
            let times = self.prepared.collect()?;
            let rows = part.iter().zip(times.chunks(2));
            self.results
                .timed
                .extend(rows.map(|(&(number, first), more)| (number, [&[first], more].concat())));
        }
        Ok(())
    }

    /// Loads kernels again that were loaded for the same problem before.
    pub(super) fn load_again(&mut self, numbers: impl Iterator<Item = usize>) -> Result<(), SessionError> {
        let launchables = numbers.filter_map(|number| self.launchables.get(number));
        loaded_again(self.prepared.session.load(launchables)?)
    }
}

/// Fails if a kernel was refused. It was loaded before, so something has broken.
fn loaded_again(refused: Vec<(KernelSlot, FailureReason)>) -> Result<(), SessionError> {
    match refused.first() {
        None => Ok(()),
        Some((_, reason)) => {
            Err(anyhow::anyhow!("a kernel that ran cannot be loaded again: {reason}").into())
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
