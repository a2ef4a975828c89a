//! Decides how many launches each config gets, and times launches by pairs of events, each with a cold cache. Launches
//! are queued ahead, so that the GPU never waits for the host between two events.

use diode_core::stats::{integer_median, upper_median};

use crate::devices::gpu::driver::{Event, Gpu, Memory, Result};
use crate::devices::gpu::session::MOST_LOADED;

/// How many of the fastest configs are timed thoroughly. Their times differ by less than their noise.
const NEAR_BEST: usize = 100;
// The near-best configs and the library are loaded at once.
const _: () = assert!(NEAR_BEST < MOST_LOADED);
/// How many rounds the near-best configs get. A short disturbance of the GPU affects them alike.
pub(super) const ROUNDS: usize = 4;
/// Launches of a config in one round. They follow one another, so that the kernel's code stays in the cache.
const PER_ROUND: u64 = 5;
/// Launches of a short kernel in one round. Short kernels are noisier and cost little. Four rounds of eight
/// launches use each of the 16 copies of the inputs twice.
const PER_ROUND_SHORT: u64 = 8;
const SHORT_NS: u64 = 50_000;
/// The most nanoseconds that the near-best configs of one problem may take. To stay within it, they get fewer
/// launches.
const NEAR_BEST_NS: u64 = 4_000_000_000;
/// Configs that are slower than the best by at most this factor, but not near-best, get three launches in
/// all.
const WORTH_MORE_LAUNCHES: f64 = 1.5;
/// Shorter kernels are launched in groups between two events. The times of events have steps of tens of
/// nanoseconds, and an event costs more than a microsecond.
pub(super) const GROUPED_BELOW_NS: u64 = 6_000;
/// Configs of a grouped problem that are slower than the best by more than this factor keep the time of
/// their first look.
pub(super) const WORTH_A_GROUP: f64 = 4.0;
/// A kernel that takes at least this long gets no second look, because fetching its code hardly matters.
const LONG_NS: u64 = 200_000;
/// A config also gets no second look if its first launch, less [`CODE_NS`], takes more than this many times the
/// best time so far.
const NO_HOPE: f64 = 3.0;
/// More than any first launch spends on fetching its code.
const CODE_NS: u64 = 20_000;
/// If a problem's best kernel takes less, an untimed launch fetches each kernel's code before its timed ones.
/// Fetching takes a few microseconds: less than 1 % of a longer kernel.
pub(super) const CODE_COUNTS_BELOW_NS: u64 = 1_000_000;
/// If rounds differ by more than this factor, they were disturbed.
const STEADY: f64 = 1.04;

/// The configs to time thoroughly, best first.
pub(super) fn near_best(looks: &[(usize, u64)]) -> Vec<usize> {
    let mut sorted: Vec<&(usize, u64)> = looks.iter().collect();
    sorted.sort_unstable_by_key(|&&(config, nanos)| (nanos, config));
    sorted.iter().take(NEAR_BEST).map(|&&(config, _)| config).collect()
}

/// How many launches each config gets in one round. One launch of every config takes `sum_ns` in all.
pub(super) fn per_round(sum_ns: u64, configs: usize) -> usize {
    let most = if sum_ns < SHORT_NS * configs as u64 { PER_ROUND_SHORT } else { PER_ROUND };
    let affordable = NEAR_BEST_NS / (sum_ns.max(1) * ROUNDS as u64);
    affordable.clamp(1, most) as usize
}

/// The median of some times; 1 if there are none.
pub(super) fn median(times: &[u64]) -> u64 {
    integer_median(&mut times.to_vec()).unwrap_or(1)
}

/// Whether a config deserves a second look after a first launch of `nanos`. `best` is the best time so far.
pub(super) fn worth_a_second_look(nanos: u64, best: u64) -> bool {
    nanos < LONG_NS && nanos.saturating_sub(CODE_NS) as f64 <= best as f64 * NO_HOPE
}

/// Whether a config that is not among the near-best deserves more launches.
pub(super) fn worth_more_launches(nanos: u64, best: u64) -> bool {
    nanos as f64 <= best as f64 * WORTH_MORE_LAUNCHES
}

/// Whether the rounds agree. `rounds[r][c]` holds the times of config c in round r.
pub(super) fn is_steady(rounds: &[Vec<Vec<u64>>]) -> bool {
    let median = |values: &[u64]| median(values) as f64;
    let configs = rounds.first().map_or(0, Vec::len);
    let overall: Vec<f64> = (0..configs)
        .map(|config| median(&rounds.iter().flat_map(|round| round[config].clone()).collect::<Vec<_>>()))
        .collect();
    let factors = rounds.iter().map(|round| {
        let mut ratios: Vec<f64> =
            round.iter().zip(&overall).map(|(times, all)| median(times) / all).collect();
        upper_median(&mut ratios).unwrap_or(1.0)
    });
    let (low, high) = factors.fold((f64::MAX, f64::MIN), |(low, high), f| (low.min(f), high.max(f)));
    high <= low * STEADY
}

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
        queue.flush_ns = median(&samples);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_hundred_come_first() {
        let looks: Vec<(usize, u64)> = (0..300).map(|config| (config, 1000 - config as u64)).collect();
        let near = near_best(&looks);
        assert_eq!((near.len(), near[0], near[99]), (100, 299, 200));
        assert_eq!(near_best(&looks[..3]), [2, 1, 0]);
    }

    #[test]
    fn slow_problems_get_fewer_launches() {
        assert_eq!(per_round(100 * 20_000, 100), 8);
        assert_eq!(per_round(100 * 200_000, 100), 5);
        assert_eq!(per_round(100 * 5_000_000, 100), 2);
        assert_eq!(per_round(100 * 500_000_000, 100), 1);
        assert!(worth_more_launches(150, 100) && !worth_more_launches(151, 100));
    }

    #[test]
    fn slow_configs_get_no_second_look() {
        assert!(worth_a_second_look(50_000, 10_000) && !worth_a_second_look(50_001, 10_000));
        assert!(worth_a_second_look(20_000, 1), "a first launch also fetches the code");
        assert!(worth_a_second_look(199_999, 190_000) && !worth_a_second_look(200_000, 190_000));
    }

    #[test]
    fn a_slow_round_is_noticed() {
        let round = |scale: u64| (0..9).map(|config| vec![scale * (10 + config); 5]).collect::<Vec<_>>();
        assert!(is_steady(&[round(100), round(101), round(100), round(102)]));
        assert!(!is_steady(&[round(100), round(110), round(100), round(100)]));
        assert!(is_steady(&[]));
    }
}
