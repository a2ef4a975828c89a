//! Times: numbers that state their unit, and columns. Imported times keep every digit.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::named_enum::named_enum;

/// The times of a solution, one per timed config.
///
/// Times are whole nanoseconds if that is exact for every value. Otherwise the imported
/// milliseconds are kept, so that nothing is rounded.
#[derive(Debug, Clone, PartialEq)]
pub enum TimeColumn {
    Nanos(Vec<u64>),
    Millis(Vec<f64>),
}

impl TimeColumn {
    /// No kernel runs longer than this. A larger time has the wrong unit.
    pub const MAX: Nanos = Nanos(3.6e12);

    /// Takes imported milliseconds without rounding.
    pub fn from_millis(values: Vec<f64>) -> Result<Self, Invalid> {
        for &value in &values {
            check(Millis(value).nanos(), || format!("{value} ms"))?;
        }
        let whole: Option<Vec<u64>> = values.iter().map(|&v| Millis(v).whole_nanos()).collect();
        Ok(whole.map_or(Self::Millis(values), Self::Nanos))
    }

    /// Takes measured nanoseconds.
    pub fn from_nanos(values: Vec<u64>) -> Result<Self, Invalid> {
        for &value in &values {
            check(Nanos(value as f64), || format!("{value} ns"))?;
        }
        Ok(Self::Nanos(values))
    }

    pub fn len(&self) -> usize {
        match self {
            Self::Nanos(values) => values.len(),
            Self::Millis(values) => values.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The time at a row, in nanoseconds.
    pub fn nanos(&self, row: usize) -> Nanos {
        match self {
            Self::Nanos(values) => Nanos(values[row] as f64),
            Self::Millis(values) => Nanos(values[row] * 1e6),
        }
    }

    /// The time at a row in milliseconds, exactly as it was imported.
    pub fn millis(&self, row: usize) -> Millis {
        match self {
            Self::Nanos(values) => Nanos(values[row] as f64).millis(),
            Self::Millis(values) => Millis(values[row]),
        }
    }

    /// The times at some rows.
    pub fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::Nanos(values) => Self::Nanos(rows.iter().map(|&row| values[row]).collect()),
            Self::Millis(values) => Self::Millis(rows.iter().map(|&row| values[row]).collect()),
        }
    }

    /// Every time in nanoseconds.
    pub fn iter_nanos(&self) -> impl Iterator<Item = Nanos> + '_ {
        (0..self.len()).map(|row| self.nanos(row))
    }

    /// The row of the shortest time, or the first such row. `None` if there are no times.
    pub fn fastest(&self) -> Option<usize> {
        (0..self.len()).min_by(|&a, &b| self.nanos(a).0.total_cmp(&self.nanos(b).0))
    }
}

fn check(time: Nanos, given: impl Fn() -> String) -> Result<(), Invalid> {
    if time.0 > 0.0 && time.0 <= TimeColumn::MAX.0 {
        Ok(())
    } else {
        Err(Invalid::new(
            "time",
            given(),
            "more than 0 and at most one hour; failed configs carry a reason instead",
        ))
    }
}

named_enum! {
    /// Which summary of the repeats is reported.
    Statistic("statistic") {
        Median = "median",
        Minimum = "minimum",
        Mean = "mean",
    }
}

named_enum! {
    /// What the last-level cache holds before a launch.
    Cache("cache") {
        /// Nothing of use: it is flushed or overwritten before every repeat.
        Cold = "cold",
        /// What the repeat before left there.
        Warm = "warm",
    }
}

named_enum! {
    /// What measures the time.
    Clock("clock") {
        /// Events that the device records around the launch.
        Event = "event",
        /// The host's monotonic clock.
        Wall = "wall",
    }
}

/// How a timing was taken: `median-cold-event`, or `unspecified` for torch-diode's files, which do not
/// say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Method {
    Unspecified,
    Known { statistic: Statistic, cache: Cache, clock: Clock },
}

impl Method {
    /// The method of our collector on GPUs.
    pub const MEDIAN_COLD_EVENT: Self =
        Self::Known { statistic: Statistic::Median, cache: Cache::Cold, clock: Clock::Event };
    /// The method of our collector on CPUs.
    pub const MEDIAN_WARM_WALL: Self =
        Self::Known { statistic: Statistic::Median, cache: Cache::Warm, clock: Clock::Wall };

    /// The method to show first, since times of two methods are never mixed. A stated method comes
    /// before the unspecified one.
    pub fn shown_first(methods: &[Self]) -> Option<Self> {
        let stated = methods.iter().find(|method| **method != Self::Unspecified);
        stated.or(methods.first()).copied()
    }

    /// Whether inputs are read from DRAM, so that DRAM bandwidth limits the time.
    pub const fn is_cold(self) -> bool {
        matches!(self, Self::Known { cache: Cache::Cold, .. })
    }
}

