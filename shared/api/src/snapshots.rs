use diode_core::Invalid;
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug, ModelId};
use diode_core::named_enum::named_enum;
use serde::{Deserialize, Serialize};

use crate::{Reason, UploadLicence};

/// A snapshot's name: `nvidia-h200@3` is the third snapshot of the H200. No name is used twice.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SnapshotName {
    pub hardware: HardwareSlug,
    /// Versions count from 1 for each hardware.
    pub version: u32,
}

impl std::fmt::Display for SnapshotName {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", self.hardware, self.version)
    }
}

impl std::str::FromStr for SnapshotName {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parsed = || {
            let (hardware, digits) = text.split_once('@')?;
            // A snapshot has only one name: without a sign and without leading zeros.
            let version = digits.parse().ok().filter(|version: &u32| *version > 0)?;
            (version.to_string() == digits).then_some(())?;
            Some(Self { hardware: hardware.parse().ok()?, version })
        };
        parsed().ok_or_else(|| {
            Invalid::new("snapshot", format_args!("`{text}`"), "HARDWARE@VERSION, such as nvidia-h200@3")
        })
    }
}

as_text!(SnapshotName);

/// Asks for a snapshot of everything that counts of a hardware. It is written down with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewSnapshot {
    pub hardware: HardwareSlug,
    pub reason: Reason,
}

named_enum! {
    /// Whether a snapshot can be downloaded.
    SnapshotState("snapshot state") {
        Whole = "whole",
        /// Its files were deleted. Its `reason` says why.
        Removed = "removed",
    }
}

/// A dataset that no longer changes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotSummary {
    pub name: SnapshotName,
    /// The digest of its manifest, which has the digests of all its files.
    pub digest: Digest,
    /// The name of the hardware for people.
    pub hardware_name: String,
    /// When it was made, as RFC 3339.
    pub created_at: String,
    /// As an SPDX expression.
    pub licence: String,
    pub problems: u64,
    pub timings: u64,
    pub failures: u64,
    /// Everybody without an account is one contributor.
    pub contributors: u64,
    pub uploads: u64,
    /// Of all its files together.
    pub bytes: u64,
    #[serde(default = "whole")]
    pub state: SnapshotState,
    /// Why its files are gone; empty while they are there.
    #[serde(default)]
    pub reason: String,
    /// Uploads in it that do not count any more. Its bytes stay what they were.
    #[serde(default)]
    pub withdrawn_uploads: u64,
}

fn whole() -> SnapshotState {
    SnapshotState::Whole
}

/// A snapshot with what can be downloaded of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotDetail {
    pub summary: SnapshotSummary,
    /// With the manifest and the checksums. Empty once they are removed.
    pub files: Vec<SnapshotFile>,
    /// Models that were trained on exactly these uploads.
    pub models: Vec<ModelId>,
    pub citation: Citation,
}

/// The file that describes a snapshot.
pub const MANIFEST: &str = "manifest.json";

/// The file of checksums, for `sha256sum --check`.
pub const CHECKSUMS: &str = "SHA256SUMS";

/// A file of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotFile {
    /// `nvidia-h200@3.parquet`; a large dataset is in parts, `nvidia-h200@3-part-1.parquet`.
    pub name: String,
    /// `columnar`, `parquet`, `csv`, `torch-diode-msgpack`, `torch-diode-json`, `manifest` or `checksums`.
    pub format: String,
    pub bytes: u64,
    pub sha256: Digest,
}

/// An upload whose timings are in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotUpload {
    /// The digest of the bytes that were sent.
    pub digest: Digest,
    pub received_at: String,
    /// Under which it was given.
    #[serde(default = "UploadLicence::before_terms")]
    pub licence: UploadLicence,
}

/// A format that cannot hold what is in a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AbsentFormat {
    pub format: String,
    pub reason: String,
}

/// What `manifest.json` says of a snapshot. Contributors are counted, not named: a name goes with its account,
/// and these bytes stay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SnapshotManifest {
    /// Counts up when the manifest can no longer be read as before.
    pub manifest: u32,
    pub name: SnapshotName,
    pub created_at: String,
    /// The version of the program that made it.
    pub program: String,
    pub licence: String,
    pub hardware: Hardware,
    pub problems: u64,
    pub timings: u64,
    pub failures: u64,
    pub contributors: u64,
    /// Solutions that are too damaged in the database to be in it.
    pub left_out: u64,
    /// By arrival.
    pub uploads: Vec<SnapshotUpload>,
    /// The data; without the manifest itself and the checksums.
    pub files: Vec<SnapshotFile>,
    pub absent: Vec<AbsentFormat>,
}

/// How to refer to a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Citation {
    /// Where it stays.
    pub url: String,
    pub text: String,
    pub bibtex: String,
}

#[cfg(feature = "openapi")]
impl utoipa::PartialSchema for SnapshotName {
    fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
        utoipa::openapi::schema::ObjectBuilder::new()
            .schema_type(utoipa::openapi::schema::Type::String)
            .description(Some("A hardware and a version, which is never given to another snapshot"))
            .pattern(Some("^[a-z0-9]+(-[a-z0-9]+)*@[1-9][0-9]*$"))
            .examples(["nvidia-h200@3"])
            .into()
    }
}

#[cfg(feature = "openapi")]
impl utoipa::ToSchema for SnapshotName {
    fn name() -> std::borrow::Cow<'static, str> {
        "SnapshotName".into()
    }
}

/// The most timings and failures in one Parquet file. Writing 317,363, a thirteenth, took 53 MB of memory.
pub const MAX_IN_PARQUET: u64 = 1 << 22;

/// The most timings and failures in CSV and torch-diode's formats, where each takes about 200 bytes.
pub const MAX_IN_OTHERS: u64 = 1 << 21;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_hardware_and_a_version() {
        let name: SnapshotName = "nvidia-tesla-v100@12".parse().unwrap();
        assert_eq!((name.hardware.as_str(), name.version), ("nvidia-tesla-v100", 12));
        assert_eq!(name.to_string(), "nvidia-tesla-v100@12");
        for wrong in ["nvidia-h200", "nvidia-h200@0", "nvidia-h200@01", "nvidia-h200@+1", "@1", "H@1", "h@"] {
            let error = wrong.parse::<SnapshotName>().unwrap_err().to_string();
            assert!(error.contains("nvidia-h200@3"), "{error}");
        }
    }
}
