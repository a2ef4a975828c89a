//! The confidence in picks: how often they were good on problems that were not trained on, by group.
//!
//! Nothing that was tried can tell whether the picks for one problem are good. The share of
//! problems of its group with good picks can be measured.

use diode_core::{Invalid, ProblemGroup};
use serde::{Deserialize, Serialize};

/// The confidence in the picks for a group of problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupConfidence {
    pub group: ProblemGroup,
    /// How many problems it was measured on.
    pub problems: u64,
    /// By the number of picks that are measured, rising: how likely their best is
    /// within 5 % of the best there is.
    pub within_5_percent: Vec<(u32, f64)>,
    /// Measured over predicted time of the first pick, after all corrections: between
    /// these for four problems in five.
    pub time_range: (f64, f64),
}

impl GroupConfidence {
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        let mut shares = self.within_5_percent.iter().map(|(_, share)| share);
        if let Some(share) = shares.find(|share| !(0.0..=1.0).contains(*share)) {
            return Err(Invalid::new("within_5_percent", share, "a share from 0 to 1"));
        }
        let (low, high) = self.time_range;
        if !(low > 0.0 && low <= high && high.is_finite()) {
            return Err(Invalid::new(
                "time_range",
                format_args!("{low} to {high}"),
                "two factors above 0, the lower one first",
            ));
        }
        Ok(())
    }

    /// The least number of picks whose best is within 5 % of the best of all with at least this probability;
    /// `None` if none of the numbers that were judged reaches it.
    pub fn picks_for(&self, probability: f64) -> Option<u32> {
        self.within_5_percent.iter().find(|(_, share)| *share >= probability).map(|(picks, _)| *picks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_certainty_takes_more_picks() {
        let confidence = GroupConfidence {
            group: ProblemGroup::Rest,
            problems: 100,
            within_5_percent: vec![(1, 0.85), (3, 0.95), (5, 0.98), (8, 0.99)],
            time_range: (0.9, 1.1),
        };
        assert_eq!(
            [0.5, 0.9, 0.95, 0.97, 0.995].map(|p| confidence.picks_for(p)),
            [Some(1), Some(3), Some(3), Some(5), None]
        );
        assert!(confidence.validate().is_ok());
        assert!(GroupConfidence { time_range: (1.1, 0.9), ..confidence }.validate().is_err());
    }
}
