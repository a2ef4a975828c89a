//! The confidence in picks. It is measured for each group of problems, on problems that the model was not
//! trained on.
//!
//! We know no way to tell whether the picks for one problem are good. But the share of a group's problems
//! that have good picks can be measured.

use diode_core::{Invalid, ProblemGroup};
use serde::{Deserialize, Serialize};

/// The confidence in the picks for a group of problems.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GroupConfidence {
    pub group: ProblemGroup,
    /// On how many problems it was measured.
    pub problems: u64,
    /// For rising numbers of picks: how likely the best of these picks is within 5 % of the best config.
    pub within_5_percent: Vec<(u32, f64)>,
    /// The measured time of the first pick / its predicted time, after all corrections. For four problems in
    /// five, it lies between these two values.
    pub time_range: (f64, f64),
}

/// Why no number of picks has a wanted probability.
#[derive(Debug, Clone, PartialEq)]
pub enum Unsure {
    /// Nobody has measured how good picks are for such a problem, for this reason if one is known.
    Unmeasured { why: Option<String> },
    /// The most picks that were judged have this probability.
    OutOfReach { most: f64, group: ProblemGroup },
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

    /// The least number of picks that contain a config within 5 % of the best with at least this
    /// probability. `None` if no number that was judged reaches it.
    pub(crate) fn picks_for(&self, probability: f64) -> Option<u32> {
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
