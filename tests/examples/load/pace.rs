//! Requests at a fixed rate, or as many as the server answers.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::answers::Answers;
use crate::connection::{Connection, Request};

/// The number of connections at the fixed rate. It is larger than the number of answers that are ever under way.
const MANY: usize = 48;

/// The number of connections that send requests without a pause.
const FEW: usize = 8;

/// Sends requests at a fixed rate, whether the server keeps up or not. A time counts from the moment when the request
/// was due, so a delay of the server counts for every request that waits.
pub(crate) fn at_rate(
    url: &str,
    requests: &[Request],
    rate: f64,
    time: Duration,
    status: u16,
) -> anyhow::Result<Answers> {
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    let last = (rate * time.as_secs_f64()) as usize;
    on_threads(MANY, || {
        let (mut connection, mut answers) = (Connection::new(url), Answers::default());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= last {
                return answers;
            }
            let due = start + Duration::from_secs_f64(number as f64 / rate);
            thread::sleep(due.saturating_duration_since(Instant::now()));
            ask(&mut connection, &requests[number % requests.len()], status, due, &mut answers);
        }
    })
}

/// Sends the next request of each connection as soon as its last answer is there.
pub(crate) fn without_pause(
    url: &str,
    requests: &[Request],
    time: Duration,
    status: u16,
) -> anyhow::Result<Answers> {
    let (start, next) = (Instant::now(), AtomicUsize::new(0));
    on_threads(FEW, || {
        let (mut connection, mut answers) = (Connection::new(url), Answers::default());
        while start.elapsed() < time {
            let number = next.fetch_add(1, Ordering::Relaxed);
            ask(&mut connection, &requests[number % requests.len()], status, Instant::now(), &mut answers);
        }
        answers
    })
}

fn ask(connection: &mut Connection, request: &Request, status: u16, due: Instant, answers: &mut Answers) {
    match connection.get(request) {
        Ok(answer) if answer.status == status => answers.add(due.elapsed()),
        _ => answers.failed += 1,
    }
}

fn on_threads(count: usize, work: impl Fn() -> Answers + Sync) -> anyhow::Result<Answers> {
    let mut all = Answers::default();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
        for thread in threads {
            all.merge(thread.join().ok().context("a thread of requests has panicked")?);
        }
        anyhow::Ok(())
    })?;
    Ok(all.sorted())
}
