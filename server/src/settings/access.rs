//! Who may reach the server, and what they may do.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::bail;
use clap::Args;

use super::is_loopback;
use crate::accounts::{Anonymous, Lead, Policy, SignUps};
use crate::limits::Limits;
use crate::tls::TlsFiles;

/// Who may reach the server, and what they may do.
#[derive(Debug, Clone, Args)]
#[group(skip)]
pub struct Access {
    /// Where browsers find the server, such as `https://diode.example.org` [default on loopback: its own address]
    #[arg(
        id = "access.public_url",
        long = "public-url",
        env = "DIODE_PUBLIC_URL",
        value_name = "URL",
        value_parser = public_url
    )]
    pub public_url: Option<String>,

    /// The server's certificate and those it depends on (PEM), to end TLS without a proxy [default: none]
    #[arg(
        id = "access.tls_certificate",
        long = "tls-certificate",
        env = "DIODE_TLS_CERTIFICATE",
        value_name = "FILE"
    )]
    pub tls_certificate: Option<PathBuf>,

    /// The key of the certificate (PEM) [default: none]
    #[arg(id = "access.tls_key", long = "tls-key", env = "DIODE_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,

    /// A proxy that ends TLS stands in front of the server and adds X-Forwarded-For
    #[arg(id = "access.behind_proxy", long = "behind-proxy", env = "DIODE_BEHIND_PROXY")]
    pub behind_proxy: bool,

    /// Who may make an account [default: open on loopback, else invitation]
    #[arg(id = "access.sign_ups", long = "sign-ups", env = "DIODE_SIGN_UPS", value_name = "WHO")]
    pub sign_ups: Option<SignUps>,

    /// What may be done without an account [default: all on loopback, else none]
    #[arg(id = "access.anonymous", long = "anonymous", env = "DIODE_ANONYMOUS", value_name = "WHAT")]
    pub anonymous: Option<Anonymous>,

    /// Whose new data lead boards and teach models [default: unconfirmed if all is free without an account, else confirmed]
    #[arg(id = "access.lead", long = "lead", env = "DIODE_LEAD", value_name = "WHOSE")]
    pub lead: Option<Lead>,

    #[command(flatten)]
    pub limits: LimitSettings,
}

/// How often an account or an address may do something. 0 is no limit.
#[derive(Debug, Clone, Copy, Args)]
#[group(skip)]
pub struct LimitSettings {
    /// Uploads and agents' results per minute and account or address; 0 for any number [default: none on loopback, else 1200]
    #[arg(
        id = "limits.uploads_per_minute",
        long = "uploads-per-minute",
        env = "DIODE_UPLOADS_PER_MINUTE",
        value_name = "NUMBER"
    )]
    pub uploads: Option<u64>,

    /// Other requests that change something [default: none on loopback, else 1200]
    #[arg(
        id = "limits.changes_per_minute",
        long = "changes-per-minute",
        env = "DIODE_CHANGES_PER_MINUTE",
        value_name = "NUMBER"
    )]
    pub changes: Option<u64>,

    /// Datasets, tables and lists of configs that the client lacks, and comparisons [default: none on loopback, else 120]
    #[arg(
        id = "limits.exports_per_minute",
        long = "exports-per-minute",
        env = "DIODE_EXPORTS_PER_MINUTE",
        value_name = "NUMBER"
    )]
    pub exports: Option<u64>,
}

impl LimitSettings {
    /// The limits in force. A server that only this machine can reach has other defaults than a public server.
    fn in_force(self, is_local: bool) -> Limits {
        let default = if is_local { Limits::default() } else { Limits::PUBLIC };
        let or = |given: Option<u64>, default| match given {
            Some(0) => None,
            Some(number) => Some(number),
            None => default,
        };
        Limits {
            uploads: or(self.uploads, default.uploads),
            changes: or(self.changes, default.changes),
            exports: or(self.exports, default.exports),
        }
    }
}

