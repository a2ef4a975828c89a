use diode_core::Invalid;
use diode_core::hardware::is_unseen;
use diode_core::ids::{AccountId, AccountName, TokenId};
use diode_core::named_enum::named_enum;
use serde::{Deserialize, Serialize};

/// An account, as its owner sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Account {
    pub id: AccountId,
    pub name: AccountName,
    /// Whether it may look after the server.
    pub admin: bool,
    pub created_at: String,
    /// The terms of contributing that it has agreed to; absent if none.
    #[serde(default)]
    pub terms: Option<Agreement>,
}

/// Who asks, as the request's session or token says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct WhoAsks {
    /// Absent if the request comes without an account.
    pub account: Option<Account>,
}

/// A password on its way to the server. It is never shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Password(String);

impl Password {
    /// Shorter passwords can be guessed from a stolen database.
    const MIN_CHARS: usize = 10;
    /// Longer passwords only cost the server time.
    const MAX_BYTES: usize = 512;

    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    pub fn as_bytes(&self) -> &[u8] {
        self.0.as_bytes()
    }

    /// Whether the owner of the account `name` may choose this password.
    pub fn check(&self, name: &AccountName) -> Result<(), Invalid> {
        let refuse = |given: &str, expected: &str| Err(Invalid::new("password", given, expected));
        if self.0.chars().count() < Self::MIN_CHARS {
            return refuse("fewer than 10 characters", "at least 10; several words in a row are fine");
        }
        if self.0.len() > Self::MAX_BYTES {
            return refuse("more than 512 bytes", "at most 512");
        }
        if self.0.to_lowercase().contains(name.as_str())
            && self.0.len() < name.as_str().len() + Self::MIN_CHARS
        {
            return refuse("little more than the account's name", "something nobody can guess from the name");
        }
        if self.0.chars().all(|c| self.0.starts_with(c)) {
            return refuse("one character many times", "different ones");
        }
        Ok(())
    }
}

impl std::fmt::Debug for Password {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Password(…)")
    }
}

/// Makes an account.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignUp {
    pub name: AccountName,
    pub password: Password,
    /// What stands at the end of the invitation's link. A server may ask for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub invitation: Option<String>,
    /// The version of the terms of contributing that is agreed to. It can be agreed to later, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terms: Option<u32>,
}

/// Begins a session.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SignIn {
    pub name: AccountName,
    pub password: Password,
}

named_enum! {
    /// What becomes of the uploads of an account that is deleted.
    Uploads("what to do with the uploads") {
        /// They stay, but nobody can tell who sent them.
        Keep = "keep",
        /// They are deleted with the account.
        Delete = "delete",
    }
}

named_enum! {
    /// What a token may be used for.
    Scope("scope") {
        /// Sending datasets.
        Upload = "upload",
        /// Measuring what the server asks for.
        Agent = "agent",
        /// Asking for trainings.
        Train = "train",
        /// Looking after the server.
        Admin = "admin",
    }
}

/// Asks for an API token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewToken {
    /// What it is for, in its owner's words.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 1,
            max_length = 64,
            pattern = "^[^\\s\\x00-\\x1f\\x7f]([^\\x00-\\x1f\\x7f]*[^\\s\\x00-\\x1f\\x7f])?$"
        )
    )]
    pub name: String,
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub scopes: Vec<Scope>,
    /// From 1 to 365; 90 unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 365))]
    pub days: Option<u32>,
}

impl NewToken {
    pub const DEFAULT_DAYS: u32 = 90;
    /// Every token ends some day, in case its owner forgets it.
    pub const MAX_DAYS: u32 = 365;

    /// Checks the request, and returns for how many days the token works.
    pub fn check(&self) -> Result<u32, Invalid> {
        check_name("token name", &self.name)?;
        check_scopes(&self.scopes)?;
        let days = self.days.unwrap_or(Self::DEFAULT_DAYS);
        if (1..=Self::MAX_DAYS).contains(&days) {
            Ok(days)
        } else {
            Err(Invalid::new("days", days, format!("1 to {}", Self::MAX_DAYS)))
        }
    }
}

