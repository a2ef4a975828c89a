use serde::{Deserialize, Serialize};

use diode_core::Invalid;
use diode_core::hardware::is_stray;
use diode_core::ids::{AccountName, AgentId, UploadId};
use diode_core::named_enum::named_enum;

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
