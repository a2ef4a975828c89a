//! Small charts: scales, a scatter plot, and the plots made of it.

mod columns;
mod curves;
mod plot;
mod roofline;
mod save;
mod scatter;

pub(crate) use crate::charts::columns::{Column, Columns};
pub(crate) use crate::charts::curves::{Curve, SizePoint, along_size, training};
pub(crate) use crate::charts::plot::{Shape, Tone, legend};
pub(crate) use crate::charts::roofline::{Agreement, of_configs, of_problems};
pub(crate) use crate::charts::roofline::{Point, roofline};

/// Data that spans fewer decades is shown in the middle of this many: noise must not fill the plot, and
/// at least two ticks must be in sight.
const MIN_DECADES: f64 = 0.9;
/// A range is not magnified beyond this, because the labels of its ticks would look the same.
const LEAST_DECADES: f64 = 4e-5;
/// Room around the data, as a share of the range that the data spans.
const MARGIN: f64 = 0.06;

/// Places values on a line of pixels: positive values by their logarithm, or shares from zero on by themselves.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Scale {
    is_linear: bool,
    /// The values at both ends, or their decimal logarithms.
    low: f64,
    high: f64,
    /// The pixels of both ends. `from > to` on an upward axis.
    from: f64,
    to: f64,
}

/// A line of the grid.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Tick {
    value: f64,
    place: f64,
    /// Lines between labelled ones may have no label.
    labelled: bool,
}

impl Scale {
    /// The logarithmic scale that shows all values. `None` if no value is positive and finite.
    fn covering(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let (low, high) = values
            .filter(|value| *value > 0.0 && value.is_finite())
            .map(f64::log10)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), log| (low.min(log), high.max(log)));
        if low > high {
            return None;
        }
        let margin = ((MIN_DECADES - (high - low)) / 2.0).max((high - low) * MARGIN);
        Some(Self { is_linear: false, low: low - margin, high: high + margin, from, to })
    }

    /// The linear scale from zero to the highest of the values.
    fn from_zero(values: impl Iterator<Item = f64>, from: f64, to: f64) -> Option<Self> {
        let most = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        (most > 0.0).then_some(Self { is_linear: true, low: 0.0, high: most * (1.0 + MARGIN), from, to })
    }

    /// How far along the scale a value is.
    fn along(&self, value: f64) -> f64 {
        if self.is_linear { value } else { value.log10() }
    }

    fn value(&self, along: f64) -> f64 {
        if self.is_linear { along } else { 10_f64.powf(along) }
    }

    /// The part of this scale between two values. If the part is too small, the whole scale.
    fn part(&self, (low, high): (f64, f64)) -> Self {
        let end = |value: f64| self.along(value).clamp(self.low, self.high);
        let (low, high) = (end(low), end(high));
        let is_wide = high - low >= LEAST_DECADES;
        if is_wide { Self { low, high, ..*self } } else { *self }
    }

    /// The value at a pixel.
    fn value_at(&self, place: f64) -> f64 {
        self.value(self.low + (place - self.from) / (self.to - self.from) * (self.high - self.low))
    }

    /// Whether a value lies within the scale.
    fn shows(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&self.along(value))
    }

    /// The pixel of a value.
    fn place(&self, value: f64) -> f64 {
        self.from + (self.along(value) - self.low) / (self.high - self.low) * (self.to - self.from)
    }

    /// The values at both ends.
    fn ends(&self) -> (f64, f64) {
        (self.value(self.low), self.value(self.high))
    }

    /// Grid lines at 1, 2 and 5 of every decade. All of them have labels if labels are then `spacing`
    /// pixels apart. Otherwise only whole decades have labels, or every n-th decade.
    ///
    /// On a linear scale, or if fewer than `MIN_DECADES` are shown, lines stand at round numbers in even steps.
    fn ticks(&self, spacing: f64) -> Vec<Tick> {
        if self.is_linear || self.high - self.low < MIN_DECADES - 1e-9 {
            return self.even_ticks();
        }
        let decade = (self.to - self.from).abs() / (self.high - self.low);
        let all_labelled = decade * 2_f64.log10() >= spacing;
        let every = (spacing / decade).ceil().max(1.0) as i32;
        let mut ticks = Vec::new();
        for exponent in self.low.floor() as i32..=self.high.ceil() as i32 {
            for step in [1.0, 2.0, 5.0] {
                // Division gives the exact value. Multiplication by 0.1 would not.
                let value =
                    if exponent < 0 { step / 10_f64.powi(-exponent) } else { step * 10_f64.powi(exponent) };
                if (self.low..=self.high).contains(&value.log10()) {
                    let labelled = all_labelled || (step == 1.0 && exponent.rem_euclid(every) == 0);
                    ticks.push(Tick { value, place: self.place(value), labelled });
                }
            }
        }
        ticks
    }

    fn even_ticks(&self) -> Vec<Tick> {
        let (low, high) = self.ends();
        let rough = (high - low) / 5.0;
        let exponent = rough.log10().floor() as i32;
        let decade = 10_f64.powi(exponent);
        let step = [1, 2, 5, 10].into_iter().find(|step| f64::from(*step) * decade >= rough).unwrap_or(10);
        // Each value is computed from a whole number of steps, so that labels show no rounding errors.
        let value = |count: i64| {
            let steps = (count * i64::from(step)) as f64;
            if exponent < 0 { steps / 10_f64.powi(-exponent) } else { steps * decade }
        };
        let size = f64::from(step) * decade;
        let counts = (low / size).ceil() as i64..=(high / size).floor() as i64;
        counts
            .map(value)
            .filter(|value| self.is_linear || *value > 0.0)
            .map(|value| Tick { value, place: self.place(value), labelled: true })
            .collect()
    }
}

