//! Divides a dataset that is too large for one file into parts.

use std::ops::RangeInclusive;

use crate::solutions::{StoredSolutions, cut};

/// The most timings and failures in one file. JSON takes some 650 bytes for each, all in memory while the
/// file is made.
const MAX_IN_PART: u64 = 1 << 19;

/// The solutions of each part, by their numbers. Parts are counted from 1; if there is only one part, it has no
/// number.
pub(super) fn parts(sizes: &[(i64, u64)]) -> Vec<(Option<usize>, RangeInclusive<i64>)> {
    let cuts = cut(sizes, MAX_IN_PART);
    let is_whole = cuts.len() == 1;
    cuts.into_iter().zip(1..).map(|(part, at)| ((!is_whole).then_some(at), part)).collect()
}

/// The solutions with these numbers. Damaged rows belong to no part.
pub(super) fn part_of(stored: &StoredSolutions, numbers: &RangeInclusive<i64>) -> StoredSolutions {
    let solutions: Vec<_> =
        stored.solutions.iter().filter(|solution| numbers.contains(&solution.number)).cloned().collect();
    // Many solutions share few lists, so every part has all lists.
    StoredSolutions {
        problems: stored.problems.clone(),
        config_lists: stored.config_lists.clone(),
        solutions,
        damaged: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_of_several_have_numbers() {
        assert_eq!(parts(&[(3, 7), (9, 7)]), [(None, 3..=9)]);
        let large = MAX_IN_PART - 1;
        assert_eq!(parts(&[(3, large), (4, large), (9, 1)]), [(Some(1), 3..=3), (Some(2), 4..=9)]);
    }
}
