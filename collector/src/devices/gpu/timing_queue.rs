//! Times launches by pairs of events, each with a cold cache. Launches are queued ahead, so that the GPU
//! never waits for the host between two events.

use crate::devices::gpu::driver::{Event, Gpu, Memory, Result};
use crate::devices::gpu::policy;

/// How many pairs of events there are. That is the most launches that are queued before the host waits.
pub(super) const MOST_QUEUED: usize = 512;
/// How many flushes come before the first launch of a batch. They give the host a head start, so that the GPU
/// never waits between two events.
const HEAD_START: usize = 8;
/// How long the clocks may take to rise. Without this wait, the times of a process's first short problem were
/// once 1.6 times too long.
const WARM_UP_NS: u64 = 300_000_000;
/// A launch is timed at most this often, even if the GPU may have waited for it each time.
const ATTEMPTS: u32 = 4;

/// Times the launches between [`Queue::start`] and [`Queue::stop`].
pub(super) struct Queue {
    events: Vec<(Event, Event)>,
    used: usize,
    /// The events at the begin and at the end of the work that the host has not waited for yet.
    batch: (Event, Event),
    /// Whether work has begun that the host has not waited for yet.
    begun: bool,
    /// How often the current launch was timed so far without a usable time.
    in_vain: u32,
    /// Memory as large as the last-level cache. Filling it evicts everything else from the cache.
    flush: Memory,
    /// How many nanoseconds one flush takes.
    flush_ns: u64,
    /// What this problem has cost the GPU so far.
    pub(super) spent: Spent,
}

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Spent {
    /// Nanoseconds from the start of each batch's first kernel to the end of its last, added up.
    pub(super) busy_ns: u64,
    /// How often a launch may have come too late and kept the GPU waiting. Such a launch is timed again, a
    /// few times at most.
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

    /// How many more launches can be timed before the host must wait.
    pub(super) fn room(&self) -> usize {
        self.events.len() - self.used
    }

    /// Begins another problem. Work that the problem before left unfinished is not counted.
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

    /// Waits for all queued work.
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

    /// Flushes the cache and records the start event. Before the first launch of a batch, and before a launch
    /// that was late, it flushes several times. The host queues the launch meanwhile.
    pub(super) fn start(&mut self, gpu: &Gpu) -> Result<()> {
        self.begin(gpu)?;
        let flushes = if self.used == 0 || self.in_vain > 0 { HEAD_START } else { 1 };
        for _ in 0..flushes {
            gpu.fill(&self.flush, 0)?;
        }
        gpu.record(&self.events[self.used].0)
    }

    /// Keeps the GPU busy until its clocks have risen from the idle rate.
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

    /// Records the end event. `false` if this launch must be started again: the GPU passed the start event
    /// before all was queued, so it may have waited between the two events.
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

    /// Waits for all launches. Returns their times in nanoseconds, in the order in which they were started.
    pub(super) fn collect(&mut self, gpu: &Gpu) -> Result<Vec<u64>> {
        self.wait(gpu)?;
        let pairs = &self.events[..self.used];
        let times =
            pairs.iter().map(|(start, end)| Ok(nanos(gpu.elapsed(start, end)?))).collect::<Result<Vec<_>>>();
        self.used = 0;
        times
    }
}

/// Converts to nanoseconds. A time of zero is not valid: if the clock is too coarse, the time is 1 ns.
fn nanos(millis: f32) -> u64 {
    (f64::from(millis) * 1e6).round().max(1.0) as u64
}
