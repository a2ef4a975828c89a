//! The kinds of problems for which a model picks badly.

use std::collections::HashMap;

use diode_core::Problem;

use super::kind::Kind;

/// A kind is weak only if the model's first picks for it reach less than this share of the best speed.
const GOOD: f64 = 0.95;

/// The kinds for which a model picks worst, the worst first. `shares` are problems that the model had not seen, with
/// the share of the best speed that the model's first picks reach.
pub fn weakest(shares: &[(Problem, f64)], most: usize) -> Vec<Kind> {
    let mut kinds: HashMap<Kind, (f64, u32)> = HashMap::new();
    for (problem, share) in shares {
        if let Some(kind) = Kind::of(problem) {
            let (sum, count) = kinds.entry(kind).or_default();
            *sum += share.max(f64::MIN_POSITIVE).ln();
            *count += 1;
        }
    }
    let means = kinds.into_iter().map(|(kind, (sum, count))| ((sum / f64::from(count)).exp(), kind));
    let mut weak: Vec<(f64, Kind)> = means.filter(|(share, _)| *share < GOOD).collect();
    weak.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    weak.truncate(most);
    weak.into_iter().map(|(_, kind)| kind).collect()
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Op, ProblemFields};

    use super::*;

    fn mm(m: u64, n: u64, k: u64) -> Problem {
        Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap()
    }

    #[test]
    fn the_worst_kinds_come_first_and_good_ones_not_at_all() {
        let shares = [
            (mm(64, 4096, 4096), 0.9),
            (mm(72, 4160, 4160), 0.5),
            (mm(4096, 4096, 64), 0.6),
            (mm(4096, 4096, 4096), 0.99),
        ];
        assert_eq!(Kind::of(&shares[0].0), Kind::of(&shares[1].0));
        let [both, other] = [0, 2].map(|place| Kind::of(&shares[place].0).unwrap());
        assert_eq!(weakest(&shares, 9), [other, both], "the mean of 0.9 and 0.5 is 0.67");
        assert_eq!(weakest(&shares, 1), [other]);
        assert_eq!(weakest(&[], 1), []);
    }
}
