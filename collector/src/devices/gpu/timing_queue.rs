//! Timing launches: each with a cold cache, all queued before the first ends.

use super::driver::{Event, Gpu, Memory, Result};
use super::policy;

/// Pairs of events; so many launches are queued before anybody waits.
pub(super) const MOST_QUEUED: usize = 512;
/// Flushes before the first launch of a batch: a head start for this side, so
/// that the GPU is never kept waiting between two events.
const HEAD_START: usize = 8;
/// What clocks may take to rise. The first short problem of a process once took 1.6 times as long without it.
const WARM_UP_NS: u64 = 300_000_000;
/// A launch that the GPU may have waited for is timed again, this often in all.
const ATTEMPTS: u32 = 4;

/// Times what is launched between [`Queue::start`] and [`Queue::stop`].
pub(super) struct Queue {
    events: Vec<(Event, Event)>,
    used: usize,
    /// How often the launch at hand has been timed in vain.
    in_vain: u32,
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
    /// Launches that were timed again, since the GPU may have waited for them.
    pub(super) late: u32,
}

impl Queue {
    pub(super) fn new(gpu: &Gpu, cache_bytes: u64) -> Result<Self> {
        let events = (0..MOST_QUEUED).map(|_| Ok((gpu.event()?, gpu.event()?))).collect::<Result<_>>()?;
        let flush = gpu.allocate(cache_bytes)?;
        let mut queue = Self { events, used: 0, in_vain: 0, flush, flush_ns: 0, spent: Spent::default() };
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
    /// few more flushes, in which the rest is queued; so does one that was late.
    pub(super) fn start(&mut self, gpu: &Gpu) -> Result<()> {
        let flushes = if self.used == 0 || self.in_vain > 0 { HEAD_START } else { 1 };
        for _ in 0..flushes {
            gpu.fill(&self.flush, 0)?;
        }
        self.spent.flush_ns += self.flush_ns * flushes as u64;
        gpu.record(&self.events[self.used].0)
    }

    /// Keeps the GPU busy until its clocks have risen from where they were while it was idle.
    pub(super) fn warm_up(&mut self, gpu: &Gpu) -> Result<()> {
        self.delay(gpu, WARM_UP_NS)?;
        gpu.synchronize()
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

    /// Takes the time again. False where this launch is to be started once more: the GPU had
    /// passed the start before all was queued, so it may have waited between the two events.
    pub(super) fn stop(&mut self, gpu: &Gpu) -> Result<bool> {
        let (start, end) = &self.events[self.used];
        gpu.record(end)?;
        let late = gpu.has_passed(start)?;
        self.spent.late += u32::from(late);
        self.in_vain += 1;
        if late && self.in_vain < ATTEMPTS {
            return Ok(false);
        }
        self.in_vain = 0;
        self.used += 1;
        Ok(true)
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
