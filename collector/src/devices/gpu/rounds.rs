//! Rounds over the near-best configs.

use diode_core::FailureReason;

use super::measured_problem::MeasuredProblem;
use super::policy::{self, CODE_COUNTS_BELOW_NS, ROUNDS};
use super::protocol::Message;
use super::session::LaunchableConfig;
use super::session_error::SessionError;

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
    pub(super) fn thorough(&mut self) -> Result<Vec<usize>, SessionError> {
        let mut near = policy::near_best(&self.looks);
        // The library is always included, with and without rounding, because every kernel is compared with it.
        let libraries = self.candidates.iter().filter(|candidate| candidate.launchable.is_library());
        for library in libraries.map(|candidate| candidate.number) {
            if self.looks.iter().any(|(number, _)| *number == library) && !near.contains(&library) {
                near.push(library);
            }
        }
        self.say(Message::Busy)?;
        self.load_again(near.iter().copied())?;
        let checked = near.clone();
        self.keep_right_ones(&mut near)?;

        let looks = self.looks.iter().filter(|(number, _)| near.contains(number));
        let sum: u64 = looks.map(|(_, nanos)| nanos).sum();
        let launches = if self.grouped { 2 } else { policy::per_round(sum, near.len()) };
        loop {
            let mut rounds = Vec::new();
            for number in 0..ROUNDS {
                rounds.push(self.round(&near, launches, number)?);
            }
            let throttled =
                self.prepared.session.management.as_ref().and_then(|library| library.state().throttled);
            let disturbed =
                !policy::is_steady(&rounds) || throttled.is_some_and(|throttled| throttled.by_trouble);
            if disturbed && self.results.repeated < SECOND_CHANCES {
                self.results.repeated += 1;
                continue;
            }
            self.results.disturbed = disturbed;
            let times =
                |place: usize| rounds.iter().flat_map(|round| round[place].clone()).collect::<Vec<u64>>();
            self.results.timed.extend(near.iter().enumerate().map(|(place, number)| (*number, times(place))));
            return Ok(checked);
        }
    }

    /// Compares the results of the near-best configs. A config with a wrong result becomes a failure.
    fn keep_right_ones(&mut self, near: &mut Vec<usize>) -> Result<(), SessionError> {
        self.prepared.forget_wrong_elements()?;
        for &number in near.iter() {
            let Some(launchable) = self.launchables.get(number) else { continue };
            self.prepared.queue_check(LaunchableConfig { number, launchable })?;
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
            let Some(launchable) = self.launchables.get(near[place]) else { continue };
            let first = (number * launches) as u64;
            // An untimed launch brings the kernel's code back, which the kernel before has pushed
            // out.
            if code_counts {
                self.prepared.bring_code(launchable, first)?;
            }
            for launch in 0..launches as u64 {
                if self.grouped {
                    self.prepared.time_group(launchable)?;
                } else {
                    self.prepared.time(launchable, first + launch)?;
                }
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
