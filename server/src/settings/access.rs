//! Who may reach the server, and what they may do.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde::Deserialize;

use super::limits::{GivenLimits, LimitArgs, LimitFile};
use crate::accounts::{Anonymous, Policy, SignUps};
use crate::tls::TlsFiles;

/// The settings of access, by flag or variable.
#[derive(Debug, Clone, Default, Args)]
pub struct AccessArgs {
    /// Who may make an account [default: open on loopback, else invitation]
    #[arg(long, env = "DIODE_SIGN_UPS", value_name = "WHO")]
    pub sign_ups: Option<SignUps>,

    /// What may be done without an account [default: all on loopback, else none]
    #[arg(long, env = "DIODE_ANONYMOUS", value_name = "WHAT")]
    pub anonymous: Option<Anonymous>,

    /// Where browsers find the server, such as `https://diode.example.org` [default on loopback: its own address]
    #[arg(long, env = "DIODE_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,

    /// The server's certificate and those it depends on (PEM), to end TLS without a proxy
    #[arg(long, env = "DIODE_TLS_CERTIFICATE", value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,

    /// The key of the certificate (PEM)
    #[arg(long, env = "DIODE_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// A proxy that ends TLS stands in front of the server and adds X-Forwarded-For
    #[arg(long, env = "DIODE_BEHIND_PROXY")]
    pub behind_proxy: bool,

    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The settings of access in `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessFile {
    sign_ups: Option<SignUps>,
    anonymous: Option<Anonymous>,
    public_url: Option<String>,
    tls_certificate: Option<PathBuf>,
    tls_key: Option<PathBuf>,
    behind_proxy: Option<bool>,
}

/// The settings of access in force.
#[derive(Debug, Clone, Default)]
pub struct Access {
    sign_ups: Option<SignUps>,
    anonymous: Option<Anonymous>,
    public_url: Option<String>,
    tls: Option<TlsFiles>,
    behind_proxy: bool,
    limits: GivenLimits,
}

impl Access {
    /// Combines flags and file, for a server that listens on `listen`.
    pub(super) fn resolve(
        args: AccessArgs,
        file: AccessFile,
        limits: &LimitFile,
        listen: SocketAddr,
    ) -> anyhow::Result<Self> {
        let access = Self {
            sign_ups: args.sign_ups.or(file.sign_ups),
            anonymous: args.anonymous.or(file.anonymous),
            public_url: args.public_url.or(file.public_url).map(|url| public_url(&url)).transpose()?,
            tls: tls(args.tls_certificate.or(file.tls_certificate), args.tls_key.or(file.tls_key))?,
            limits: GivenLimits::resolve(&args.limits, limits),
            behind_proxy: args.behind_proxy || file.behind_proxy.unwrap_or_default(),
        };
        let is_loopback = listen.ip().is_loopback();
        if !is_loopback && !access.behind_proxy && access.tls.is_none() {
            bail!(
                "listen: got `{listen}`, expected a loopback address such as 127.0.0.1:8080: beyond this machine \
                 passwords and tokens need TLS; add --tls-certificate FILE --tls-key FILE --public-url https://NAME, \
                 or let a proxy end TLS in front of the server and add --behind-proxy --public-url https://NAME \
                 (docs: operating a server)"
            );
        }
        if access.behind_proxy && access.public_url.is_none() {
            bail!("--behind-proxy needs --public-url https://NAME: where browsers find the server");
        }
        if access.tls.is_some() && !is_loopback && access.public_url.is_none() {
            bail!("--tls-certificate needs --public-url https://NAME: where browsers find the server");
        }
        if let Some(url) = access.public_url.as_ref().filter(|url| url.starts_with("http://"))
            && access.tls.is_some()
        {
            bail!("public URL: got `{url}`, expected https://, since the server has a certificate");
        }
        Ok(access)
    }

    /// The files of the certificate; `None` if the server has no TLS of its own.
    pub fn tls(&self) -> Option<&TlsFiles> {
        self.tls.as_ref()
    }

    /// The policy, once the server has bound its address.
    pub fn policy(&self, bound: SocketAddr) -> Policy {
        let is_local = bound.ip().is_loopback() && !self.behind_proxy;
        let sign_ups = if is_local { SignUps::Open } else { SignUps::Invitation };
        let anonymous = if is_local { Anonymous::All } else { Anonymous::None };
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        Policy {
            sign_ups: self.sign_ups.unwrap_or(sign_ups),
            anonymous: self.anonymous.unwrap_or(anonymous),
            public_url: self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{bound}")),
            behind_proxy: self.behind_proxy,
            tls: self.tls.is_some(),
            limits: self.limits.in_force(is_local),
        }
    }
}

/// A certificate with its key, or neither.
fn tls(certificate: Option<PathBuf>, key: Option<PathBuf>) -> anyhow::Result<Option<TlsFiles>> {
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
        (None, None) => Ok(None),
        (Some(_), None) => bail!("--tls-certificate needs --tls-key FILE: the key of the certificate"),
        (None, Some(_)) => bail!("--tls-key needs --tls-certificate FILE: the certificate that it is for"),
    }
}

/// The URL without a slash at its end, as browsers write an origin.
fn public_url(given: &str) -> anyhow::Result<String> {
    let url = given.strip_suffix('/').unwrap_or(given);
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:[]".contains(&b);
    let Some(host) = host.filter(|host| !host.is_empty() && host.bytes().all(plain)) else {
        bail!(
            "public URL: got `{given}`, expected only a scheme and a name, such as https://diode.example.org"
        );
    };
    let loopback = ["localhost", "127.", "[::1]"].iter().any(|name| host.starts_with(name));
    if url.starts_with("http://") && !loopback {
        bail!(
            "public URL: got `{given}`, expected https://: passwords and tokens must not travel in the clear"
        );
    }
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(listen: &str, args: AccessArgs) -> Result<Policy, String> {
        let listen = listen.parse().unwrap();
        let access = Access::resolve(args, AccessFile::default(), &LimitFile::default(), listen);
        access.map(|access| access.policy(listen)).map_err(|error| error.to_string())
    }

    #[test]
    fn beyond_loopback_there_is_a_proxy_and_nothing_is_free() {
        let local = resolve("127.0.0.1:8080", AccessArgs::default()).unwrap();
        assert_eq!((local.sign_ups, local.anonymous), (SignUps::Open, Anonymous::All));
        assert_eq!(local.public_url, "http://127.0.0.1:8080");
        assert!(resolve("[::1]:8080", AccessArgs::default()).is_ok());

        let error = resolve("0.0.0.0:8080", AccessArgs::default()).unwrap_err();
        assert!(error.contains("--behind-proxy --public-url"), "{error}");
        let proxied = AccessArgs { behind_proxy: true, ..AccessArgs::default() };
        assert!(resolve("0.0.0.0:8080", proxied.clone()).unwrap_err().contains("--public-url"));

        let public_url = Some("https://diode.example.org/".to_owned());
        let proxied = AccessArgs { public_url, ..proxied };
        // A proxy usually runs on the same machine, so a server on loopback may be public.
        for listen in ["0.0.0.0:8080", "127.0.0.1:8080"] {
            let public = resolve(listen, proxied.clone()).unwrap();
            assert_eq!((public.sign_ups, public.anonymous), (SignUps::Invitation, Anonymous::None));
            assert_eq!(public.public_url, "https://diode.example.org");
            assert!(public.is_secure());
        }
    }

    #[test]
    fn with_a_certificate_no_proxy_is_needed() {
        let whole = AccessArgs {
            tls_certificate: Some("c.pem".into()),
            tls_key: Some("k.pem".into()),
            ..AccessArgs::default()
        };
        let local = resolve("127.0.0.1:8443", whole.clone()).unwrap();
        assert_eq!((local.public_url.as_str(), local.anonymous), ("https://127.0.0.1:8443", Anonymous::All));
        assert!(local.is_secure());
        assert!(resolve("0.0.0.0:443", whole.clone()).unwrap_err().contains("--public-url"));
        let named = |url: &str| AccessArgs { public_url: Some(url.to_owned()), ..whole.clone() };
        let public = resolve("0.0.0.0:443", named("https://diode.example.org")).unwrap();
        assert_eq!((public.sign_ups, public.anonymous), (SignUps::Invitation, Anonymous::None));
        assert!(!public.behind_proxy, "X-Forwarded-For is the client's own word");
        assert!(resolve("127.0.0.1:1", named("http://localhost")).unwrap_err().contains("https://"));
        let halves =
            [AccessArgs { tls_key: None, ..whole.clone() }, AccessArgs { tls_certificate: None, ..whole }];
        for (half, missing) in halves.into_iter().zip(["--tls-key FILE", "--tls-certificate FILE"]) {
            let error = resolve("127.0.0.1:1", half).unwrap_err();
            assert!(error.contains(missing), "{error}");
        }
    }

    #[test]
    fn public_urls_are_origins() {
        for good in
            ["https://diode.example.org", "https://h:8443", "http://localhost:8080", "http://127.0.0.1:1"]
        {
            assert_eq!(public_url(good).unwrap(), good);
        }
        for bad in ["diode.example.org", "https://", "https://a/b", "http://diode.example.org", "https://A b"]
        {
            assert!(public_url(bad).is_err(), "{bad}");
        }
    }
}
