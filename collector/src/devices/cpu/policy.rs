//! How many more repeats a config deserves.
//!
//! Most configs of a space are far from the best, and one look is enough to see that. The times of
//! configs near the best differ by less than their noise, so these configs are repeated until the
//! spread is small.

use crate::devices::samples::Samples;

/// A config that is slower than the best so far by more than this factor is hopeless: one look is
/// enough.
const HOPELESS: f64 = 3.0;
/// A launch this long warms its own caches. An untimed launch before it would cost as much and
/// change nothing.
const SELF_WARMING_NANOS: u64 = 500_000_000;
/// A config within this factor of the best so far is promising: it may turn out to be the best.
const PROMISING: f64 = 1.25;
/// Repeats of a config that is neither promising nor hopeless.
const ORDINARY_REPEATS: usize = 3;
/// The fewest repeats of a promising config. With fewer, an interquartile range means nothing.
const MIN_REPEATS: usize = 7;
/// The most repeats of a config, however noisy it is.
const MAX_REPEATS: usize = 25;
/// The spread that is small enough, as a share of the median.
const STEADY: f64 = 0.02;
/// Repeats per turn. Configs take turns, so that a slow moment of the machine does not fall on one
/// config alone.
const TURN: usize = 4;
/// A config is not repeated further once its repeats have taken this long in all.
const MAX_NANOS: u64 = 1_000_000_000;

/// If a config's first launch takes longer than this, no other launch follows.
pub(super) fn one_launch_is_enough(best: Option<u64>) -> u64 {
    best.map_or(SELF_WARMING_NANOS, |best| SELF_WARMING_NANOS.min((best as f64 * HOPELESS) as u64))
}

/// How many repeats to add now. 0 if the config is settled.
pub(super) fn more_repeats(samples: &Samples, best: u64) -> u32 {
    let Some(median) = samples.median() else { return 0 };
    let (count, ratio) = (samples.count(), median as f64 / best.max(1) as f64);
    if ratio > HOPELESS || median.saturating_mul(count as u64) > MAX_NANOS {
        return 0;
    }
    let wanted = if ratio > PROMISING {
        ORDINARY_REPEATS
    } else if count < MIN_REPEATS || samples.spread() as f64 > STEADY * median as f64 {
        (count + TURN).min(MAX_REPEATS)
    } else {
        count
    };
    wanted.saturating_sub(count) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(values: impl IntoIterator<Item = u64>) -> Samples {
        let mut samples = Samples::default();
        samples.add(values);
        samples
    }

    #[test]
    fn long_and_hopeless_launches_are_not_repeated() {
        assert_eq!(one_launch_is_enough(None), SELF_WARMING_NANOS);
        assert_eq!(one_launch_is_enough(Some(100)), 300);
        assert_eq!(one_launch_is_enough(Some(9_000_000_000)), SELF_WARMING_NANOS);
    }

    #[test]
    fn repeats_go_where_they_matter() {
        assert_eq!(more_repeats(&samples([400]), 100), 0, "hopeless");
        assert_eq!(more_repeats(&samples([200]), 100), 2, "ordinary");
        assert_eq!(more_repeats(&samples([200; 3]), 100), 0, "ordinary, settled");
        assert_eq!(more_repeats(&samples([110]), 100), 4, "promising");
        assert_eq!(more_repeats(&samples([100; 7]), 100), 0, "promising and steady");
        assert_eq!(more_repeats(&samples((0..10).map(|i| 100 + i)), 100), 4, "promising and noisy");
        assert_eq!(more_repeats(&samples((0..25).map(|i| 100 + i)), 110), 0, "at the cap");
        assert_eq!(more_repeats(&samples([2_000_000_000]), 2_000_000_000), 0, "too slow to repeat");
        assert_eq!(more_repeats(&samples([]), 100), 0, "never measured");
    }
}
