use std::ops::RangeInclusive;

/// Cuts a list into runs whose sizes add up to at most `limit`. An item that is larger forms a run alone.
pub(crate) fn cut<T: Clone>(sizes: &[(T, u64)], limit: u64) -> Vec<RangeInclusive<T>> {
    let mut runs: Vec<RangeInclusive<T>> = Vec::new();
    let mut sum = 0;
    for (item, size) in sizes {
        match runs.pop() {
            Some(run) if sum + size <= limit => {
                sum += size;
                runs.push(run.start().clone()..=item.clone());
            }
            full => {
                sum = *size;
                runs.extend(full);
                runs.push(item.clone()..=item.clone());
            }
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_hold_everything_once_and_no_more_than_the_limit() {
        let sizes = [(1, 4), (3, 6), (4, 1), (7, 30), (8, 5), (9, 5)];
        assert_eq!(cut(&sizes, 10), [1..=3, 4..=4, 7..=7, 8..=9]);
        assert_eq!(cut::<i64>(&[], 10), []);
    }
}
