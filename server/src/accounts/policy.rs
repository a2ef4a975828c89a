use clap::ValueEnum;
use diode_api::Account;
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

/// Whose data lead boards and teach models.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lead {
    /// All that arrives, as if it were the operator's
    Unconfirmed,
    /// The operator's and the first there was, and what others confirm
    Confirmed,
}

/// The name of a choice, as the user writes it in the settings.
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

impl std::fmt::Display for Lead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&name(self))
    }
}

/// What this server requires of requests.
#[derive(Debug, Clone)]
pub struct Policy {
    pub sign_ups: SignUps,
    pub anonymous: Anonymous,
    pub lead: Lead,
    /// Where browsers find the server, such as `https://diode.example.org`, without a slash at the end.
    pub public_url: String,
    /// Whether a proxy in front of the server states the client's address.
    pub behind_proxy: bool,
    /// Whether the server itself speaks TLS.
    pub tls: bool,
    pub limits: Limits,
}

impl Policy {
    /// The name in the public URL.
    pub fn host(&self) -> Option<String> {
        let url: axum::http::Uri = self.public_url.parse().ok()?;
        url.host().map(str::to_owned)
    }

    /// Whether contributions need an agreement to the terms. They need no agreement where everything may be done
    /// without an account: there, the contributors run the server themselves.
    pub(crate) fn asks_for_terms(&self) -> bool {
        self.anonymous != Anonymous::All
    }

    /// Whether the operator vouches for what this account uploads.
    pub(crate) fn vouches_for(&self, account: Option<&Account>) -> bool {
        self.lead == Lead::Unconfirmed || account.is_some_and(|account| account.admin)
    }

    /// Whether browsers come over TLS. If so, cookies are sent over TLS alone.
    pub(crate) fn is_secure(&self) -> bool {
        self.public_url.starts_with("https://")
    }

    /// Whether browsers are told to use TLS alone from now on. On `localhost` they are not told: they would then
    /// use TLS for all other servers under that name on this machine, too.
    pub(crate) fn is_strict(&self) -> bool {
        let is_local = self.host().is_none_or(|host| host == "localhost" || host.ends_with(".localhost"));
        self.is_secure() && (self.tls || self.behind_proxy) && !is_local
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn browsers_are_held_to_tls_only_where_it_is_spoken() {
        let is_strict = |public_url: &str, tls, behind_proxy| {
            let (sign_ups, anonymous, limits) = (SignUps::Open, Anonymous::All, Limits::default());
            let lead = Lead::Confirmed;
            let public_url = public_url.to_owned();
            Policy { sign_ups, anonymous, lead, public_url, behind_proxy, tls, limits }.is_strict()
        };
        assert!(is_strict("https://diode.example.org", false, true));
        assert!(is_strict("https://diode.example.org:8443", true, false));
        assert!(!is_strict("http://diode.example.org", false, true));
        assert!(!is_strict("http://127.0.0.1:8080", false, false));
        // Another program does the TLS, and may stop doing so.
        assert!(!is_strict("https://diode.example.org", false, false));
        assert!(!is_strict("https://localhost:8443", true, false));
    }
}
