use serde::{Deserialize, Serialize};

use diode_core::Invalid;
use diode_core::hardware::is_stray;
use diode_core::ids::{AccountName, AgentId, HardwareSlug, UploadId};
use diode_core::named_enum::named_enum;

named_enum! {
    /// What an administrator does with uploads.
    ModerationAction("action") {
        /// They no longer count, but can be restored.
        Quarantine = "quarantine",
        /// They count again, unless they are fenced.
        Restore = "restore",
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

/// Who did what, when, and why.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LogEntry {
    /// As RFC 3339.
    pub at: String,
    /// The name of an account, or `command line`.
    pub who: String,
    /// Such as `quarantine upload 0123456789abcdef (1)`; the number is that of the uploads changed.
    pub what: String,
    pub why: String,
}

/// Vouches for the facts of a hardware that is in no catalogue: times are judged by them from then on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HardwareConfirmation {
    pub hardware: HardwareSlug,
    /// The facts that this upload states, instead of those that the server has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<UploadId>,
    /// It is written down.
    pub reason: Reason,
}

/// Makes one kind of hardware a part of another that it turned out to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HardwareMerge {
    /// Has no board of its own any more. It must be in no catalogue.
    pub from: HardwareSlug,
    /// What was measured on `from` is this one's from then on, and so is what comes later under that name.
    pub into: HardwareSlug,
    /// It is written down.
    pub reason: Reason,
}

/// What became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct HardwareMerged {
    /// How many solutions are the other's now.
    pub solutions: u64,
}

/// Tells the administrators that something is wrong with an upload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct NewReport {
    pub upload: UploadId,
    pub reason: Reason,
}

/// A report, as administrators see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Report {
    pub at: String,
    pub upload: UploadId,
    /// Who reported it; absent if the account is gone.
    pub who: Option<AccountName>,
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

impl TryFrom<String> for Reason {
    type Error = Invalid;

    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Reason> for String {
    fn from(reason: Reason) -> Self {
        reason.0
    }
}

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
