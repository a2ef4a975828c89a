use std::collections::BTreeMap;

use diode_core::ids::{HardwareSlug, ProblemId};
use diode_core::{Config, Invalid, Method, Problem, Provenance};
use serde::{Deserialize, Deserializer, Serialize};

use crate::query::{from_text, whole_number};
use crate::{Kernels, SortOrder};

/// Two of a kind to compare, on the problems that both measured by one method and that a
/// [`ProblemFilter`](crate::ProblemFilter) admits; by the first method that both have unless it names one. In a URL every
/// field but `a` and `b` is optional.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(default)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams))]
#[cfg_attr(feature = "openapi", into_params(parameter_in = Query))]
pub struct RatioQuery {
    #[cfg_attr(feature = "openapi", param(required = true))]
    pub a: String,
    #[cfg_attr(feature = "openapi", param(required = true))]
    pub b: String,
    /// Whose times are compared; Triton's unless given, and the library's where libraries are compared.
    #[serde(deserialize_with = "from_text")]
    pub kernels: Option<Kernels>,
    /// Times that differ by so many per cent at most count as the same; 2 unless given.
    #[serde(deserialize_with = "from_text")]
    #[cfg_attr(feature = "openapi", param(value_type = Option<f64>))]
    pub noise: Option<Noise>,
    /// `asc`, unless given, begins with what is slower with `b`.
    #[serde(deserialize_with = "from_text")]
    pub order: Option<SortOrder>,
    /// Rows, 1 to 500; 50 unless given.
    #[serde(deserialize_with = "limit")]
    #[cfg_attr(feature = "openapi", param(minimum = 1, maximum = 500))]
    pub limit: Option<u32>,
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    /// A page can show this many at once.
    const MAX: u32 = 500;
    whole_number(deserializer, 1..=MAX)
}

/// Two times count as the same if they differ by at most this many per cent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Noise(f64);

impl Noise {
    const MAX_PERCENT: f64 = 50.0;

    /// The noise as a share, not in per cent.
    pub fn share(self) -> f64 {
        self.0 / 100.0
    }
}

impl Default for Noise {
    /// About as much as the times of one config on one device differ from day to day.
    fn default() -> Self {
        Self(2.0)
    }
}

impl std::str::FromStr for Noise {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let percent = text.parse().ok().filter(|percent| (0.0..=Self::MAX_PERCENT).contains(percent));
        let expected = "per cent from 0 to 50, such as 2";
        percent.map(Self).ok_or_else(|| Invalid::new("noise", format_args!("`{text}`"), expected))
    }
}

/// How the times of `b` compare with those of `a`, problem by problem.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ratios {
    /// Absent if there is none by which both measured.
    pub method: Option<Method>,
    /// Problems that both measured; of more than 5,000, an even sample is compared.
    pub problems: u64,
    pub only_a: u64,
    pub only_b: u64,
    /// Of the compared problems, those where `b` takes longer than the noise explains, where it takes less,
    /// and the others.
    pub slower: u64,
    pub faster: u64,
    pub same: u64,
    /// Geometric mean of time of `a` / time of `b`: above 1 where `b` is faster. Absent without problems.
    pub b_over_a: Option<f64>,
    /// Bins of equal width by the logarithm of the ratio, in order.
    pub histogram: Vec<RatioBin>,
    /// The compared problems by operator, by type, by band of M, by layout of B and by alignment; no group of all of them.
    pub groups: Vec<RatioGroup>,
    pub items: Vec<ComparedProblem>,
}

/// Compared problems that have something in common.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RatioGroup {
    /// The parameters of a [`ProblemFilter`](crate::ProblemFilter) that leave only these problems.
    pub filter: BTreeMap<String, String>,
    pub problems: u64,
    pub slower: u64,
    pub faster: u64,
    /// Geometric mean of time of `a` / time of `b`.
    pub b_over_a: f64,
}

/// The problems whose ratio lies between two.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RatioBin {
    pub from: f64,
    pub to: f64,
    pub problems: u64,
}

/// One problem with both times.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ComparedProblem {
    pub problem_id: ProblemId,
    pub problem: Problem,
    pub a: TimedConfig,
    pub b: TimedConfig,
    /// Time of `a` / time of `b`.
    pub b_over_a: f64,
}

/// A config and its measured time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct TimedConfig {
    pub config: Config,
    pub us: f64,
}

/// The facts of a node with the version of the vendor's library.
const FACTS: [&str; 2] = ["cublas", "hipblaslt"];

/// A version of a vendor's library, with the number that the library itself gives: `cublas-130002`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
pub struct LibraryVersion(String);

