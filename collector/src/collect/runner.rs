//! Measures problems on devices side by side. Each device takes the next problem when it is free.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use diode_core::{Config, Method, Problem};

use super::collection::Collection;
use crate::devices::meter::{Meter, Outcome};
use crate::interrupt::Interrupt;
use crate::output::progress::Progress;

/// What is to be measured, and when to stop.
pub(crate) struct Runner<'a> {
    pub(crate) problems: &'a [Problem],
    /// The configs to time on a problem.
    pub(crate) configs: &'a (dyn Fn(&Problem) -> anyhow::Result<Vec<Config>> + Sync),
    /// No further problem is begun after this time.
    pub(crate) budget: Option<Duration>,
    pub(crate) interrupt: &'a Interrupt,
}

/// The result of a run.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) measured: usize,
    pub(crate) already_there: usize,
    pub(crate) skipped: usize,
    pub(crate) configs: usize,
    pub(crate) failures: BTreeMap<String, usize>,
    /// Problems on which the GPU was still disturbed at the last attempt.
    pub(crate) disturbed: usize,
    /// Problems on which the power limit held the clocks down.
    pub(crate) power_capped: usize,
    /// How often a launch may have come too late and kept the GPU waiting. Such a launch is timed
    /// again, a few times at most.
    pub(crate) late: usize,
    /// How long the GPUs were in kernels (`busy`), and how long they measured in all (`device`).
    pub(crate) busy: Duration,
    pub(crate) device: Duration,
    /// Problems in the output at the end.
    pub(crate) in_file: usize,
    pub(crate) stopped: Option<&'static str>,
    pub(crate) elapsed: Duration,
}

/// A problem that a device has finished, and its outcome.
struct Finished<'a> {
    problem: &'a Problem,
    method: Method,
    outcome: anyhow::Result<Outcome>,
}

impl Runner<'_> {
    /// Measures every problem that the collection does not hold yet. The collection also keeps what
    /// was measured before an error.
    pub(crate) fn run(
        &self,
        meters: Vec<Box<dyn Meter>>,
        collection: &mut Collection,
    ) -> anyhow::Result<Tally> {
        let (todo, there): (Vec<&Problem>, Vec<&Problem>) =
            self.problems.iter().partition(|problem| !collection.contains(problem));
        let mut tally = Tally { already_there: there.len(), ..Tally::default() };
        let began = Instant::now();
        let deadline = self.budget.and_then(|budget| began.checked_add(budget));
        let next = AtomicUsize::new(0);
        let stop = AtomicBool::new(false);
        let error = thread::scope(|scope| {
            let (sender, finished) = channel();
            for meter in meters {
                let (sender, todo, next, stop) = (sender.clone(), &todo, &next, &stop);
                let may_go_on = move || {
                    let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                    !late && !stop.load(Ordering::Relaxed) && !self.interrupt.requested()
                };
                scope.spawn(move || self.work(meter, todo, next, &may_go_on, &sender));
            }
            drop(sender);
            let result = self.gather(&finished, todo.len(), collection, &mut tally);
            stop.store(true, Ordering::Relaxed);
            // Devices that are still busy finish their problem. Its result is dropped.
            drop(finished);
            result.err()
        });
        tally.elapsed = began.elapsed();
        if self.interrupt.requested() {
            tally.stopped = Some("interrupted");
        } else if next.load(Ordering::Relaxed) < todo.len() && deadline.is_some() {
            tally.stopped = Some("the budget is spent");
        }
        match error {
            None => Ok(tally),
            Some(error) => Err(error),
        }
    }

    /// Measures on one device until no problem is left for it.
    fn work<'p>(
        &self,
        mut meter: Box<dyn Meter>,
        todo: &[&'p Problem],
        next: &AtomicUsize,
        may_go_on: &dyn Fn() -> bool,
        finished: &Sender<Finished<'p>>,
    ) {
        while may_go_on() {
            let Some(&problem) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
            let outcome = (self.configs)(problem)
                .and_then(|configs| meter.measure(problem, &configs, &|| self.interrupt.insisted()));
            if finished.send(Finished { problem, method: meter.method(), outcome }).is_err() {
                break;
            }
        }
    }

    fn gather(
        &self,
        finished: &Receiver<Finished<'_>>,
        total: usize,
        collection: &mut Collection,
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut progress = Progress::new(total as u64, "problems");
        progress.set(0, "");
        let began = Instant::now();
        for (done, Finished { problem, method, outcome }) in (1..).zip(finished.iter()) {
            match outcome? {
                Outcome::Measured { measured, quality } => {
                    tally.configs += measured.timed.len();
                    for (_, reason) in &measured.failed {
                        *tally.failures.entry(reason.to_string()).or_default() += 1;
                    }
                    tally.measured += 1;
                    tally.disturbed += usize::from(quality.disturbed);
                    tally.power_capped += usize::from(quality.power_capped);
                    tally.late += quality.late as usize;
                    tally.busy += Duration::from_nanos(quality.busy_ns);
                    tally.device += Duration::from_nanos(quality.wall_ns);
                    collection.add(problem.clone(), method, measured)?;
                }
                Outcome::Refused(reason) => {
                    progress.say(&format!("skipped {} {}: {reason}", problem.op, problem.dims()));
                    tally.skipped += 1;
                }
                Outcome::Abandoned => {}
            }
            let rate = tally.configs as f64 / began.elapsed().as_secs_f64();
            progress.set(done, &format!("{rate:.0} timings/s · {} {}", problem.op, problem.dims()));
        }
        progress.finish();
        Ok(())
    }
}
