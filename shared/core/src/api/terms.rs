use serde::{Deserialize, Serialize};

use crate::named_enum::named_enum;

/// The licence of all measurements, as an SPDX expression.
pub const DATA_LICENCE: &str = "MIT OR Apache-2.0";

/// The current version of the terms of contributing. Their text is `docs/terms.md`. A new text needs a new
/// number.
pub const TERMS_VERSION: u32 = 1;

/// The header with which a request agrees to the terms: `diode-terms: 1`.
pub const TERMS_HEADER: &str = "diode-terms";

/// What a contribution is given under.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Terms {
    /// Counts up when the text changes.
    pub version: u32,
    /// As an SPDX expression.
    pub licence: String,
    /// In paragraphs, with an empty line between two of them.
    pub text: String,
    /// Where people read them.
    pub address: String,
    /// Whether a contribution of whoever asks would be refused, since nobody has agreed to the terms for it.
    pub asked: bool,
}

/// Agrees to a version of the terms.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Agree {
    /// The one that holds.
    pub version: u32,
}

/// What an account has agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Agreement {
    /// The newest version.
    pub version: u32,
    /// As RFC 3339.
    pub agreed_at: String,
}

named_enum! {
    /// How the licence of an upload is known.
    LicenceBasis("basis of the licence") {
        /// Its sender has agreed to the terms.
        Agreed = "agreed",
        /// The server stated the licence, but asked nobody to agree.
        Stated = "stated",
        /// The upload is older than the terms. The pages of the server stated the licence.
        BeforeTerms = "before-terms",
    }
}

/// Under which licence an upload is given.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UploadLicence {
    /// As an SPDX expression.
    pub spdx: String,
    pub basis: LicenceBasis,
    /// The version of the terms that its sender has agreed to.
    #[serde(default)]
    pub terms: Option<u32>,
}

impl UploadLicence {
    /// The licence of a sender who has agreed to this version. All versions so far have the same licence.
    pub fn agreed(version: u32) -> Self {
        Self { terms: Some(version), ..Self::without_terms(LicenceBasis::Agreed) }
    }

    /// The licence of a sender who was not asked to agree.
    pub fn stated() -> Self {
        Self::without_terms(LicenceBasis::Stated)
    }

    /// The licence of uploads from before the terms, and of uploads that older servers report.
    pub fn before_terms() -> Self {
        Self::without_terms(LicenceBasis::BeforeTerms)
    }

    fn without_terms(basis: LicenceBasis) -> Self {
        Self { spdx: DATA_LICENCE.to_owned(), basis, terms: None }
    }
}

impl std::fmt::Display for UploadLicence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.basis, self.terms) {
            (LicenceBasis::Agreed, Some(version)) => {
                write!(f, "{}, terms of contributing version {version}", self.spdx)
            }
            (LicenceBasis::BeforeTerms, _) => write!(f, "{}, sent before there were terms", self.spdx),
            _ => f.write_str(&self.spdx),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_licence_says_what_it_rests_on() {
        let words = |licence: UploadLicence| licence.to_string();
        assert_eq!(words(UploadLicence::agreed(2)), "MIT OR Apache-2.0, terms of contributing version 2");
        assert_eq!(words(UploadLicence::stated()), "MIT OR Apache-2.0");
        assert_eq!(words(UploadLicence::before_terms()), "MIT OR Apache-2.0, sent before there were terms");
        let json = serde_json::to_string(&UploadLicence::before_terms()).unwrap();
        assert_eq!(json, r#"{"spdx":"MIT OR Apache-2.0","basis":"before-terms","terms":null}"#);
    }
}
