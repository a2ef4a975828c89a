//! Sends uploads, several at the same time.

use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::site::Site;

/// The number of uploads that a server stores at the same time.
pub(crate) const SENDERS: usize = 2;

/// Sends the files that an iterator makes. Each sender sends one file after the other. Returns how long this
/// took, including the making of the files.
pub(crate) fn send(
    site: &Site,
    senders: usize,
    files: impl Iterator<Item = anyhow::Result<Vec<u8>>> + Send,
) -> anyhow::Result<Duration> {
    let (files, start) = (Mutex::new(files), Instant::now());
    thread::scope(|scope| {
        let work = || -> anyhow::Result<()> {
            loop {
                let next = files.lock().ok().context("another sender has panicked")?.next();
                let Some(bytes) = next else { return Ok(()) };
                site.upload(&bytes?)?;
            }
        };
        let threads: Vec<_> = (0..senders).map(|_| scope.spawn(work)).collect();
        for thread in threads {
            thread.join().ok().context("a sender has panicked")??;
        }
        Ok(start.elapsed())
    })
}