impl Access {
    /// Fails if a server that listens on `listen` could not be reached, or not safely.
    pub(super) fn check(&self, listen: SocketAddr) -> anyhow::Result<()> {
        match (&self.tls_certificate, &self.tls_key) {
            (Some(_), None) => bail!("--tls-certificate needs --tls-key FILE: the key of the certificate"),
            (None, Some(_)) => {
                bail!("--tls-key needs --tls-certificate FILE: the certificate that it is for")
            }
            _ => {}
        }
        let (has_tls, is_loopback) = (self.tls().is_some(), listen.ip().is_loopback());
        if !is_loopback && !self.behind_proxy && !has_tls {
            bail!(
                "listen: got `{listen}`, expected a loopback address such as 127.0.0.1:8080: beyond this machine \
                 passwords and tokens need TLS; add --tls-certificate FILE --tls-key FILE --public-url https://NAME, \
                 or let a proxy end TLS in front of the server and add --behind-proxy --public-url https://NAME \
                 (docs: operating a server)"
            );
        }
        if self.behind_proxy && self.public_url.is_none() {
            bail!("--behind-proxy needs --public-url https://NAME: where browsers find the server");
        }
        if has_tls && !is_loopback && self.public_url.is_none() {
            bail!("--tls-certificate needs --public-url https://NAME: where browsers find the server");
        }
        if let Some(url) = self.public_url.as_ref().filter(|url| url.starts_with("http://"))
            && has_tls
        {
            bail!("public URL: got `{url}`, expected https://, since the server has a certificate");
        }
        Ok(())
    }

    /// The files of the certificate; `None` if the server has no TLS of its own.
    pub fn tls(&self) -> Option<TlsFiles> {
        let (certificate, key) = self.tls_certificate.clone().zip(self.tls_key.clone())?;
        Some(TlsFiles { certificate, key })
    }

    /// The policy, once the server has bound its address.
    pub fn policy(&self, bound: SocketAddr) -> Policy {
        let is_local = bound.ip().is_loopback() && !self.behind_proxy;
        let sign_ups = if is_local { SignUps::Open } else { SignUps::Invitation };
        let anonymous = if is_local { Anonymous::All } else { Anonymous::None };
        let has_tls = self.tls().is_some();
        let scheme = if has_tls { "https" } else { "http" };
        let anonymous = self.anonymous.unwrap_or(anonymous);
        // Where everything may be done without an account, the contributors run the server themselves.
        let lead = if anonymous == Anonymous::All { Lead::Unconfirmed } else { Lead::Confirmed };
        Policy {
            sign_ups: self.sign_ups.unwrap_or(sign_ups),
            anonymous,
            lead: self.lead.unwrap_or(lead),
            public_url: self.public_url.clone().unwrap_or_else(|| format!("{scheme}://{bound}")),
            behind_proxy: self.behind_proxy,
            tls: has_tls,
            limits: self.limits.in_force(is_local),
        }
    }
}

/// The URL without a slash at its end, as browsers write an origin.
fn public_url(given: &str) -> Result<String, String> {
    let url = given.strip_suffix('/').unwrap_or(given);
    let host = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-.:[]".contains(&b);
    let Some(host) = host.filter(|host| !host.is_empty() && host.bytes().all(plain)) else {
        return Err(format!(
            "got `{given}`, expected only a scheme and a name, such as https://diode.example.org"
        ));
    };
    if url.starts_with("http://") && !is_loopback(host) {
        return Err(format!(
            "got `{given}`, expected https://: passwords and tokens must not travel in the clear"
        ));
    }
    Ok(url.to_owned())
}

#[cfg(test)]
mod tests {
    use clap::builder::Resettable;
    use clap::{Command, FromArgMatches as _};

    use super::*;

