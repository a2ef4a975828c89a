//! How far solutions lie from the solutions of other contributors.

use diode_core::stats::median;

use super::gathered::{Combined, Gathered, Sample};

/// With fewer other contributors, the server cannot tell who is mistaken.
const MIN_OTHERS: usize = 3;

/// At least three quarters of the other contributors must agree. Then two groups of contributors that disagree
/// are never both fenced: each group would have to be three quarters of the other contributors.
const AGREEING: (usize, usize) = (3, 4);

/// Times that differ by at most this factor agree. Clocks, power limits and drivers explain such differences.
const AGREEMENT: f64 = 1.25;

/// Deviations are rounded to a thousandth, so that smaller changes cause no write.
const STEPS: f64 = 1e3;

/// The deviation of one solution.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Deviation {
    /// The number of the solution's row.
    pub(crate) number: i64,
    /// The median, over the solution's configs, of the logarithm of (its time / the median of the others'
    /// times).
    pub(crate) log_ratio: f64,
}

/// Whether an upload is fenced for its deviation.
pub(crate) fn is_off(log_ratio: f64) -> bool {
    log_ratio.abs() > AGREEMENT.ln()
}

/// The reason of a fence, as the contributor reads it.
pub(crate) fn fence_reason(log_ratio: f64, problems: u64) -> String {
    format!(
        "its times are {:.2} times those of the other contributors (median over {problems} problems), \
         expected at most {AGREEMENT} times more or less",
        log_ratio.exp()
    )
}

/// The deviations of the solutions that enough others measured. Each contributor counts once among the others,
/// even if it is fenced. So deviations depend only on what was measured, and not on the order in which it was
/// sent.
pub(super) fn deviations(gathered: &Gathered<'_>) -> Vec<Deviation> {
    if (gathered.contributors as usize) <= MIN_OTHERS {
        return Vec::new();
    }
    let mut logs: Vec<Vec<f64>> = vec![Vec::new(); gathered.sources.len()];
    let (mut combined, mut medians) = (Combined::default(), vec![None; gathered.contributors as usize]);
    for (_, samples) in gathered.times() {
        combined.set(gathered, samples, |_| true);
        if combined.times.len() > MIN_OTHERS {
            medians_of_others(&combined.times, &mut medians);
            add_logs(gathered, samples, &medians, &mut logs);
        }
    }
    let deviation = |(source, mut logs): (&super::gathered::Source, Vec<f64>)| {
        let log_ratio = (median(&mut logs)? * STEPS).round() / STEPS;
        Some(Deviation { number: source.number, log_ratio })
    };
    gathered.sources.iter().zip(logs).filter_map(deviation).collect()
}

fn add_logs(gathered: &Gathered<'_>, samples: &[Sample], medians: &[Option<f64>], logs: &mut [Vec<f64>]) {
    for sample in samples {
        if let Some(others) = medians[gathered.source(sample).contributor as usize] {
            logs[Gathered::place_of_source(sample)].push((sample.time / others).ln());
        }
    }
}

/// For each contributor: the median time of the others, if enough of the others are near this median.
fn medians_of_others(combined: &[(u32, f64)], medians: &mut [Option<f64>]) {
    let mut sorted: Vec<f64> = combined.iter().map(|(_, time)| *time).collect();
    sorted.sort_unstable_by(f64::total_cmp);
    let others = sorted.len() - 1;
    let within = |low: f64, high: f64| {
        sorted.partition_point(|time| *time <= high) - sorted.partition_point(|time| *time < low)
    };
    medians.fill(None);
    for &(contributor, own) in combined {
        let place = sorted.partition_point(|time| *time < own);
        let other = |at: usize| sorted[at + usize::from(at >= place)];
        let median = f64::midpoint(other((others - 1) / 2), other(others / 2));
        let (low, high) = (median / AGREEMENT, median * AGREEMENT);
        let agreeing = within(low, high) - usize::from((low..=high).contains(&own));
        let enough = agreeing * AGREEING.1 >= others * AGREEING.0;
        medians[contributor as usize] = enough.then_some(median);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn medians(times: &[f64]) -> Vec<Option<f64>> {
        let combined: Vec<(u32, f64)> = (0..).zip(times.iter().copied()).collect();
        let mut medians = vec![None; times.len()];
        medians_of_others(&combined, &mut medians);
        medians
    }

    #[test]
    fn others_count_only_if_they_agree() {
        // One of five is off. Of each honest contributor's four others, three agree, which is enough.
        assert_eq!(medians(&[1.0, 1.0, 1.0, 1.0, 0.5]), [Some(1.0); 5]);
        // Two of five state the same wrong time. The four others of each honest contributor are two against
        // two, so honest contributors are not judged.
        let two = medians(&[1.0, 1.0, 1.0, 0.5, 0.5]);
        assert_eq!(two, [None, None, None, Some(1.0), Some(1.0)]);
        assert_eq!(medians(&[1.0, 1.0, 2.0, 2.0]), [None; 4]);
        assert_eq!(medians(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), [None; 6]);
        // The median of an even number of times is the mean of the middle two.
        assert_eq!(medians(&[1.0, 1.1, 1.2, 1.3, 1.05])[0], Some(1.15));
    }

    #[test]
    fn two_groups_are_never_both_judged_by_each_other() {
        for (few, many) in (1..8).flat_map(|few| (1..8).map(move |many| (few, many))) {
            if few + many <= MIN_OTHERS {
                continue;
            }
            let times: Vec<f64> = [vec![1.0; few], vec![2.0; many]].concat();
            let medians = medians(&times);
            let off = |at: usize| medians[at].is_some_and(|others| others != times[at]);
            assert!(!(off(0) && off(few + many - 1)), "{few} and {many}");
        }
    }
}
