use serde::{Deserialize, Serialize};

use crate::Invalid;
use crate::hardware::is_unseen;
use crate::ids::TokenId;
use crate::named_enum::named_enum;

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

#[cfg(test)]
mod tests {
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
