//! A problem that is being measured, and what is known of its configs so far.

use super::prepared::PreparedProblem;
use super::protocol::{Message, Results};
use super::session::{Launchable, LaunchableConfig};
use super::session_error::SessionError;

/// Receives messages about the progress.
pub(super) type Report<'a> = dyn FnMut(Message) -> anyhow::Result<()> + 'a;

/// One problem, from the first look at its configs to their times.
pub(super) struct MeasuredProblem<'a> {
    pub(super) prepared: PreparedProblem<'a>,
    pub(super) candidates: &'a [LaunchableConfig],
    pub(super) launchables: Launchables,
    /// The configs that run, by number, with the nanoseconds that they took in their looks.
    pub(super) looks: Vec<(usize, u64)>,
    /// Whether launches are so short that a group of them is timed together.
    pub(super) grouped: bool,
    pub(super) results: Results,
    pub(super) report: &'a mut Report<'a>,
}

impl<'a> MeasuredProblem<'a> {
    /// `results` already has the failures of configs that are no candidates.
    pub(super) fn new(
        prepared: PreparedProblem<'a>,
        candidates: &'a [LaunchableConfig],
        results: Results,
        report: &'a mut Report<'a>,
    ) -> Self {
        let launchables = Launchables::of(candidates);
        Self { prepared, candidates, launchables, looks: Vec::new(), grouped: false, results, report }
    }

    /// The shortest time among the looks.
    pub(super) fn best(&self) -> Option<u64> {
        self.looks.iter().map(|&(_, nanos)| nanos).min()
    }

    pub(super) fn say(&mut self, event: Message) -> Result<(), SessionError> {
        Ok((self.report)(event)?)
    }
}

/// What to launch for a config, by its number in the request.
pub(super) struct Launchables(Vec<Option<Launchable>>);

impl Launchables {
    fn of(candidates: &[LaunchableConfig]) -> Self {
        let most = candidates.iter().map(|candidate| candidate.number + 1).max().unwrap_or(0);
        let mut table = vec![None; most];
        for candidate in candidates {
            table[candidate.number] = Some(candidate.launchable);
        }
        Self(table)
    }

    pub(super) fn get(&self, number: usize) -> Option<Launchable> {
        self.0.get(number).copied().flatten()
    }
}