#[cfg(test)]
mod scale_tests {
    use super::*;

    fn labels(scale: &Scale, spacing: f64) -> Vec<f64> {
        scale.ticks(spacing).into_iter().filter(|tick| tick.labelled).map(|tick| tick.value).collect()
    }

    #[test]
    fn values_are_placed_by_their_logarithm() {
        let scale = Scale { is_linear: false, low: 0.0, high: 2.0, from: 0.0, to: 200.0 };
        assert_eq!(scale.place(1.0), 0.0);
        assert_eq!(scale.place(10.0), 100.0);
        assert_eq!(scale.place(100.0), 200.0);
        let upward = Scale { from: 200.0, to: 0.0, ..scale };
        assert_eq!(upward.place(10.0), 100.0);
        assert_eq!(upward.place(100.0), 0.0);
    }

    #[test]
    fn a_scale_covers_its_data_with_a_margin() {
        let scale = Scale::covering([3.0, 1000.0, f64::NAN, 0.0].into_iter(), 0.0, 500.0).unwrap();
        let (low, high) = scale.ends();
        assert!(low < 3.0 && low > 1.0 && high > 1000.0 && high < 3000.0, "{low} {high}");
        assert_eq!(Scale::covering([0.0, f64::INFINITY].into_iter(), 0.0, 500.0), None);
    }

    #[test]
    fn one_value_still_gets_a_scale_with_ticks() {
        let scale = Scale::covering(std::iter::once(7.0), 0.0, 300.0).unwrap();
        assert!(labels(&scale, 40.0).len() >= 2, "{:?}", labels(&scale, 40.0));
        assert!((scale.place(7.0) - 150.0).abs() < 1e-9);
    }

    #[test]
    fn a_narrow_part_has_round_ticks() {
        let whole = Scale { is_linear: false, low: -2.0, high: 2.0, from: 0.0, to: 500.0 };
        let scale = whole.part((0.21, 0.38));
        assert_eq!(labels(&scale, 40.0), [0.25, 0.3, 0.35]);
        assert!((scale.value_at(scale.place(0.3)) - 0.3).abs() < 1e-12);
        assert!(scale.shows(0.3) && !scale.shows(0.4) && !scale.shows(0.2));
    }

    #[test]
    fn a_part_is_within_the_whole_and_not_infinitely_narrow() {
        let whole = Scale { is_linear: false, low: -2.0, high: 2.0, from: 0.0, to: 500.0 };
        assert_eq!(whole.part((0.0, f64::INFINITY)), whole);
        assert_eq!(whole.part((1.0, 1e9)), Scale { low: 0.0, ..whole });
        assert_eq!(whole.part((1.0, 1.000_01)), whole);
        assert_eq!(whole.part((1e5, 1e9)), whole);
    }

    #[test]
    fn shares_are_on_a_linear_scale_from_zero() {
        let scale = Scale::from_zero([12.0, 100.0, f64::NAN].into_iter(), 530.0, 0.0).unwrap();
        assert_eq!((scale.place(0.0), scale.place(53.0), scale.place(106.0)), (530.0, 265.0, 0.0));
        assert_eq!(labels(&scale, 40.0), [0.0, 50.0, 100.0]);
        assert!(scale.shows(0.0) && !scale.shows(-1.0) && (scale.value_at(265.0) - 53.0).abs() < 1e-9);
        let part = scale.part((20.0, 40.0));
        assert_eq!(labels(&part, 40.0), [20.0, 25.0, 30.0, 35.0, 40.0]);
        assert_eq!(Scale::from_zero([0.0].into_iter(), 0.0, 1.0), None);
    }

    #[test]
    fn labels_thin_out_when_room_is_scarce() {
        let scale = Scale { is_linear: false, low: -1.0, high: 2.0, from: 0.0, to: 600.0 };
        assert_eq!(labels(&scale, 40.0), [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        assert_eq!(labels(&scale, 80.0), [0.1, 1.0, 10.0, 100.0]);
        assert_eq!(labels(&scale, 300.0), [1.0, 100.0]);
        assert_eq!(scale.ticks(80.0).len(), 10);
    }
}
