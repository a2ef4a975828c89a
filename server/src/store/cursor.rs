use diode_core::api::{LeaderboardSort, SortOrder};
use diode_core::ids::ProblemId;
use diode_core::{Invalid, Method};

/// Where a page of a leaderboard ended: the sort value of its last row and what
/// breaks ties. Clients pass it back as they got it.
#[derive(Debug, Clone, PartialEq)]
pub struct Cursor {
    /// `None` within the rows that have no value, which come last.
    pub value: Option<f64>,
    pub problem: ProblemId,
    pub method: Method,
}

impl Cursor {
    /// The text form, which also says which order it belongs to.
    pub fn encode(&self, sort: LeaderboardSort, order: SortOrder) -> String {
        let value = self.value.map_or("-".to_owned(), |v| format!("{:016x}", v.to_bits()));
        format!("{sort}.{order}.{value}.{}.{}", self.problem, self.method)
    }

    /// Reads what [`Cursor::encode`] wrote for the same order.
    pub fn decode(text: &str, sort: LeaderboardSort, order: SortOrder) -> Result<Self, Invalid> {
        let refuse = || {
            Invalid::new(
                "cursor",
                format_args!("`{text:.128}`"),
                format!(
                    "the next_cursor of a page sorted by {sort} {order}; leave it out for the first page"
                ),
            )
        };
        let rest = text.strip_prefix(&format!("{sort}.{order}.")).ok_or_else(refuse)?;
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
        Ok(Self {
            value,
            problem: problem.parse().map_err(|_| refuse())?,
            method: method.parse().map_err(|_| refuse())?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_round_trip_and_belong_to_one_order() {
        for value in [Some(123.456), Some(0.1 + 0.2), None] {
            let cursor = Cursor { value, problem: ProblemId::of(b"p"), method: Method::MEDIAN_COLD_EVENT };
            let text = cursor.encode(LeaderboardSort::Gain, SortOrder::Ascending);
            assert_eq!(Cursor::decode(&text, LeaderboardSort::Gain, SortOrder::Ascending), Ok(cursor));
            assert!(Cursor::decode(&text, LeaderboardSort::Gain, SortOrder::Descending).is_err());
            assert!(Cursor::decode(&text, LeaderboardSort::Time, SortOrder::Ascending).is_err());
        }
        for bad in
            ["", "gain.asc.", "gain.asc.7ff8000000000000.0011223344556677.unspecified", "gain.asc.-.x.y"]
        {
            assert!(Cursor::decode(bad, LeaderboardSort::Gain, SortOrder::Ascending).is_err(), "{bad}");
        }
    }
}