impl LibraryVersion {
    /// The library's version from the provenance. `None` if no fact can be a version.
    pub fn of(provenance: &Provenance) -> Option<Self> {
        FACTS.into_iter().find_map(|fact| {
            let version = provenance.node.get(fact)?;
            format!("{fact}-{version}").parse().ok()
        })
    }
}

impl LibraryVersion {
    /// The version as people write it: cuBLAS calls its version 13.0.2 `130002`.
    pub fn in_words(&self) -> String {
        let Some((name, number)) = self.0.split_once('-') else { return self.0.clone() };
        match (name, number.parse::<u32>()) {
            ("cublas", Ok(number)) => {
                format!("cuBLAS {}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
            }
            ("cublas", Err(_)) => format!("cuBLAS {number}"),
            _ => format!("hipBLASLt {number}"),
        }
    }
}

impl std::str::FromStr for LibraryVersion {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parts = text.split_once('-');
        let is_one = parts.is_some_and(|(name, version)| {
            FACTS.contains(&name)
                && (1..=32).contains(&version.len())
                && version.bytes().all(|b| b.is_ascii_digit() || b == b'.')
        });
        let expected = "a library and its number, such as cublas-130002";
        if is_one {
            Ok(Self(text.to_owned()))
        } else {
            Err(Invalid::new("library", format_args!("`{text:.80}`"), expected))
        }
    }
}

impl std::fmt::Display for LibraryVersion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(LibraryVersion);

/// A library on a hardware: `nvidia-h200@cublas-130002`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LibraryOn {
    pub hardware: HardwareSlug,
    pub library: LibraryVersion,
}

impl std::fmt::Display for LibraryOn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.hardware, self.library)
    }
}

impl std::str::FromStr for LibraryOn {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let expected = "HARDWARE@LIBRARY, such as nvidia-h200@cublas-130002";
        let (hardware, library) = text
            .split_once('@')
            .ok_or_else(|| Invalid::new("library", format_args!("`{text:.80}`"), expected))?;
        Ok(Self { hardware: hardware.parse()?, library: library.parse()? })
    }
}

as_text!(LibraryOn);

/// The uploads that were measured beside one version of a library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LibraryUse {
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub name: LibraryOn,
    pub uploads: u64,
    /// The solutions that they hold, those that others had brought before among them.
    pub problems: u64,
    /// When the newest of them arrived, as RFC 3339.
    pub newest_at: String,
}

#[cfg(test)]
mod ratios_tests {
    use super::*;

    #[test]
    fn noise_is_per_cent() {
        assert_eq!("2.5".parse::<Noise>().map(Noise::share), Ok(0.025));
        for text in ["", "x", "-1", "51", "NaN"] {
            let refused = text.parse::<Noise>().unwrap_err().to_string();
            assert!(refused.contains("from 0 to 50"), "{refused}");
        }
    }
}

#[cfg(test)]
mod libraries_tests {
    use super::*;

    #[test]
    fn a_library_is_named_with_its_hardware() {
        let one: LibraryOn = "nvidia-h200@cublas-130002".parse().unwrap();
        assert_eq!(
            (one.hardware.as_str(), one.library.to_string().as_str()),
            ("nvidia-h200", "cublas-130002")
        );
        assert_eq!(one.to_string(), "nvidia-h200@cublas-130002");
        for wrong in [
            "nvidia-h200",
            "nvidia-h200@",
            "nvidia-h200@cublas",
            "nvidia-h200@cublas-",
            "nvidia-h200@x-1",
            "nvidia-h200@cublas-1x",
            "H@cublas-1",
        ] {
            assert!(wrong.parse::<LibraryOn>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_version_is_among_the_facts_of_the_node() {
        let node = |facts: &[(&str, &str)]| Provenance {
            node: facts.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
            ..Provenance::default()
        };
        let of = |facts: &[(&str, &str)]| LibraryVersion::of(&node(facts)).map(String::from);
        assert_eq!(of(&[("driver", "570"), ("cublas", "130002")]).as_deref(), Some("cublas-130002"));
        assert_eq!(of(&[("hipblaslt", "100000")]).as_deref(), Some("hipblaslt-100000"));
        assert_eq!(of(&[("cublas", "thirteen")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn versions_are_written_as_people_do() {
        for (name, words) in [
            ("cublas-130002", "cuBLAS 13.0.2"),
            ("cublas-120804", "cuBLAS 12.8.4"),
            ("cublas-12.8.4", "cuBLAS 12.8.4"),
            ("hipblaslt-100000", "hipBLASLt 100000"),
        ] {
            assert_eq!(
                name.parse::<LibraryVersion>().map(|version| version.in_words()).as_deref(),
                Ok(words)
            );
        }
    }
}
