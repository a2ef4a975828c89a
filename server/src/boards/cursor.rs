//! Where a page of a leaderboard ended.

use diode_api::{Kernels, LeaderboardSort, SortOrder};
use diode_core::ids::ProblemId;
use diode_core::{Invalid, Method};

/// The order of a leaderboard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ranking {
    pub kernels: Kernels,
    pub sort: LeaderboardSort,
    pub order: SortOrder,
}

impl std::fmt::Display for Ranking {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { kernels, sort, order } = self;
        write!(f, "{kernels}.{sort}.{order}")
    }
}

/// Where a page of a leaderboard ended: the sort value of its last row, and the fields that break ties.
/// Clients pass it back unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    /// `None` if the row has no value. Rows without a value come last.
    pub value: Option<f64>,
    pub problem: ProblemId,
    pub method: Method,
}

impl Cursor {
    /// The text form, which includes the order.
    pub fn encode(&self, ranking: Ranking) -> String {
        let value = self.value.map_or("-".to_owned(), |v| format!("{:016x}", v.to_bits()));
        format!("{ranking}.{value}.{}.{}", self.problem, self.method)
    }

    /// Reads the text of [`Cursor::encode`], if the text is of the same order.
    pub fn decode(text: &str, ranking: Ranking) -> Result<Self, Invalid> {
        let refuse = || {
            Invalid::new(
                "cursor",
                format_args!("`{text:.128}`"),
                format!("the next_cursor of a page in the order {ranking}; leave it out for the first page"),
            )
        };
        let rest = text.strip_prefix(&format!("{ranking}.")).ok_or_else(refuse)?;
        let mut parts = rest.splitn(3, '.');
        let (Some(value), Some(problem), Some(method)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(refuse());
        };
        let value = match value {
            "-" => None,
            bits => Some(f64::from_bits(u64::from_str_radix(bits, 16).map_err(|_| refuse())?)),
        };
        if value.is_some_and(|v| !v.is_finite()) {
            return Err(refuse());
        }
        let cursor = Self {
            value,
            problem: problem.parse().map_err(|_| refuse())?,
            method: method.parse().map_err(|_| refuse())?,
        };
        // Each place on a board has exactly one valid text, because answers are kept under the text of their
        // request.
        if cursor.encode(ranking) == text { Ok(cursor) } else { Err(refuse()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_belong_to_one_order() {
        let ranking =
            Ranking { kernels: Kernels::Triton, sort: LeaderboardSort::Gain, order: SortOrder::Ascending };
        for value in [Some(123.456), Some(0.1 + 0.2), None] {
            let cursor = Cursor { value, problem: ProblemId::of(b"p"), method: Method::MEDIAN_COLD_EVENT };
            let text = cursor.encode(ranking);
            assert_eq!(Cursor::decode(&text, ranking), Ok(cursor));
            for other in [
                Ranking { order: SortOrder::Descending, ..ranking },
                Ranking { sort: LeaderboardSort::Time, ..ranking },
                Ranking { kernels: Kernels::Library, ..ranking },
            ] {
                assert!(Cursor::decode(&text, other).is_err(), "{other}");
            }
        }
        for bad in [
            "",
            "triton.gain.asc.",
            "triton.gain.asc.7ff8000000000000.0011223344556677.unspecified",
            "triton.gain.asc.-.x.y",
            "triton.gain.asc.003ff0000000000000.0011223344556677.unspecified",
        ] {
            assert!(Cursor::decode(bad, ranking).is_err(), "{bad}");
        }
    }
}
