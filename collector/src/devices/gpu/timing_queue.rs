//! Takes the times of launches: each with a cold cache, all queued before the first ends.

use super::driver::{Event, Gpu, Memory, Result};
use super::policy;

/// Pairs of events: the most launches that are queued before the host waits for them.
pub(super) const MOST_QUEUED: usize = 512;
/// Flushes before the first launch of a batch. They give the host a head start, so that the GPU never waits
/// between two events.
const HEAD_START: usize = 8;
/// How long the clocks may take to rise. Without this wait, the first short problem of a process once took
/// 1.6 times as long.
const WARM_UP_NS: u64 = 300_000_000;
/// How often a launch is timed at most, while the GPU may have waited for it.
const ATTEMPTS: u32 = 4;

/// Times what is launched between [`Queue::start`] and [`Queue::stop`].
pub(super) struct Queue {
    events: Vec<(Event, Event)>,
    used: usize,
    /// Where the work began that the host has not waited for yet, and where it ends.
    batch: (Event, Event),
    /// Whether there is such work.
    begun: bool,
    /// How often the present launch has been timed so far.
    in_vain: u32,
    /// As large as the last-level cache: filling it evicts everything else.
    flush: Memory,
    /// What one flush takes.
    flush_ns: u64,
    /// What the GPU has spent so far.
    pub(super) spent: Spent,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// From the first kernel of each batch to the end of its last.
    pub(super) busy_ns: u64,
    /// Launches that were timed again, since the GPU may have waited for them.
    pub(super) late: u32,
}

impl Queue {
    pub(super) fn new(gpu: &Gpu, cache_bytes: u64) -> Result<Self> {
        let events = (0..MOST_QUEUED).map(|_| Ok((gpu.event()?, gpu.event()?))).collect::<Result<_>>()?;
        let flush = gpu.allocate(cache_bytes)?;
        let batch = (gpu.event()?, gpu.event()?);
        let spent = Spent::default();
        let mut queue = Self { events, used: 0, batch, begun: false, in_vain: 0, flush, flush_ns: 0, spent };
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

    /// Begins another problem: what one before has left unfinished is not counted.
    pub(super) fn begin_problem(&mut self) {
        self.begun = false;
        self.spent = Spent::default();
    }

    /// Notes where a batch of work begins, if none has begun.
    pub(super) fn begin(&mut self, gpu: &Gpu) -> Result<()> {
        if !self.begun {
            gpu.record(&self.batch.0)?;
            self.begun = true;
        }
        Ok(())
    }

    /// Waits for all that is queued.
    pub(super) fn wait(&mut self, gpu: &Gpu) -> Result<()> {
        if !self.begun {
            return gpu.synchronize();
        }
        gpu.record(&self.batch.1)?;
        gpu.synchronize()?;
        self.begun = false;
        self.spent.busy_ns += nanos(gpu.elapsed(&self.batch.0, &self.batch.1)?);
        Ok(())
    }

    /// Empties the cache and records the start event. Before the first launch of a batch, and before one that
    /// was late, it flushes a few times more: meanwhile the host queues the rest.
    pub(super) fn start(&mut self, gpu: &Gpu) -> Result<()> {
        self.begin(gpu)?;
        let flushes = if self.used == 0 || self.in_vain > 0 { HEAD_START } else { 1 };
        for _ in 0..flushes {
            gpu.fill(&self.flush, 0)?;
        }
        gpu.record(&self.events[self.used].0)
    }

    /// Keeps the GPU busy until its clocks have risen from their idle rate.
    pub(super) fn warm_up(&mut self, gpu: &Gpu) -> Result<()> {
        self.delay(gpu, WARM_UP_NS)?;
        self.wait(gpu)
    }

    /// Keeps the GPU busy for about this long, while the host prepares.
    pub(super) fn delay(&mut self, gpu: &Gpu, nanos: u64) -> Result<()> {
        self.begin(gpu)?;
        for _ in 0..nanos.div_ceil(self.flush_ns.max(1)) {
            gpu.fill(&self.flush, 0)?;
        }
        Ok(())
    }

    /// Records the end event. False if this launch must be started again: the GPU had passed the start before
    /// all was queued, so it may have waited between the two events.
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
        self.wait(gpu)?;
        let pairs = &self.events[..self.used];
        let times =
            pairs.iter().map(|(start, end)| Ok(nanos(gpu.elapsed(start, end)?))).collect::<Result<Vec<_>>>();
        self.used = 0;
        times
    }
}

/// Zero is no time: a clock that coarse is rounded up to its step.
fn nanos(millis: f32) -> u64 {
    (f64::from(millis) * 1e6).round().max(1.0) as u64
}