fn check_name(subject: &str, name: &str) -> Result<(), Invalid> {
    const MAX_CHARS: usize = 64;
    if name.trim() == name && (1..=MAX_CHARS).contains(&name.chars().count()) && !name.chars().any(is_unseen)
    {
        return Ok(());
    }
    let given = format!("`{:.80}`", name.escape_debug().to_string());
    Err(Invalid::new(subject, given, "1 to 64 printable characters without spaces around them"))
}

fn check_scopes(scopes: &[Scope]) -> Result<(), Invalid> {
    let repeated = scopes.iter().enumerate().any(|(i, scope)| scopes[..i].contains(scope));
    if !scopes.is_empty() && !repeated {
        return Ok(());
    }
    let given: Vec<_> = scopes.iter().map(|scope| scope.as_str()).collect();
    let given = if given.is_empty() { "none".to_owned() } else { given.join(", ") };
    Err(Invalid::new("scopes", given, "one or more of upload, agent, train, admin, each once"))
}

/// An API token, as its owner sees it afterwards.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Token {
    pub id: TokenId,
    pub name: String,
    pub scopes: Vec<Scope>,
    pub created_at: String,
    pub expires_at: String,
    /// To the minute; `None` if it was never used.
    pub used_at: Option<String>,
}

/// A token that has just been made. The secret is shown this once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct IssuedToken {
    /// What to send as `Authorization: Bearer …`.
    pub secret: String,
    pub token: Token,
}

/// A program asks for a token, which its user allows in a browser.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceRequest {
    /// What the user is to recognise: program and machine.
    #[cfg_attr(
        feature = "openapi",
        schema(
            min_length = 1,
            max_length = 64,
            pattern = "^[^\\s\\x00-\\x1f\\x7f]([^\\x00-\\x1f\\x7f]*[^\\s\\x00-\\x1f\\x7f])?$"
        )
    )]
    pub name: String,
    #[cfg_attr(feature = "openapi", schema(min_items = 1))]
    pub scopes: Vec<Scope>,
}

impl DeviceRequest {
    pub fn check(&self) -> Result<(), Invalid> {
        check_name("name", &self.name)?;
        check_scopes(&self.scopes)
    }
}

/// Where the user goes, and what the program asks with meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeviceCode {
    /// The program's secret.
    pub device_code: String,
    /// What the page shows, so that the user can compare.
    pub user_code: String,
    /// The page to open.
    pub verification_uri: String,
    /// Seconds.
    pub expires_in: u64,
    /// Seconds between two questions.
    pub interval: u64,
}

/// Asks whether the user has allowed it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DevicePoll {
    pub device_code: String,
}

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
    fn passwords_are_judged_and_never_shown() {
        let name: AccountName = "ada-lovelace".parse().unwrap();
        let refused = |text: &str| Password::new(text).check(&name).unwrap_err().to_string();
        assert!(refused("too short").contains("at least 10"));
        assert!(refused("Ada-Lovelace1").contains("name"));
        assert!(refused("aaaaaaaaaaaaaaa").contains("different"));
        assert!(refused(&"ab".repeat(300)).contains("at most 512"));
        let good = Password::new("correct horse battery staple");
        assert_eq!(good.check(&name), Ok(()));
        assert!(!format!("{good:?}").contains("horse"));
    }
}

#[cfg(test)]
mod tokens_tests {
    use super::*;

    #[test]
    fn tokens_are_checked_before_they_are_made() {
        let good = NewToken { name: "gpu01".into(), scopes: vec![Scope::Upload], days: None };
        assert_eq!(good.check(), Ok(90));
        let bad = [
            NewToken { name: String::new(), ..good.clone() },
            NewToken { name: "a\u{202e}b".into(), ..good.clone() },
            NewToken { name: "a\u{2028}b".into(), ..good.clone() },
            NewToken { name: " a".into(), ..good.clone() },
            NewToken { scopes: vec![], ..good.clone() },
            NewToken { scopes: vec![Scope::Train, Scope::Train], ..good.clone() },
            NewToken { days: Some(0), ..good.clone() },
            NewToken { days: Some(366), ..good.clone() },
        ];
        for token in bad {
            assert!(token.check().is_err(), "{token:?}");
        }
    }
}

#[cfg(test)]
mod terms_tests {
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
