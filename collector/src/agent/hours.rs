use std::fmt::{self, Display};
use std::str::FromStr;

use jiff::civil::Time;

/// Hours of each day, such as 22:00-06:00.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hours {
    from: Time,
    /// The first moment after these hours.
    to: Time,
}

impl Hours {
    /// Whether a time of the day lies in these hours. Hours that end before they begin go on past midnight.
    pub(super) fn hold(self, time: Time) -> bool {
        if self.from < self.to {
            self.from <= time && time < self.to
        } else {
            self.from <= time || time < self.to
        }
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let both = text.split_once('-').and_then(|(from, to)| Some((time(from)?, time(to)?)));
        match both {
            Some((from, to)) if from != to => Ok(Self { from, to }),
            _ => Err("expected two different times of the day, such as 22:00-06:00".to_owned()),
        }
    }
}

fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.trim().split_once(':').unwrap_or((text.trim(), "0"));
    match (hour.parse().ok()?, minute.parse().ok()?) {
        // 24:00 is the beginning of the next day.
        (24, 0) => Some(Time::midnight()),
        (hour, minute) => Time::new(hour, minute, 0, 0).ok(),
    }
}

impl Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { from, to } = self;
        write!(f, "{:02}:{:02}-{:02}:{:02}", from.hour(), from.minute(), to.hour(), to.minute())
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;

    use super::*;

    #[test]
    fn hours_may_go_on_past_midnight() {
        let night: Hours = "22:00-06:30".parse().unwrap();
        for (hour, minute, holds) in
            [(21, 59, false), (22, 0, true), (0, 0, true), (6, 29, true), (6, 30, false), (12, 0, false)]
        {
            assert_eq!(night.hold(time(hour, minute, 0, 0)), holds, "{hour}:{minute}");
        }
        let day: Hours = "9-17".parse().unwrap();
        assert!(day.hold(time(9, 0, 0, 0)) && !day.hold(time(17, 0, 0, 0)));
        assert_eq!(
            (night.to_string(), day.to_string()),
            ("22:00-06:30".to_owned(), "09:00-17:00".to_owned())
        );
        let evening: Hours = "18:00-24:00".parse().unwrap();
        assert!(evening.hold(time(23, 59, 59, 0)) && !evening.hold(time(0, 0, 0, 0)));
    }

    #[test]
    fn what_is_no_range_of_times_is_refused() {
        for bad in ["", "22:00", "22:00-", "22:00-22:00", "25-3", "1:60-2", "a-b", "1-2-3"] {
            assert!(bad.parse::<Hours>().unwrap_err().contains("22:00-06:00"), "{bad}");
        }
    }
}
