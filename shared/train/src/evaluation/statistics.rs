//! The few statistics that reports are made of.

/// The median; the mean of the middle two of an even number. `None` of nothing.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        n if n % 2 == 1 => Some(values[middle]),
        _ => Some((values[middle - 1] + values[middle]) / 2.0),
    }
}

/// The value that a share of all values is below, between its two neighbours. `None` of nothing.
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> Option<f64> {
    values.sort_unstable_by(f64::total_cmp);
    let place = share * (values.len().checked_sub(1)? as f64);
    let below = values[place.floor() as usize];
    let above = values[place.ceil() as usize];
    Some(below + (above - below) * place.fract())
}

/// The arithmetic mean; 0 of nothing.
pub(crate) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0_usize), |(sum, count), value| (sum + value, count + 1));
    if count == 0 { 0.0 } else { sum / count as f64 }
}

/// Spearman's rank correlation. 1 where one side has no order to get wrong.
pub(crate) fn spearman(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let middle = (a.len() as f64 - 1.0) / 2.0;
    let (mut ab, mut aa, mut bb) = (0.0, 0.0, 0.0);
    for (x, y) in a.iter().zip(&b) {
        let (x, y) = (x - middle, y - middle);
        ab += x * y;
        aa += x * x;
        bb += y * y;
    }
    if aa == 0.0 || bb == 0.0 { 1.0 } else { ab / (aa * bb).sqrt() }
}

/// Ranks from 0; equal values share the mean of theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|&i, &j| values[i].total_cmp(&values[j]));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    for group in order.chunk_by(|&i, &j| values[i] == values[j]) {
        let rank = start as f64 + (group.len() as f64 - 1.0) / 2.0;
        for &index in group {
            ranks[index] = rank;
        }
        start += group.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(vec![]), None);
    }

    #[test]
    fn quantiles() {
        let values = vec![4.0, 1.0, 3.0, 2.0, 5.0];
        assert_eq!(
            [0.0, 0.1, 0.5, 1.0].map(|share| quantile(values.clone(), share)),
            [Some(1.0), Some(1.4), Some(3.0), Some(5.0)]
        );
        assert_eq!(quantile(vec![], 0.5), None);
    }

    #[test]
    fn rank_correlation_with_ties() {
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[10.0, 20.0, 30.0]), 1.0);
        assert_eq!(spearman(&[1.0, 2.0, 3.0], &[3.0, 2.0, 1.0]), -1.0);
        // scipy.stats.spearmanr([1, 2, 2, 4], [1, 3, 2, 4]) = 0.9486832980505138
        let tied = spearman(&[1.0, 2.0, 2.0, 4.0], &[1.0, 3.0, 2.0, 4.0]);
        assert!((tied - 0.948_683_298_050_513_8).abs() < 1e-12, "{tied}");
        assert_eq!(spearman(&[1.0], &[5.0]), 1.0);
    }
}
