use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::ensure;
use diode_api::{Coverage, LeasedProblem, Purpose};
use diode_core::ids::{HardwareSlug, ProblemId};

/// The hardware, the problem, and whether it was handed out for confirmation.
type Handed = (HardwareSlug, ProblemId, bool);

/// What the agents have counted.
#[derive(Default)]
pub(crate) struct Tally(Mutex<Counts>);

#[derive(Default)]
struct Counts {
    leases: Vec<Duration>,
    deliveries: Vec<Duration>,
    bytes: usize,
    /// How often agents got no work, and how long they were told to wait.
    idle: usize,
    idle_seconds: u64,
    busy: usize,
    broken_off: usize,
    /// For each problem, its receivers: `true` for an agent with an account, `false` for one without.
    handed: HashMap<Handed, Vec<bool>>,
    accepted: HashSet<Handed>,
    problems: usize,
}

impl Tally {
    pub(crate) fn leased(&self, took: Duration) {
        self.counts().leases.push(took);
    }

    pub(crate) fn idle(&self, seconds: u64) {
        let mut counts = self.counts();
        counts.idle += 1;
        counts.idle_seconds += seconds;
    }

    pub(crate) fn handed_out(&self, hardware: &HardwareSlug, contributor: bool, work: &[LeasedProblem]) {
        let mut counts = self.counts();
        for work in work {
            counts.handed.entry(handed(hardware, work)).or_default().push(contributor);
        }
    }

    /// The unmeasured problems of a lease may be handed out again.
    pub(crate) fn given_back(&self, hardware: &HardwareSlug, work: &[LeasedProblem]) {
        let mut counts = self.counts();
        for work in work {
            let handed = handed(hardware, work);
            if !counts.accepted.contains(&handed) {
                counts.handed.remove(&handed);
            }
        }
    }

    /// Counts an answer that told the agent to try again later.
    pub(crate) fn busy(&self) {
        self.counts().busy += 1;
    }

    /// Counts a connection that ended before an answer came.
    pub(crate) fn broken_off(&self) {
        self.counts().broken_off += 1;
    }

    pub(crate) fn accepted(
        &self,
        hardware: &HardwareSlug,
        work: &LeasedProblem,
        bytes: usize,
        took: Duration,
    ) {
        let mut counts = self.counts();
        counts.deliveries.push(took);
        counts.bytes += bytes;
        counts.problems += usize::from(work.purpose != Purpose::Confirm);
        counts.accepted.insert(handed(hardware, work));
    }

    /// Fails if a problem was measured twice without a confirmation being due, or if a result is missing.
    pub(crate) fn check(&self, coverage: &[Coverage]) -> anyhow::Result<()> {
        let counts = self.counts();
        for (handed, contributors) in &counts.handed {
            ensure!(contributors.len() == 1, "{handed:?} was handed out {} times", contributors.len());
            let (hardware, problem, is_confirmation) = handed;
            let first = counts.handed.get(&(hardware.clone(), problem.clone(), false));
            let by_another = first.is_some_and(|first| first != contributors);
            ensure!(!is_confirmation || by_another, "{handed:?} confirms what the same contributor measured");
        }
        let sum = |number: fn(&Coverage) -> u64| coverage.iter().map(number).sum::<u64>() as usize;
        let (problems, confirmed) = (sum(|part| part.problems), sum(|part| part.confirmed));
        let confirmations = counts.accepted.len() - counts.problems;
        ensure!(problems == counts.problems, "{} problems were sent, {problems} are there", counts.problems);
        ensure!(confirmed == confirmations, "{confirmations} confirmations were sent, {confirmed} are there");
        ensure!(sum(|part| part.leased) == 0, "something is still leased");
        Ok(())
    }

    pub(crate) fn report(&self, seconds: f64) -> String {
        let mut counts = self.counts();
        let leases = spread(&mut counts.leases);
        let deliveries = spread(&mut counts.deliveries);
        let results = counts.accepted.len();
        format!(
            "leases: {}, {:.1} a second; {leases} (goal: p99 50 ms)\n\
             results accepted: {results}, {:.1} a second, {:.1} KB each; {deliveries}\n\
             {} of them confirmations; no problem handed out twice\n\
             agents without work: {} times, {} s in all\n\
             told to try again: {} times; connections that broke off: {}",
            counts.leases.len(),
            counts.leases.len() as f64 / seconds,
            results as f64 / seconds,
            counts.bytes as f64 / results.max(1) as f64 / 1e3,
            results - counts.problems,
            counts.idle,
            counts.idle_seconds,
            counts.busy,
            counts.broken_off,
        )
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        // A poisoned lock is safe to use: every change of the counts is complete when it is made.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn handed(hardware: &HardwareSlug, work: &LeasedProblem) -> Handed {
    (hardware.clone(), work.problem.id(), work.purpose == Purpose::Confirm)
}

fn spread(times: &mut [Duration]) -> String {
    times.sort_unstable();
    let at = |share: f64| {
        let place = (times.len() as f64 * share) as usize;
        times.get(place.min(times.len().saturating_sub(1))).map_or(0.0, |time| 1e3 * time.as_secs_f64())
    };
    format!("p50 {:.1} ms, p99 {:.1} ms, longest {:.1} ms", at(0.5), at(0.99), at(1.0))
}
