use serde::{Deserialize, Serialize};

use crate::ids::HardwareSlug;
use crate::{Invalid, Provenance};

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

impl TryFrom<String> for LibraryVersion {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<LibraryVersion> for String {
    fn from(library: LibraryVersion) -> Self {
        library.0
    }
}

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

impl TryFrom<String> for LibraryOn {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<LibraryOn> for String {
    fn from(one: LibraryOn) -> Self {
        one.to_string()
    }
}

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
mod tests {
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
