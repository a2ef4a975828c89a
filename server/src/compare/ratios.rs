//! Compares two measurements of the same problems.

use diode_api::{ComparedProblem, Noise, RatioBin, Ratios, SortOrder};
use diode_core::stats::geometric_mean;

use crate::store::Pair;

/// How many bars the histogram has.
const BINS: usize = 20;

/// Compares pairs. The answer lists `limit` of them, in the given order of their ratio. The caller fills in the
/// counts of problems that are in no pair.
pub(crate) fn ratios(pairs: Vec<Pair>, noise: Noise, order: SortOrder, limit: usize) -> Ratios {
    let mut items: Vec<ComparedProblem> = pairs.into_iter().filter_map(compared).collect();
    // Equal ratios have the order of ids, so that the answer is always the same.
    items.sort_by(|a, b| a.b_over_a.total_cmp(&b.b_over_a).then_with(|| a.problem_id.cmp(&b.problem_id)));
    let all: Vec<f64> = items.iter().map(|item| item.b_over_a).collect();
    let beyond = 1.0 + noise.share();
    let slower = all.iter().filter(|ratio| **ratio < 1.0 / beyond).count() as u64;
    let faster = all.iter().filter(|ratio| **ratio > beyond).count() as u64;
    if order == SortOrder::Descending {
        items.reverse();
    }
    items.truncate(limit);
    Ratios {
        problems: all.len() as u64,
        slower,
        faster,
        same: all.len() as u64 - slower - faster,
        b_over_a: geometric_mean(&all),
        histogram: histogram(&all),
        items,
        ..Ratios::default()
    }
}

/// `None` if a time is zero. Old databases have such times, from before the floor existed.
fn compared(Pair { problem, a, b }: Pair) -> Option<ComparedProblem> {
    let b_over_a = a.us / b.us;
    let is_ratio = b_over_a.is_finite() && b_over_a > 0.0;
    is_ratio.then(|| ComparedProblem { problem_id: problem.id(), problem, a, b, b_over_a })
}

/// The histogram of sorted ratios.
fn histogram(ratios: &[f64]) -> Vec<RatioBin> {
    let (Some(least), Some(most)) = (ratios.first(), ratios.last()) else { return Vec::new() };
    // If all ratios are equal, the bins together are 1 % wide, with the value in the middle.
    let low = least.ln().min((least * most).sqrt().ln() - 0.005);
    let width = (most.ln().max((least * most).sqrt().ln() + 0.005) - low) / BINS as f64;
    let edge = |place: usize| (low + width * place as f64).exp();
    let mut counts = [0; BINS];
    for ratio in ratios {
        counts[(((ratio.ln() - low) / width) as usize).min(BINS - 1)] += 1;
    }
    let bin = |(place, problems)| RatioBin { from: edge(place), to: edge(place + 1), problems };
    counts.into_iter().enumerate().map(bin).collect()
}

#[cfg(test)]
mod ratios_tests {
    use diode_api::TimedConfig;
    use diode_core::{Config, DType, Op, Problem, ProblemFields};

    use super::*;

    fn pair(m: u64, a: f64, b: f64) -> Pair {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, 64, 64, DType::BFloat16)).unwrap();
        let timed = |us| TimedConfig { config: Config::Library, us };
        Pair { problem, a: timed(a), b: timed(b) }
    }

    fn sizes(ratios: &Ratios) -> Vec<u64> {
        ratios.items.iter().map(|item| item.problem.m).collect()
    }

    #[test]
    fn what_is_slower_comes_first_and_noise_counts_as_the_same() {
        let pairs = [pair(1, 10.0, 10.1), pair(2, 10.0, 20.0), pair(3, 10.0, 5.0), pair(4, 0.0, 5.0)];
        let compare =
            |noise: &str, order, limit| ratios(pairs.to_vec(), noise.parse().unwrap(), order, limit);
        let found = compare("2", SortOrder::Ascending, 10);
        assert_eq!((found.problems, found.slower, found.same, found.faster), (3, 1, 1, 1));
        assert_eq!(sizes(&found), [2, 1, 3]);
        assert!((found.b_over_a.unwrap() - (0.5 * 2.0 / 1.01_f64).cbrt()).abs() < 1e-12);
        let found = compare("0", SortOrder::Descending, 2);
        assert_eq!((sizes(&found), found.slower, found.same), (vec![3, 1], 2, 0));
    }

    #[test]
    fn every_ratio_is_in_one_bin() {
        for pairs in [vec![pair(1, 1.0, 1.0)], (1..200).map(|m| pair(m, 1.0, m as f64)).collect()] {
            let number = pairs.len() as u64;
            let found = ratios(pairs, Noise::default(), SortOrder::Ascending, 1);
            assert_eq!(found.histogram.len(), BINS);
            assert_eq!(found.histogram.iter().map(|bin| bin.problems).sum::<u64>(), number);
            assert!(found.histogram.windows(2).all(|pair| pair[0].to == pair[1].from));
        }
        let none = ratios(Vec::new(), Noise::default(), SortOrder::Ascending, 1);
        assert_eq!(none, Ratios::default());
    }
}