    fn access(flags: &[&str]) -> Access {
        let command = Access::augment_args(Command::new("")).mut_args(|arg| arg.env(Resettable::Reset));
        let matches = command.no_binary_name(true).get_matches_from(flags);
        Access::from_arg_matches(&matches).unwrap()
    }

    fn resolve(listen: &str, flags: &[&str]) -> Result<Policy, String> {
        let (listen, access) = (listen.parse().unwrap(), access(flags));
        access.check(listen).map(|()| access.policy(listen)).map_err(|error| error.to_string())
    }

    #[test]
    fn this_machine_alone_is_not_limited_unless_asked() {
        let none = access(&[]).limits;
        assert_eq!(none.in_force(true), Limits::default());
        assert_eq!(none.in_force(false), Limits::PUBLIC);
        let given = access(&["--uploads-per-minute=5", "--changes-per-minute=7", "--exports-per-minute=0"]);
        let expected = Limits { uploads: Some(5), changes: Some(7), exports: None };
        for is_local in [true, false] {
            assert_eq!(given.limits.in_force(is_local), expected);
        }
    }

    #[test]
    fn beyond_loopback_there_is_a_proxy_and_nothing_is_free() {
        let local = resolve("127.0.0.1:8080", &[]).unwrap();
        assert_eq!((local.sign_ups, local.anonymous), (SignUps::Open, Anonymous::All));
        assert_eq!(local.lead, Lead::Unconfirmed);
        let with_accounts = resolve("127.0.0.1:8080", &["--anonymous=none"]).unwrap();
        assert_eq!(with_accounts.lead, Lead::Confirmed);
        assert_eq!(local.public_url, "http://127.0.0.1:8080");
        assert!(resolve("[::1]:8080", &[]).is_ok());

        let error = resolve("0.0.0.0:8080", &[]).unwrap_err();
        assert!(error.contains("--behind-proxy --public-url"), "{error}");
        assert!(resolve("0.0.0.0:8080", &["--behind-proxy"]).unwrap_err().contains("--public-url"));

        let proxied = ["--behind-proxy", "--public-url=https://diode.example.org/"];
        // A proxy usually runs on the same machine, so a server on loopback may be public.
        for listen in ["0.0.0.0:8080", "127.0.0.1:8080"] {
            let public = resolve(listen, &proxied).unwrap();
            assert_eq!((public.sign_ups, public.anonymous), (SignUps::Invitation, Anonymous::None));
            assert_eq!(public.public_url, "https://diode.example.org");
            assert!(public.is_secure());
        }
    }

    #[test]
    fn with_a_certificate_no_proxy_is_needed() {
        let whole = ["--tls-certificate=c.pem", "--tls-key=k.pem"];
        let local = resolve("127.0.0.1:8443", &whole).unwrap();
        assert_eq!((local.public_url.as_str(), local.anonymous), ("https://127.0.0.1:8443", Anonymous::All));
        assert!(local.is_secure());
        assert!(resolve("0.0.0.0:443", &whole).unwrap_err().contains("--public-url"));
        let named = |listen, url: &str| resolve(listen, &[whole[0], whole[1], "--public-url", url]);
        let public = named("0.0.0.0:443", "https://diode.example.org").unwrap();
        assert_eq!((public.sign_ups, public.anonymous), (SignUps::Invitation, Anonymous::None));
        assert!(!public.behind_proxy, "X-Forwarded-For is the client's own word");
        assert!(named("127.0.0.1:1", "http://localhost").unwrap_err().contains("https://"));
        for (half, missing) in whole.into_iter().zip(["--tls-key FILE", "--tls-certificate FILE"]) {
            let error = resolve("127.0.0.1:1", &[half]).unwrap_err();
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
        for bad in [
            "diode.example.org",
            "https://",
            "https://a/b",
            "http://diode.example.org",
            "http://127.evil.example",
            "https://A b",
        ] {
            assert!(public_url(bad).is_err(), "{bad}");
        }
    }
}
