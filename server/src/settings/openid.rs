//! The OpenID Connect provider by which people may sign in.

use std::net::IpAddr;
use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use serde::Deserialize;

/// A variable with the client's secret, for people who do not keep secrets in files.
const SECRET_VARIABLE: &str = "DIODE_OPENID_CLIENT_SECRET";

/// The settings of the provider, by flag or variable.
#[derive(Debug, Clone, Default, Args)]
pub struct OpenIdArgs {
    /// An OpenID Connect provider by which people may sign in, such as `https://login.example.org` [default: none]
    #[arg(long, env = "DIODE_OPENID_ISSUER", value_name = "URL")]
    pub openid_issuer: Option<String>,

    /// The name by which the provider knows this server
    #[arg(long, env = "DIODE_OPENID_CLIENT_ID", value_name = "ID")]
    pub openid_client_id: Option<String>,

    /// A file that holds the client's secret; DIODE_OPENID_CLIENT_SECRET may hold it instead
    #[arg(long, env = "DIODE_OPENID_CLIENT_SECRET_FILE", value_name = "FILE")]
    pub openid_client_secret_file: Option<PathBuf>,

    /// What people call the provider: the button says `Sign in with LABEL` [default: the name in the issuer's URL]
    #[arg(long, env = "DIODE_OPENID_LABEL", value_name = "LABEL")]
    pub openid_label: Option<String>,
}

/// The settings of the provider in `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OpenIdFile {
    issuer: Option<String>,
    client_id: Option<String>,
    client_secret_file: Option<PathBuf>,
    label: Option<String>,
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
    /// Combines flags and file; `None` if there is no provider.
    pub(super) fn resolve(args: OpenIdArgs, file: OpenIdFile) -> anyhow::Result<Option<Self>> {
        let client_id = args.openid_client_id.or(file.client_id);
        let client_secret_file = args.openid_client_secret_file.or(file.client_secret_file);
        let label = args.openid_label.or(file.label);
        let Some(issuer) = args.openid_issuer.or(file.issuer) else {
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
        Ok(Some(Self { issuer, client_id, client_secret_file, label }))
    }

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
    let address: Option<IpAddr> = host.trim_matches(['[', ']']).parse().ok();
    let is_loopback = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    if scheme != "https" && !(scheme == "http" && is_loopback) {
        bail!("openid issuer: got `{issuer}`, expected https://: others could pretend to be the provider");
    }
    Ok(host.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(issuer: &str) -> OpenIdArgs {
        OpenIdArgs {
            openid_issuer: Some(issuer.to_owned()),
            openid_client_id: Some("diode".to_owned()),
            ..OpenIdArgs::default()
        }
    }

    #[test]
    fn flags_win_over_the_file_and_half_a_provider_is_refused() {
        let resolve = |args, file| OpenId::resolve(args, file).map_err(|error| error.to_string());
        assert_eq!(resolve(OpenIdArgs::default(), OpenIdFile::default()), Ok(None));
        let file = || OpenIdFile {
            issuer: Some("https://file.example".to_owned()),
            label: Some("Example".to_owned()),
            ..OpenIdFile::default()
        };
        let found = resolve(args("https://flag.example/realms/a"), file()).unwrap().unwrap();
        assert_eq!(
            (found.issuer.as_str(), found.label.as_str()),
            ("https://flag.example/realms/a", "Example")
        );
        let found = resolve(args("https://flag.example:8443"), OpenIdFile::default()).unwrap().unwrap();
        assert_eq!(found.label, "flag.example");
        assert!(resolve(OpenIdArgs::default(), file()).unwrap_err().contains("--openid-client-id"));
        let alone = OpenIdArgs { openid_issuer: None, ..args("") };
        assert!(resolve(alone, OpenIdFile::default()).unwrap_err().contains("--openid-issuer"));
        for bad in [
            "login.example.org",
            "http://login.example.org",
            "https://",
            "https://a?b=c",
            "http://127.evil.example",
        ] {
            let error = resolve(args(bad), OpenIdFile::default()).unwrap_err();
            assert!(error.contains(bad), "{error}");
        }
        assert!(resolve(args("http://127.0.0.1:9000"), OpenIdFile::default()).is_ok());
        let label = OpenIdArgs { openid_label: Some("a\nb".to_owned()), ..args("https://a.example") };
        assert!(resolve(label, OpenIdFile::default()).unwrap_err().contains("1 to 40"));
    }

    #[test]
    fn the_secret_is_read_from_its_file_and_never_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("secret");
        let of = |client_secret_file| OpenId {
            client_secret_file,
            ..OpenId::resolve(args("https://a.example"), OpenIdFile::default()).unwrap().unwrap()
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
