//! How a timing was taken. Timings of different methods are never mixed.

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::named_enum::named_enum;

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

#[cfg(test)]
mod tests {
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
