use diode_core::Invalid;
use diode_core::hardware::is_stray;
use diode_core::ids::{AccountName, AgentId, Digest, HardwareSlug, UploadId};
use diode_core::named_enum::named_enum;
use diode_core::physics::SetApartReason;
use serde::{Deserialize, Serialize};

use crate::{LibraryVersion, UploadLicence};

/// The most bytes of an upload. A collection of 209 problems with 1,534 configs each takes 57 MB in
/// torch-diode's MessagePack and 0.5 MB in our format.
pub const MAX_UPLOAD_BYTES: usize = 64 * 1024 * 1024;

/// The most timings and failures of an upload: thirteen times as many as in a collection of 209 problems
/// with 1,534 configs each. While an upload is decoded, each takes up to 32 bytes.
pub const MAX_UPLOAD_TIMINGS: usize = 1 << 22;

/// The most problems in one upload: ten times the longest known list of real shapes. A problem costs the
/// database far more time than its few bytes suggest, and other uploads wait meanwhile.
pub const MAX_UPLOAD_PROBLEMS: usize = 1 << 14;

named_enum! {
    /// Whether the timings of an upload count in boards, tables, datasets and trainings.
    Standing("standing") {
        Counts = "counts",
        /// They do not count, because they deviate too far from the other contributors' timings.
        Fenced = "fenced",
        /// They do not count, because an administrator says so.
        Quarantined = "quarantined",
    }
}

/// What the server stored. It is returned only once everything is durable.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Receipt {
    pub id: UploadId,
    /// SHA-256 of the bytes that were sent.
    pub digest: Digest,
    pub bytes: u64,
    /// The format that was recognised: `torch-diode-json`, `torch-diode-msgpack` or `columnar`.
    pub format: String,
    /// When the upload was first stored, as RFC 3339.
    pub received_at: String,
    pub hardware: Vec<HardwareReceipt>,
    /// Solutions this upload added.
    pub new_solutions: u64,
    /// Solutions that another upload had already brought with the same timings.
    pub duplicate_solutions: u64,
    /// Whether these very bytes had been uploaded before; then nothing changed.
    pub already_stored: bool,
    /// The account that it belongs to; absent if it was sent without one.
    #[serde(default)]
    pub contributor: Option<AccountName>,
    #[serde(default = "counts")]
    pub standing: Standing,
    /// Why its timings do not count.
    #[serde(default)]
    pub reason: Option<String>,
    /// The median over its problems of the logarithm of its times / those of the other contributors;
    /// absent as long as too few others measured the same.
    #[serde(default)]
    pub log_ratio: Option<f64>,
    /// The problems behind `log_ratio`.
    #[serde(default)]
    pub compared_problems: u64,
    /// Under which it is given.
    #[serde(default = "UploadLicence::before_terms")]
    pub licence: UploadLicence,
}

/// Older servers send no standing. All of their uploads count.
fn counts() -> Standing {
    Standing::Counts
}

/// What an upload holds for one kind of hardware.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareReceipt {
    pub slug: HardwareSlug,
    pub name: String,
    /// What was stored; without what was set apart.
    pub problems: u64,
    pub timings: u64,
    pub failures: u64,
    /// What was not stored, by reason.
    #[serde(default)]
    pub set_apart: Vec<SetApart>,
    /// Whether somebody vouches for the hardware's facts, so that the timings could be judged by them.
    #[serde(default)]
    pub confirmed: bool,
    /// Whether the file describes the hardware otherwise than this server does.
    #[serde(default)]
    pub facts_differ: bool,
    /// The version of the vendor's library that was there, if the file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub library: Option<LibraryVersion>,
    /// The vendor's driver, if the file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// The program that measured, if the file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// When the collection began, if the file says it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub collected_at: Option<String>,
}

/// Timings that were not stored for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetApart {
    pub reason: SetApartReason,
    pub timings: u64,
    /// What is wrong with the first of them: what was given, what was expected, what to do.
    pub example: String,
}

named_enum! {
    /// What an administrator does with uploads.
    ModerationAction("action") {
        /// They no longer count, but can be restored.
        Quarantine = "quarantine",
        /// They count again, unless they are fenced.
        Restore = "restore",
        /// They count as the operator's own: they lead boards and teach models before others confirm them.
        Vouch = "vouch",
        /// They are deleted for good, with everything that nobody else has sent.
        Delete = "delete",
    }
}

/// Which uploads it is about.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ModerationSubject {
    Upload(UploadId),
    /// All uploads of an account.
    Account(AccountName),
    /// All that an agent has sent.
    Agent(AgentId),
    /// All uploads that were sent without an account.
    Anonymous,
}

impl std::fmt::Display for ModerationSubject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Upload(id) => write!(f, "upload {id}"),
            Self::Account(name) => write!(f, "uploads of {name}"),
            Self::Agent(id) => write!(f, "uploads of agent {id}"),
            Self::Anonymous => write!(f, "uploads without an account"),
        }
    }
}

/// Something an administrator does. It is written down with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Moderation {
    pub action: ModerationAction,
    pub subject: ModerationSubject,
    /// Those whose uploads they are can read it.
    pub reason: Reason,
}

/// The uploads that it changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Moderated {
    pub uploads: Vec<UploadId>,
}

/// Tells the administrators that something is wrong with an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewReport {
    pub upload: UploadId,
    pub reason: Reason,
}

/// Why somebody does something: a line of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
#[cfg_attr(
    feature = "openapi",
    schema(min_length = 1, max_length = 500, pattern = "^[^<>\\x00-\\x1f\\x7f]*\\S[^<>\\x00-\\x1f\\x7f]*$")
)]
pub struct Reason(String);

impl Reason {
    /// A reason needs no more characters.
    const MAX_CHARS: usize = 500;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(Reason);

impl std::str::FromStr for Reason {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        one_line("reason", text, Self::MAX_CHARS).map(Self)
    }
}

/// A line that people write for others to read, trimmed.
pub(super) fn one_line(what: &str, text: &str, max_chars: usize) -> Result<String, Invalid> {
    let text = text.trim();
    let expected = format!("1 to {max_chars} characters of one line, without < and >");
    let refuse = |given: String| Invalid::new(what, given, expected);
    match text.chars().count() {
        0 => Err(refuse("none".to_owned())),
        long if long > max_chars => Err(refuse(format!("{long} characters"))),
        _ => match text.chars().find(|c| is_stray(*c)) {
            Some(c) => Err(refuse(format!("the character U+{:04X}", u32::from(c)))),
            None => Ok(text.to_owned()),
        },
    }
}
