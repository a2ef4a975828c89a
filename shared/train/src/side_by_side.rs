//! Runs several jobs at a time. Their reports go to one observer.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

use crate::progress::{Observer, Progress};

/// Runs jobs on as many threads as there are cores. The observer gets their reports one by one, on the
/// caller's thread. After it has stopped one job, each other job is stopped at its next report, and no further
/// job begins.
///
/// Jobs begin in their order, and the results are in this order, too. Those of jobs that never began are
/// missing at the end. The first job always begins.
pub(crate) fn side_by_side<J, T>(jobs: Vec<J>, observe: Observer<'_>) -> Vec<T>
where
    J: FnOnce(Observer<'_>) -> T + Send,
    T: Send,
{
    let threads = thread::available_parallelism().map_or(1, usize::from).min(jobs.len());
    let jobs: Mutex<VecDeque<(usize, J)>> = Mutex::new(jobs.into_iter().enumerate().collect());
    let results = Mutex::new(Vec::new());
    let (send, reports) = mpsc::channel::<Report>();
    let stopped = AtomicBool::new(false);
    thread::scope(|scope| {
        for _ in 0..threads {
            let send = send.clone();
            scope.spawn(|| {
                let send = send;
                // `next` releases the queue before it returns, so that the queue is free while the job
                // runs.
                while !stopped.load(Ordering::Relaxed)
                    && let Some((place, job)) = next(&jobs)
                {
                    let result = job(&mut |progress| ask(&send, progress));
                    lock(&results).push((place, result));
                }
            });
        }
        drop(send);
        let mut answer = ControlFlow::Continue(());
        for report in reports {
            if answer.is_continue() {
                answer = observe(&report.progress);
                stopped.store(answer.is_break(), Ordering::Relaxed);
            }
            // A job that has panicked receives no answer.
            let _ = report.answer.send(answer);
        }
    });
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(place, _)| *place);
    results.into_iter().map(|(_, result)| result).collect()
}

/// A job's report, and where the job waits for the answer.
struct Report {
    progress: Progress,
    answer: mpsc::Sender<ControlFlow<()>>,
}

/// Sends a report, and waits for the answer.
fn ask(send: &mpsc::Sender<Report>, progress: &Progress) -> ControlFlow<()> {
    let (answer, answered) = mpsc::channel();
    let sent = send.send(Report { progress: progress.clone(), answer });
    // If the observer has panicked, nobody will use the results.
    sent.ok().and_then(|()| answered.recv().ok()).unwrap_or(ControlFlow::Break(()))
}

fn next<J>(jobs: &Mutex<VecDeque<J>>) -> Option<J> {
    lock(jobs).pop_front()
}

/// `thread::scope` passes a panic on. The locked value is still valid, so poisoning is ignored.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

    use super::*;

    fn step(epoch: usize) -> Progress {
        Progress::Epoch { phase: "test".to_owned(), phases: 1, epoch, epochs: 9, loss: 0.0 }
    }

    #[test]
    fn results_are_in_the_order_of_jobs_and_every_report_is_heard() {
        let jobs: Vec<_> = (0..9).map(|n| move |tell: Observer<'_>| (n, tell(&step(n)))).collect();
        let mut heard = Vec::new();
        let results = side_by_side(jobs, &mut |progress| {
            heard.push(progress.clone());
            ControlFlow::Continue(())
        });
        assert!(results.into_iter().eq((0..9).map(|n| (n, ControlFlow::Continue(())))));
        assert!((0..9).all(|n| heard.contains(&step(n))));
    }

    #[test]
    fn who_stops_one_stops_all() {
        let jobs: Vec<_> =
            (0..4).map(|n| move |tell: Observer<'_>| (tell(&step(n)), tell(&step(n)))).collect();
        let mut heard = 0;
        let results = side_by_side(jobs, &mut |_| {
            heard += 1;
            ControlFlow::Break(())
        });
        assert_eq!(heard, 1);
        assert!(!results.is_empty());
        assert!(results.into_iter().all(|(_, last)| last.is_break()));
    }

    #[test]
    fn after_a_stop_no_job_begins() {
        let begun = AtomicUsize::new(0);
        let jobs: Vec<_> = (0..1000)
            .map(|n| {
                let begun = &begun;
                move |tell: Observer<'_>| {
                    begun.fetch_add(1, Ordering::Relaxed);
                    (n, tell(&step(n)))
                }
            })
            .collect();
        let results = side_by_side(jobs, &mut |_| ControlFlow::Break(()));
        let threads = thread::available_parallelism().map_or(1, usize::from);
        assert!(begun.into_inner() <= threads, "each thread ends after the job that was stopped");
        assert!(results.iter().map(|(n, _)| *n).eq(0..results.len()), "those that began are the first");
    }

    #[test]
    fn no_jobs_are_no_results() {
        let none: Vec<fn(Observer<'_>) -> u8> = Vec::new();
        assert!(side_by_side(none, &mut |_| ControlFlow::Continue(())).is_empty());
    }
}
