//! The numbers of parts into which Inductor would split K.

/// The splits that Inductor tries by default. It splits K only if K is at least 32 times as large
/// as M and as N.
///
/// Splits whose parts are powers of two come first. Then come multiples of 32, then the rest.
///
/// ```
/// use diode_core::space::decompose_k_splits;
///
/// assert_eq!(decompose_k_splits(256, 256, 16_384), [2, 4, 8, 16, 32, 64]);
/// assert!(decompose_k_splits(4096, 4096, 4096).is_empty());
/// ```
pub fn decompose_k_splits(m: u64, n: u64, k: u64) -> Vec<u32> {
    const THRESHOLD: u64 = 32;
    const SHORTEST_PART: u64 = 128;
    const MOST: usize = 10;
    if m == 0 || n == 0 || k / THRESHOLD < m.max(n) {
        return Vec::new();
    }
    let largest = k / m.max(n);
    let rank = |part: u64| match part {
        _ if part.is_power_of_two() => 0,
        _ if part.is_multiple_of(32) => 1,
        _ => 2,
    };
    let mut splits: Vec<u64> = divisors(k)
        .into_iter()
        .filter(|&split| (2..=largest).contains(&split) && k / split >= SHORTEST_PART)
        .collect();
    splits.sort_by_key(|&split| (rank(k / split), split));
    splits.truncate(MOST);
    splits.into_iter().filter_map(|split| u32::try_from(split).ok()).collect()
}

fn divisors(number: u64) -> Vec<u64> {
    (1..=number.isqrt())
        .filter(|&d| number.is_multiple_of(d))
        .flat_map(|d| [d, number / d])
        .collect::<std::collections::BTreeSet<u64>>()
        .into_iter()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn splits_equal_inductors_own() {
        assert_eq!(decompose_k_splits(64, 64, 4096), [2, 4, 8, 16, 32]);
        assert_eq!(decompose_k_splits(100, 100, 6400), [25, 50, 2, 4, 5, 8, 10, 20, 40, 16]);
        assert_eq!(decompose_k_splits(128, 128, 4096), [2, 4, 8, 16, 32]);
    }

    #[test]
    fn sizes_that_inductor_does_not_consider_have_none() {
        assert!(decompose_k_splits(128, 129, 4096).is_empty());
        assert!(decompose_k_splits(1, 4096, 4096).is_empty());
        // Every part would be shorter than 128.
        assert!(decompose_k_splits(1, 1, 251).is_empty());
    }
}
