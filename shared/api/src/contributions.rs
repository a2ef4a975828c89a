//! Models that people contribute.

use serde::{Deserialize, Serialize};

use crate::models::KeptReport;
use crate::uploads::one_line;
use diode_core::Invalid;
use diode_core::ids::{AccountName, JobId, ModelId};
use diode_core::named_enum::named_enum;

/// The most bytes of a contributed model: three times the size of the largest model that comes with Diode.
/// Larger models would take long to evaluate.
pub const MAX_MODEL_BYTES: usize = 1 << 20;

named_enum! {
    /// What became of a contributed model.
    ContributionState("state") {
        /// The server has not evaluated it yet.
        Waiting = "waiting",
        /// The server has evaluated it, and an administrator has not decided yet.
        Evaluated = "evaluated",
        /// An administrator has made it one of the server's models.
        Accepted = "accepted",
        /// An administrator has refused it, or taken it from the server's models.
        Declined = "declined",
    }
}

/// Where a contributed model comes from, and what the server found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Contribution {
    pub state: ContributionState,
    /// Who sent it; absent once the account is gone.
    pub by: Option<AccountName>,
    /// As RFC 3339.
    pub sent_at: String,
    pub description: ModelDescription,
    pub licence: Licence,
    /// Whether its file says that it has not learnt the problems that are kept for judging. If it has, the
    /// figures are too good.
    pub without_kept: bool,
    /// What the server found; absent until then.
    pub figures: Option<ModelFigures>,
    /// What the administrator said who decided, or why it still waits although its job has ended; empty until then.
    pub reason: String,
    /// The job that judges it.
    pub job: JobId,
}

/// How a contributed model does beside the published one, by the rule for the server's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelFigures {
    /// As RFC 3339.
    pub at: String,
    /// Its first picks on the problems that the server keeps for judging; absent if nothing was measured of
    /// them, or if it cannot be judged.
    pub kept: Option<KeptReport>,
    /// The model that was published then.
    pub beside: Option<ModelId>,
    /// The first picks of that one on the same problems.
    pub beside_kept: Option<KeptReport>,
    /// How fast its first picks are beside those of the published model: above 1 if they are faster. Absent
    /// where nothing was compared.
    pub speed: Option<f64>,
    /// Whether the server would have published it, had it trained it itself.
    pub no_worse: bool,
    /// The same in words.
    pub why: String,
}

/// What a contributor says of a model: a line of text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
pub struct ModelDescription(String);

impl ModelDescription {
    /// A description needs no more characters.
    const MAX_CHARS: usize = 500;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for ModelDescription {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        one_line("description", text, Self::MAX_CHARS).map(Self)
    }
}

impl std::fmt::Display for ModelDescription {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(ModelDescription);

/// The terms under which others may use a model, as an SPDX expression: `MIT OR Apache-2.0`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "String", into = "String")]
pub struct Licence(String);

impl Licence {
    const MAX_BYTES: usize = 100;

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::str::FromStr for Licence {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let text = text.trim();
        let is_of_spdx =
            |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'+' | b'(' | b')' | b' ');
        let names_one = text.bytes().any(|b| b.is_ascii_alphabetic());
        if names_one && text.len() <= Self::MAX_BYTES && text.bytes().all(is_of_spdx) {
            return Ok(Self(text.to_owned()));
        }
        let given = if text.len() > Self::MAX_BYTES {
            format!("{} bytes", text.len())
        } else {
            format!("`{}`", text.escape_debug())
        };
        let expected = "an SPDX expression of at most 100 letters, such as `MIT OR Apache-2.0`";
        Err(Invalid::new("licence", given, expected))
    }
}

impl std::fmt::Display for Licence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

as_text!(Licence);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_is_an_expression_of_spdx() {
        for good in ["MIT", " MIT OR Apache-2.0 ", "GPL-3.0+", "(MIT AND BSD-3-Clause)"] {
            assert_eq!(good.parse::<Licence>().unwrap().as_str(), good.trim());
        }
        for bad in ["", "  ", "1.0", "MIT\nOR", "<b>MIT</b>", "ask me: ada@example.org", &"a".repeat(101)] {
            let error = bad.parse::<Licence>().unwrap_err().to_string();
            assert!(error.contains("SPDX expression"), "{bad}: {error}");
        }
    }

    #[test]
    fn a_description_is_one_line() {
        assert_eq!(" less noise ".parse::<ModelDescription>().unwrap().as_str(), "less noise");
        for bad in ["", "two\nlines", "<script>", "\u{202e}", &"a".repeat(501)] {
            assert!(bad.parse::<ModelDescription>().is_err(), "{bad:?}");
        }
    }
}
