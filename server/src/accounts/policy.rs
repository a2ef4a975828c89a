use clap::ValueEnum;
use serde::Deserialize;

use crate::limits::Limits;

/// Who may make an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SignUps {
    /// Everybody
    Open,
    /// Whoever has the link of an invitation
    Invitation,
    /// Nobody; accounts are made by `diode-server admin create`
    Closed,
}

/// What may be done without an account. Reading is always free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Anonymous {
    /// Only reading
    None,
    /// Uploading, too
    Uploads,
    /// Uploading and training
    All,
}

/// The name of a choice, as it is given.
fn name(choice: &impl ValueEnum) -> String {
    choice.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
}

impl std::fmt::Display for SignUps {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}

impl std::fmt::Display for Anonymous {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}

/// What this server requires of requests.
#[derive(Debug, Clone)]
pub struct Policy {
    pub sign_ups: SignUps,
    pub anonymous: Anonymous,
    /// Where browsers find the server, such as `https://diode.example.org`, without a slash at the end.
    pub public_url: String,
    /// Whether a proxy stands in front, which then states the client's address.
    pub behind_proxy: bool,
    pub limits: Limits,
}

impl Policy {
    /// The name in the public URL.
    pub fn host(&self) -> Option<String> {
        let url: axum::http::Uri = self.public_url.parse().ok()?;
        url.host().map(str::to_owned)
    }

    /// Whether contributions need somebody's agreement to the terms. Where everything is free, those who contribute run
    /// the server.
    pub(crate) fn asks_for_terms(&self) -> bool {
        self.anonymous != Anonymous::All
    }

    /// Whether browsers come over TLS, so that cookies may be held to it.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }
}
