use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::thread;

/// Does the same work for each input, on `threads` threads. The results have the order of the inputs.
pub(crate) fn side_by_side<I: Send, O: Send>(
    threads: usize,
    inputs: Vec<I>,
    work: impl Fn(I) -> anyhow::Result<O> + Sync,
) -> anyhow::Result<Vec<O>> {
    let queue: Mutex<VecDeque<(usize, I)>> = Mutex::new(inputs.into_iter().enumerate().collect());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let done = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some((place, input)) = next() {
                    let output = work(input);
                    done.lock().unwrap_or_else(PoisonError::into_inner).push((place, output));
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, output)| output).collect()
}
