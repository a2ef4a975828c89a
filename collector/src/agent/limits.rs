use std::fmt::{self, Display};
use std::time::Duration;

use clap::Args;
use jiff::civil::Time;

use super::hours::Hours;
use crate::devices::meter::Surroundings;
use crate::failure::Usage;

/// A GPU that was too hot must cool down by this many degrees, or it would be too hot again at once.
const COOLER_BY: u32 = 10;

/// When the agent leaves a device to other programs.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Consideration")]
pub(crate) struct Limits {
    /// Measure only while no other process computes on the GPU
    #[arg(long)]
    idle_only: bool,

    /// Measure only at these hours, by the clock of this node, such as 22:00-06:00
    #[arg(long, value_name = "FROM-TO")]
    hours: Option<Hours>,

    /// Measure for this share of the time, such as 0.25, and rest after each problem
    #[arg(long, value_name = "SHARE", value_parser = share)]
    share: Option<f64>,

    /// Wait while the GPU is hotter; while heat holds its clocks down, the agent waits in any case
    #[arg(long, value_name = "DEGREES", value_parser = celsius)]
    max_celsius: Option<u32>,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share| (0.01..=1.0).contains(share));
    share.ok_or_else(|| "expected a number from 0.01 to 1, such as 0.25".to_owned())
}

fn celsius(text: &str) -> Result<u32, String> {
    let degrees = text.parse().ok().filter(|degrees| (30..=120).contains(degrees));
    degrees.ok_or_else(|| "expected a whole number of degrees from 30 to 120".to_owned())
}

/// Why nothing may be measured now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hindrance {
    Hours(Hours),
    /// How many other processes compute on the GPU.
    Others(usize),
    /// The GPU's temperature in degrees Celsius.
    Hot(u32),
    Slowed,
}

impl Limits {
    /// Refuses limits that cannot be checked on a device.
    pub(crate) fn check(&self, around: Surroundings) -> Result<(), Usage> {
        let says = "the device does not say";
        if self.idle_only && around.others.is_none() {
            return Err(Usage::new(format!(
                "--idle-only: {says} who computes on it; leave it out, or use a GPU with its management library"
            )));
        }
        if self.max_celsius.is_some() && around.celsius.is_none() {
            return Err(Usage::new(format!(
                "--max-celsius: {says} how hot it is; leave it out, or use a GPU with its management library"
            )));
        }
        Ok(())
    }

    /// What keeps a device with these surroundings from measuring at a time of the day. `cooling` says that the
    /// device has been waiting for heat to pass. Such a device must cool down further than others.
    pub(super) fn hindrance(&self, around: Surroundings, now: Time, cooling: bool) -> Option<Hindrance> {
        if let Some(hours) = self.hours.filter(|hours| !hours.hold(now)) {
            return Some(Hindrance::Hours(hours));
        }
        if let Some(others) = around.others.filter(|others| self.idle_only && *others > 0) {
            return Some(Hindrance::Others(others));
        }
        let most = self.max_celsius.map(|most| if cooling { most - COOLER_BY } else { most });
        if let (Some(most), Some(celsius)) = (most, around.celsius)
            && celsius > most
        {
            return Some(Hindrance::Hot(celsius));
        }
        around.slowed.then_some(Hindrance::Slowed)
    }

    /// How long to rest after the device has `worked` this long.
    pub(super) fn rest_after(&self, worked: Duration) -> Duration {
        self.share.map_or(Duration::ZERO, |share| worked.mul_f64(1.0 / share - 1.0))
    }

    /// How many seconds of work to take, so that the work and the rests together take `seconds`.
    pub(super) fn work_within(&self, seconds: f64) -> f64 {
        (seconds * self.share.unwrap_or(1.0)).max(1.0)
    }
}

impl Hindrance {
    pub(super) fn is_heat(self) -> bool {
        matches!(self, Self::Hot(_) | Self::Slowed)
    }

    /// What the device does while it is hindered, in words for supervisors.
    pub(super) fn doing(self) -> &'static str {
        match self {
            Self::Hours(_) => "waiting for its hours",
            Self::Others(_) => "waiting for others to leave the GPU",
            Self::Hot(_) | Self::Slowed => "cooling down",
        }
    }
}

impl Display for Hindrance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hours(hours) => write!(f, "waiting for the hours {hours}"),
            Self::Others(1) => write!(f, "waiting: another process computes on the GPU"),
            Self::Others(others) => write!(f, "waiting: {others} other processes compute on the GPU"),
            Self::Hot(celsius) => write!(f, "waiting: the GPU is at {celsius} °C"),
            Self::Slowed => write!(f, "waiting: heat or the power supply holds the GPU's clocks down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::civil::time;

    use super::*;

    const QUIET: Surroundings = Surroundings { others: Some(0), celsius: Some(60), slowed: false };

    fn hindrance(limits: &Limits, around: Surroundings) -> Option<Hindrance> {
        limits.hindrance(around, time(12, 0, 0, 0), false)
    }

    #[test]
    fn others_matter_only_where_that_was_asked() {
        let busy = Surroundings { others: Some(2), ..QUIET };
        let considerate = Limits { idle_only: true, ..Limits::default() };
        assert_eq!(hindrance(&considerate, busy), Some(Hindrance::Others(2)));
        assert_eq!(hindrance(&considerate, QUIET), None);
        assert_eq!(hindrance(&Limits::default(), busy), None);
        assert!(considerate.check(Surroundings::default()).is_err());
        assert!(considerate.check(busy).is_ok());
        assert!(Limits::default().check(Surroundings::default()).is_ok());
    }

    #[test]
    fn heat_is_waited_for_until_it_is_well_gone() {
        let limits = Limits { max_celsius: Some(80), ..Limits::default() };
        let at = |celsius| Surroundings { celsius: Some(celsius), ..QUIET };
        assert_eq!(hindrance(&limits, at(80)), None);
        assert_eq!(hindrance(&limits, at(81)), Some(Hindrance::Hot(81)));
        let cooling = |celsius| limits.hindrance(at(celsius), time(12, 0, 0, 0), true);
        assert_eq!((cooling(71), cooling(70)), (Some(Hindrance::Hot(71)), None));
        // If the user sets no limit of temperature, the driver's limit counts.
        let slowed = Surroundings { slowed: true, ..at(95) };
        assert_eq!(hindrance(&Limits::default(), slowed), Some(Hindrance::Slowed));
        assert_eq!(hindrance(&Limits::default(), at(95)), None);
        assert!(limits.check(Surroundings::default()).is_err());
    }

    #[test]
    fn hours_and_shares_are_kept() {
        let hours: Hours = "22:00-06:00".parse().unwrap();
        let limits = Limits { hours: Some(hours), share: Some(0.25), ..Limits::default() };
        assert_eq!(hindrance(&limits, QUIET), Some(Hindrance::Hours(hours)));
        assert_eq!(limits.hindrance(QUIET, time(23, 0, 0, 0), false), None);
        assert_eq!(limits.rest_after(Duration::from_secs(2)), Duration::from_secs(6));
        assert_eq!(Limits::default().rest_after(Duration::from_secs(2)), Duration::ZERO);
        assert_eq!((limits.work_within(120.0), limits.work_within(2.0)), (30.0, 1.0));
        assert!(share("0").is_err() && share("1.5").is_err() && share("1").is_ok());
    }
}