impl std::fmt::Display for Method {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unspecified => f.write_str("unspecified"),
            Self::Known { statistic, cache, clock } => write!(f, "{statistic}-{cache}-{clock}"),
        }
    }
}

impl std::str::FromStr for Method {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "unspecified" {
            return Ok(Self::Unspecified);
        }
        let refuse = || {
            Invalid::new(
                "method",
                format_args!("`{text}`"),
                "`unspecified` or statistic-cache-clock such as `median-cold-event`",
            )
        };
        let mut parts = text.split('-');
        let (Some(statistic), Some(cache), Some(clock), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(refuse());
        };
        Ok(Self::Known {
            statistic: statistic.parse().map_err(|_| refuse())?,
            cache: cache.parse().map_err(|_| refuse())?,
            clock: clock.parse().map_err(|_| refuse())?,
        })
    }
}

impl TryFrom<String> for Method {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Method> for String {
    fn from(method: Method) -> Self {
        method.to_string()
    }
}

macro_rules! unit {
    ($(#[$meta:meta])* $name:ident($inner:ty)) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(transparent)]
        pub struct $name(pub $inner);
    };
}

unit!(
    /// A duration in nanoseconds. Fractions appear only in imported data.
    Nanos(f64)
);
unit!(
    /// A duration in microseconds, the unit shown to people.
    Micros(f64)
);
unit!(
    /// A duration in milliseconds, the unit of torch-diode's files.
    Millis(f64)
);
unit!(
    /// 10¹² floating-point operations per second.
    Tflops(f64)
);

impl Nanos {
    pub fn micros(self) -> Micros {
        Micros(self.0 / 1e3)
    }

    /// Divides twice, (ns / 1e3) / 1e3, as programs do when they turn event times into
    /// milliseconds. A single division can give other digits.
    pub fn millis(self) -> Millis {
        Millis(self.0 / 1e3 / 1e3)
    }
}

impl Micros {
    pub fn nanos(self) -> Nanos {
        Nanos(self.0 * 1e3)
    }
}

impl Millis {
    pub fn nanos(self) -> Nanos {
        match self.whole_nanos() {
            Some(whole) => Nanos(whole as f64),
            None => Nanos(self.0 * 1e6),
        }
    }

    /// The whole number of nanoseconds for which [`Nanos::millis`] returns exactly this value, if
    /// there is one.
    pub fn whole_nanos(self) -> Option<u64> {
        /// Every whole number up to here has an f64 of its own.
        const EXACT: f64 = 9_007_199_254_740_992.0;
        let nanos = libm::round(self.0 * 1e6);
        if !(0.0..EXACT).contains(&nanos) {
            return None;
        }
        (Nanos(nanos).millis().0 == self.0).then_some(nanos as u64)
    }
}

impl Tflops {
    /// The rate of `flops` operations in `time`.
    pub fn from_work(flops: f64, time: Micros) -> Self {
        Self(flops / time.0 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_inexact_value_keeps_the_whole_column_in_milliseconds() {
        let exact = TimeColumn::from_millis(vec![0.0123, 0.01]).unwrap();
        assert_eq!(exact, TimeColumn::Nanos(vec![12_300, 10_000]));
        let values = vec![0.0123, 0.021_824_000_403_285_027];
        let inexact = TimeColumn::from_millis(values.clone()).unwrap();
        assert_eq!(inexact, TimeColumn::Millis(values));
        assert_eq!(inexact.fastest(), Some(0));
    }

    #[test]
    fn impossible_times_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 1e13] {
            assert!(TimeColumn::from_millis(vec![bad]).is_err(), "{bad}");
        }
        assert!(TimeColumn::from_nanos(vec![0]).is_err());
    }
}

#[cfg(test)]
mod method_tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for method in [Method::Unspecified, Method::MEDIAN_COLD_EVENT, Method::MEDIAN_WARM_WALL] {
            assert_eq!(method.to_string().parse::<Method>(), Ok(method));
        }
        assert!("median-cold".parse::<Method>().is_err());
        assert!("median-cold-event-extra".parse::<Method>().is_err());
    }
}

#[cfg(test)]
mod units_tests {
    use super::*;

    #[test]
    fn whole_nanoseconds_survive_milliseconds() {
        for nanos in [1_u64, 12_300, 40_160, 739_616, 3_306_272, 10_000_000_001] {
            let millis = Nanos(nanos as f64).millis();
            assert_eq!(millis.whole_nanos(), Some(nanos));
        }
        assert_eq!(Millis(0.021_824_000_403_285_027).whole_nanos(), None);
        assert_eq!(Millis(-1.0).whole_nanos(), None);
        assert_eq!(Millis(f64::NAN).whole_nanos(), None);
    }
}
