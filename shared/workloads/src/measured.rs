//! The rule by which measured times decide: a default stays unless another config is faster by more than the noise.

use diode_core::stats::median;
use serde::{Deserialize, Serialize};

/// A config replaces the default only if it takes less time by at least this share of it …
pub const LEAST_GAIN: f64 = 0.01;
/// … and by this many times the spread of its rounds.
pub const SPREADS: f64 = 3.0;
/// With fewer rounds, the default stays.
pub const FEWEST_ROUNDS: usize = 4;

/// The outcome for one batch size. Times are for all launches of the layer together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    pub default_us: f64,
    pub us: f64,
    /// The time of the published file's choice.
    pub published_us: Option<f64>,
    /// The default's time / this one's, round by round. 1 if the default stays.
    pub gain: f64,
    /// How much the gain of the fastest config differs from round to round: the median deviation from its median.
    pub spread: f64,
    pub rounds: usize,
}

/// What the times of a batch size say.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Verdict {
    /// The config that replaces the default.
    pub replaces: Option<usize>,
    /// The default's time / that of the fastest other config.
    pub gain: f64,
    pub spread: f64,
}

/// Compares configs with the default, by times of the same rounds.
///
/// The first, third, … rounds say which config is fastest, and the others, by how much. So the luck of the fastest one
/// does not count in its favour.
///
/// ```
/// use diode_workloads::measured::judge;
///
/// let default = [10.0, 10.1, 9.9, 10.0, 10.0, 10.1];
/// let faster = [9.0, 9.1, 8.9, 9.0, 9.0, 9.1];
/// let no_faster = [9.95, 10.1, 9.9, 9.95, 10.0, 10.1];
/// assert_eq!(judge(&default, &[&no_faster, &faster]).replaces, Some(1));
/// assert_eq!(judge(&default, &[&no_faster]).replaces, None);
/// ```
pub fn judge(default: &[f64], others: &[&[f64]]) -> Verdict {
    let stays = Verdict { replaces: None, gain: 1.0, spread: 0.0 };
    let fastest = others.iter().enumerate().filter_map(|(at, times)| Some((at, part(times, 0)?)));
    let Some((at, _)) = fastest.min_by(|a, b| a.1.total_cmp(&b.1)) else { return stays };
    let rounds = default.iter().zip(others[at]).skip(1).step_by(2);
    let mut gains: Vec<f64> = rounds.map(|(default, other)| default / other).collect();
    let Some(gain) = median(&mut gains) else { return stays };
    let mut apart: Vec<f64> = gains.iter().map(|one| (one - gain).abs()).collect();
    let spread = median(&mut apart).unwrap_or_default();
    let enough = default.len().min(others[at].len()) >= FEWEST_ROUNDS;
    let is_faster = enough && 1.0 - 1.0 / gain > LEAST_GAIN.max(SPREADS * spread);
    Verdict { replaces: is_faster.then_some(at), gain, spread }
}

/// The median of every second round, from this one on.
fn part(times: &[f64], first: usize) -> Option<f64> {
    median(&mut times.iter().skip(first).step_by(2).copied().collect::<Vec<f64>>())
}

/// The median of all rounds.
pub fn middle(times: &[f64]) -> Option<f64> {
    median(&mut times.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Times around a mean, the same noise for the same number.
    fn rounds(mean: f64, noise: f64, number: u64) -> Vec<f64> {
        let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64 - 0.5
        };
        (0..20).map(|_| mean * (1.0 + noise * next())).collect()
    }

    #[test]
    fn a_default_stays_within_the_noise() {
        // Eight configs of the same speed: the luckiest does not replace the default.
        let replaced = (0..200).filter(|seed| {
            let default = rounds(100.0, 0.04, 1000 + seed);
            let others: Vec<Vec<f64>> = (0..8).map(|at| rounds(100.0, 0.04, seed * 8 + at)).collect();
            let others: Vec<&[f64]> = others.iter().map(Vec::as_slice).collect();
            judge(&default, &others).replaces.is_some()
        });
        assert_eq!(replaced.count(), 0);
    }

    #[test]
    fn a_clear_gain_replaces_it_and_a_small_one_does_not() {
        let default = rounds(100.0, 0.004, 1);
        let of = |mean| judge(&default, &[&rounds(mean, 0.004, 2), &rounds(130.0, 0.004, 3)]);
        let found = of(95.0);
        assert_eq!(found.replaces, Some(0));
        assert!((found.gain - 1.0 / 0.95).abs() < 0.005 && found.spread < 0.003, "{found:?}");
        assert_eq!(of(99.4).replaces, None);
        // As large a gain, but the times differ by more from round to round.
        let noisy = judge(&default, &[&rounds(95.0, 0.5, 2)]);
        assert_eq!(noisy.replaces, None, "{noisy:?}");
    }

    #[test]
    fn without_times_nothing_is_replaced() {
        for others in [&[][..], &[&[][..]], &[&[1.0, 1.0, 1.0][..]]] {
            assert_eq!(judge(&[9.0, 9.0, 9.0], others).replaces, None);
        }
    }
}
