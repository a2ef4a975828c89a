//! Parses values of flags. The error for a wrong value says what was expected.

use std::fmt::Display;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context as _, bail};
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Invalid, numbered};
use serde::{Deserialize, Deserializer};

/// Parses a count, a size or a seed.
pub(crate) fn whole<T: FromStr>(text: &str) -> Result<T, String> {
    // The types in use have no sign.
    let most = u64::MAX >> (64 - 8 * size_of::<T>());
    text.parse().map_err(|_| format!("expected a whole number from 0 to {most}"))
}

/// Parses a count of at least one.
pub(crate) fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if count > 0 => Ok(count),
        _ => Err("expected a whole number, 1 or more".to_owned()),
    }
}

/// Parses a size of at least one.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    at_least_one(text).map(|size| size as u64)
}

/// Parses a time with its units.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    text.parse::<jiff::SignedDuration>()
        .ok()
        .and_then(|duration| Duration::try_from(duration).ok())
        .filter(|duration| !duration.is_zero())
        .ok_or_else(|| "expected a time above zero with units, such as 90s, 10m or 1h30m".to_owned())
}

/// Parses a finite number, such as the mean of a distribution.
pub(crate) fn real(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err("expected a number such as 0.001 or 6.57".to_owned()),
    }
}

/// Parses a share of cases.
pub(crate) fn probability(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(share) if share > 0.0 && share < 1.0 => Ok(share),
        _ => Err("expected a number between 0 and 1, such as 0.95".to_owned()),
    }
}

/// Parses a dtype: its name in torch, or the short name that people type.
pub(crate) fn dtype(text: &str) -> Result<DType, Invalid> {
    DType::from_short_name(text)
}

/// Parses the name of a space, or a name from Inductor's setting for its search.
pub(crate) fn space(text: &str) -> Result<SpaceName, Invalid> {
    match text {
        "EXHAUSTIVE" => Ok(SpaceName::InductorExhaustive),
        "DEFAULT" => Ok(SpaceName::Default),
        other => other.parse(),
    }
}

/// A space whose file has not been read yet.
#[derive(Debug, Clone)]
pub(crate) enum SpaceArg {
    Named(SpaceName),
    File(PathBuf),
}

/// The most bytes of a list, enough for some 50,000 configs. The exhaustive space has 1,875.
const MAX_BYTES: u64 = 16 << 20;

/// What a message says that the file must hold.
const EXPECTED: &str = "a JSON list of configs, or the output of `diode predict --json`";

/// A list of configs.
struct Configs(Vec<Config>);

impl<'de> Deserialize<'de> for Configs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        numbered(deserializer, "config").map(Self)
    }
}

/// The output of `diode predict --json`, as far as it matters here.
#[derive(Deserialize)]
struct Predicted {
    candidates: Configs,
}

impl SpaceArg {
    /// The space. If it is a list, its file is read.
    pub(crate) fn read(&self) -> anyhow::Result<Space> {
        let path = match self {
            Self::Named(name) => return Ok(Space::Named(*name)),
            Self::File(path) => path,
        };
        let shown = path.display();
        let text = diode_formats::read_text(path, MAX_BYTES, EXPECTED)?;
        let read = match text.trim_start().starts_with('{') {
            true => serde_json::from_str(&text).map(|predicted: Predicted| predicted.candidates),
            false => serde_json::from_str(&text),
        };
        let Configs(configs) = read.with_context(|| format!("{shown}: expected {EXPECTED}"))?;
        if configs.is_empty() {
            bail!("{shown}: expected at least one config");
        }
        Ok(Space::List(configs))
    }
}

impl FromStr for SpaceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match space(text) {
            Ok(name) => Ok(Self::Named(name)),
            Err(_) if text.ends_with(".json") => Ok(Self::File(text.into())),
            Err(invalid) => Err(format!("{invalid}, or a .json file with a list of configs")),
        }
    }
}

impl Display for SpaceArg {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Named(name) => name.fmt(f),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_say_what_was_expected() {
        assert_eq!(whole::<u32>("7"), Ok(7));
        for bad in ["-5", "x", "1.5", "", "4294967296"] {
            assert_eq!(whole::<u32>(bad).unwrap_err(), "expected a whole number from 0 to 4294967295");
        }
        assert_eq!(at_least_one("0").unwrap_err(), "expected a whole number, 1 or more");
        assert_eq!(real("-1e-5"), Ok(-1e-5));
        assert!(real("nan").is_err() && real("inf").is_err());
        assert_eq!(probability("0.95"), Ok(0.95));
        assert!(["0", "1", "95", "nan", ""].iter().all(|bad| probability(bad).is_err()));
    }

    #[test]
    fn times_have_units() {
        assert_eq!(duration("10m"), Ok(Duration::from_secs(600)));
        assert_eq!(duration("1h30m"), Ok(Duration::from_secs(5400)));
        for bad in ["10", "0s", "-5m", "soon", ""] {
            assert!(duration(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn short_and_old_names_are_understood() {
        assert_eq!(dtype("bf16").unwrap(), DType::BFloat16);
        assert_eq!(dtype("half").unwrap(), DType::Float16);
        assert_eq!(dtype("float").unwrap(), DType::Float32);
        assert!(dtype("bf17").is_err());
        assert_eq!(space("EXHAUSTIVE").unwrap(), SpaceName::InductorExhaustive);
        assert_eq!(space("full").unwrap(), SpaceName::Full);
    }
}
