//! Number types that state their unit.

use serde::{Deserialize, Serialize};

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
