//! Timing launches: each with a cold cache, all queued before the first ends.

use super::cuda::driver::{Event, Gpu, Memory, Result};
use super::policy;

/// Pairs of events; so many launches are queued before anybody waits.
pub(super) const MOST_QUEUED: usize = 512;
/// Flushes before the first launch of a batch: a head start for this side, so
/// that the GPU is never kept waiting between two events.
const HEAD_START: usize = 8;

/// Times what is launched between [`Queue::start`] and [`Queue::stop`].
pub(super) struct Queue {
    events: Vec<(Event, Event)>,
    used: usize,
    /// As large as the last-level cache: filling it leaves nothing else in there.
    flush: Memory,
    /// What one flush takes.
    flush_ns: u64,
    /// What the GPU has spent so far.
    pub(super) spent: Spent,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    pub(super) kernel_ns: u64,
    pub(super) flush_ns: u64,
}

impl Queue {
    pub(super) fn new(gpu: &Gpu, cache_bytes: u64) -> Result<Self> {
        let events = (0..MOST_QUEUED).map(|_| Ok((gpu.event()?, gpu.event()?))).collect::<Result<_>>()?;
        let flush = gpu.allocate(cache_bytes)?;
        let mut queue = Self { events, used: 0, flush, flush_ns: 0, spent: Spent::default() };
        let mut samples = Vec::new();
        for _ in 0..9 {
            let (before, after) = &queue.events[0];
            gpu.fill(&queue.flush, 0)?;
            gpu.record(before)?;
            gpu.fill(&queue.flush, 0)?;
            gpu.record(after)?;
            gpu.synchronize()?;
            samples.push(nanos(gpu.elapsed(before, after)?));
        }
        queue.flush_ns = policy::median(&samples);
        Ok(queue)
    }

    /// Room for this many more timed launches.
    pub(super) fn room(&self) -> usize {
        self.events.len() - self.used
    }

    /// Empties the cache and takes the time. The first of a batch waits for a
    /// few more flushes, in which the rest is queued.
    pub(super) fn start(&mut self, gpu: &Gpu) -> Result<()> {
        let flushes = if self.used == 0 { HEAD_START } else { 1 };
        for _ in 0..flushes {
            gpu.fill(&self.flush, 0)?;
        }
        self.spent.flush_ns += self.flush_ns * flushes as u64;
        gpu.record(&self.events[self.used].0)
    }

    /// Keeps the GPU busy for about this long, while this side prepares.
    pub(super) fn delay(&mut self, gpu: &Gpu, nanos: u64) -> Result<()> {
        let flushes = nanos.div_ceil(self.flush_ns.max(1));
        for _ in 0..flushes {
            gpu.fill(&self.flush, 0)?;
        }
        self.spent.flush_ns += self.flush_ns * flushes;
        Ok(())
    }

    /// Takes the time again.
    pub(super) fn stop(&mut self, gpu: &Gpu) -> Result<()> {
        gpu.record(&self.events[self.used].1)?;
        self.used += 1;
        Ok(())
    }

    /// Waits for all, and gives the times in nanoseconds in the order of the starts.
    pub(super) fn collect(&mut self, gpu: &Gpu) -> Result<Vec<u64>> {
        gpu.synchronize()?;
        let pairs = &self.events[..self.used];
        let times =
            pairs.iter().map(|(start, end)| Ok(nanos(gpu.elapsed(start, end)?))).collect::<Result<Vec<_>>>();
        self.used = 0;
        let times = times?;
        self.spent.kernel_ns += times.iter().sum::<u64>();
        Ok(times)
    }
}

/// Zero is no time: a clock that coarse is rounded up to its step.
fn nanos(millis: f32) -> u64 {
    (f64::from(millis) * 1e6).round().max(1.0) as u64
}
