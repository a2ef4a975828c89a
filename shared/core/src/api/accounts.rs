use serde::{Deserialize, Serialize};

use super::Agreement;
use super::moderation::Reason;
use crate::Invalid;
use crate::ids::{AccountId, AccountName};
use crate::named_enum::named_enum;

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

/// Changes the password; all other sessions end.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NewPassword {
    /// Needed, unless the account has no password yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub current: Option<Password>,
    pub new: Password,
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

/// Deletes an account for good.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DeleteAccount {
    /// Needed, unless the account has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Password>,
    pub uploads: Uploads,
}

/// An identity by which somebody can sign in to an account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct LinkedIdentity {
    /// The address of the OpenID Connect provider.
    pub issuer: String,
    /// When it was linked, as RFC 3339.
    pub since: String,
}

/// Takes an identity off somebody's account. It is written down with the reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UnlinkIdentity {
    pub issuer: String,
    pub reason: Reason,
}

/// A link by which one account can be made.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Invitation {
    /// The address to open in a browser.
    pub link: String,
    pub expires_at: String,
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
