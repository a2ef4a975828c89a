//! The repeats of one config.

use diode_core::stats::integer_quantile;

/// The measured times in nanoseconds, in any order.
#[derive(Debug, Clone, Default)]
pub(crate) struct Samples(Vec<u64>);

impl Samples {
    pub(crate) fn add(&mut self, nanos: impl IntoIterator<Item = u64>) {
        self.0.extend(nanos);
        self.0.sort_unstable();
    }

    pub(crate) fn count(&self) -> usize {
        self.0.len()
    }

    /// The middle value, or the mean of the two middle values. `None` if there are none.
    pub(crate) fn median(&self) -> Option<u64> {
        integer_quantile(&self.0, 2, 4)
    }

    pub(crate) fn minimum(&self) -> Option<u64> {
        self.0.first().copied()
    }

    /// The interquartile range. It is 0 for a single repeat.
    pub(crate) fn spread(&self) -> u64 {
        let quartile = |part| integer_quantile(&self.0, part, 4);
        quartile(3).zip(quartile(1)).map_or(0, |(upper, lower)| upper - lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_spreads() {
        let of = |values: &[u64]| {
            let mut samples = Samples::default();
            samples.add(values.iter().copied());
            (samples.median(), samples.spread(), samples.minimum())
        };
        assert_eq!(of(&[]), (None, 0, None));
        assert_eq!(of(&[7]), (Some(7), 0, Some(7)));
        assert_eq!(of(&[30, 10]), (Some(20), 10, Some(10)));
        assert_eq!(of(&[50, 10, 30, 20, 40]), (Some(30), 20, Some(10)));
        assert_eq!(of(&[100, 1, 2, 3]), (Some(2), 26, Some(1)));
    }
}
