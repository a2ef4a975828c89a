//! The OpenID Connect provider by which people may sign in.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;

use super::is_loopback;

/// A variable with the client's secret, for people who do not keep secrets in files.
const SECRET_VARIABLE: &str = "DIODE_OPENID_CLIENT_SECRET";

/// The OpenID Connect provider by which people may sign in, in addition to passwords.
#[derive(Debug, Clone, Default, Args)]
#[group(skip)]
pub struct OpenIdSettings {
    /// An OpenID Connect provider by which people may sign in, such as `https://login.example.org` [default: none]
    #[arg(id = "openid.issuer", long = "openid-issuer", env = "DIODE_OPENID_ISSUER", value_name = "URL")]
    pub issuer: Option<String>,

    /// The name by which the provider knows this server [default: none]
    #[arg(
        id = "openid.client_id",
        long = "openid-client-id",
        env = "DIODE_OPENID_CLIENT_ID",
        value_name = "ID"
    )]
    pub client_id: Option<String>,

    /// A file that holds the client's secret; DIODE_OPENID_CLIENT_SECRET may hold it instead [default: none]
    #[arg(
        id = "openid.client_secret_file",
        long = "openid-client-secret-file",
        env = "DIODE_OPENID_CLIENT_SECRET_FILE",
        value_name = "FILE"
    )]
    pub client_secret_file: Option<PathBuf>,

    /// What people call the provider: the button says `Sign in with LABEL` [default: the name in the issuer's URL]
    #[arg(id = "openid.label", long = "openid-label", env = "DIODE_OPENID_LABEL", value_name = "LABEL")]
    pub label: Option<String>,
}

impl OpenIdSettings {
    /// The provider; `None` if people sign in by password alone.
    pub(super) fn provider(&self) -> anyhow::Result<Option<OpenId>> {
        let Self { issuer, client_id, client_secret_file, label } = self.clone();
        let Some(issuer) = issuer else {
            if client_id.is_some() || client_secret_file.is_some() || label.is_some() {
                bail!("openid: got settings of a provider without its issuer; add --openid-issuer URL");
            }
            return Ok(None);
        };
        let host = host_of(&issuer)?;
        let Some(client_id) = client_id.filter(|id| !id.is_empty()) else {
            bail!(
                "--openid-issuer needs --openid-client-id ID: the name by which the provider knows this server"
            );
        };
        let label = label.unwrap_or(host);
        if label.trim().is_empty() || label.chars().count() > 40 || label.chars().any(char::is_control) {
            bail!("openid label: got `{label}`, expected 1 to 40 characters on one line");
        }
        Ok(Some(OpenId { issuer, client_id, client_secret_file, label }))
    }
}

/// The provider in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenId {
    /// Exactly as the provider writes it, because it is part of each identity.
    pub issuer: String,
    pub client_id: String,
    pub client_secret_file: Option<PathBuf>,
    pub label: String,
}

/// The secret by which this server proves to the provider who it is.
pub struct ClientSecret(String);

impl ClientSecret {
    pub fn into_text(self) -> String {
        self.0
    }
}

impl std::fmt::Debug for ClientSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ClientSecret(…)")
    }
}

impl OpenId {
    /// Reads the client's secret from the variable or else from the file. `None` for a client without a secret,
    /// which shows only the proof of each sign-in (PKCE).
    pub fn client_secret(&self) -> anyhow::Result<Option<ClientSecret>> {
        let secret = match (std::env::var(SECRET_VARIABLE), &self.client_secret_file) {
            (Ok(secret), _) => secret,
            (Err(_), None) => return Ok(None),
            (Err(_), Some(file)) => std::fs::read_to_string(file)
                .with_context(|| format!("openid client_secret_file {}", file.display()))?,
        };
        let secret = secret.trim().to_owned();
        if secret.is_empty() {
            bail!("openid: got an empty client secret, expected the one that the provider gave");
        }
        Ok(Some(ClientSecret(secret)))
    }
}

/// The host in an issuer's URL.
fn host_of(issuer: &str) -> anyhow::Result<String> {
    let expected = "expected a URL such as https://login.example.org, as the provider itself writes it";
    let url: axum::http::Uri =
        issuer.parse().with_context(|| format!("openid issuer: got `{issuer}`, {expected}"))?;
    let (Some(scheme), Some(host), None) = (url.scheme_str(), url.host(), url.query()) else {
        bail!("openid issuer: got `{issuer}`, {expected}");
    };
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        bail!("openid issuer: got a URL with a user or password, {expected}");
    }
    if scheme != "https" && !(scheme == "http" && is_loopback(host)) {
        bail!("openid issuer: got `{issuer}`, expected https://: others could pretend to be the provider");
    }
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(issuer: &str) -> OpenIdSettings {
        OpenIdSettings {
            issuer: Some(issuer.to_owned()),
            client_id: Some("diode".to_owned()),
            ..OpenIdSettings::default()
        }
    }

    #[test]
    fn half_a_provider_is_refused() {
        let resolve = |settings: OpenIdSettings| settings.provider().map_err(|error| error.to_string());
        assert_eq!(resolve(OpenIdSettings::default()), Ok(None));
        let found = resolve(settings("https://flag.example:8443/realms/a")).unwrap().unwrap();
        assert_eq!(
            (found.issuer.as_str(), found.label.as_str()),
            ("https://flag.example:8443/realms/a", "flag.example")
        );
        let nameless = OpenIdSettings { client_id: None, ..settings("https://a.example") };
        assert!(resolve(nameless).unwrap_err().contains("--openid-client-id"));
        let alone = OpenIdSettings { issuer: None, ..settings("") };
        assert!(resolve(alone).unwrap_err().contains("--openid-issuer"));
        for bad in [
            "login.example.org",
            "http://login.example.org",
            "https://",
            "https://a?b=c",
            "http://127.evil.example",
        ] {
            let error = resolve(settings(bad)).unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
        assert!(resolve(settings("http://127.0.0.1:9000")).is_ok());
        let label = OpenIdSettings { label: Some("a\nb".to_owned()), ..settings("https://a.example") };
        assert!(resolve(label).unwrap_err().contains("1 to 40"));
    }

    #[test]
    fn the_secret_is_read_from_its_file_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let of = |client_secret_file| OpenId {
            client_secret_file,
            ..settings("https://a.example").provider().unwrap().unwrap()
        };
        assert!(of(None).client_secret().unwrap().is_none());
        let error = format!("{:#}", of(Some(file.clone())).client_secret().unwrap_err());
        assert!(error.contains("secret"), "{error}");
        for (text, expected) in [("  \n", None), ("s3cret\n", Some("s3cret"))] {
            diode_formats::write_atomically(&file, text.as_bytes()).unwrap();
            let read = of(Some(file.clone())).client_secret().ok().flatten();
            assert!(!format!("{read:?}").contains("s3cret"));
            assert_eq!(read.map(ClientSecret::into_text).as_deref(), expected);
        }
    }
}
