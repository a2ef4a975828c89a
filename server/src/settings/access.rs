//! Who may reach the server, and what they may do.

use std::net::SocketAddr;

use anyhow::bail;
use clap::Args;
use serde::Deserialize;

use super::limits::{GivenLimits, LimitArgs, LimitFile};
use crate::accounts::{Anonymous, Policy, SignUps};

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

    /// A proxy that ends TLS stands in front of the server and adds X-Forwarded-For
    #[arg(long, env = "DIODE_BEHIND_PROXY")]
    pub behind_proxy: bool,

    #[command(flatten)]
    pub limits: LimitArgs,
}

/// The same in `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccessFile {
    sign_ups: Option<SignUps>,
    anonymous: Option<Anonymous>,
    public_url: Option<String>,
    behind_proxy: Option<bool>,
}

/// The settings of access in force.
#[derive(Debug, Clone, Default)]
pub struct Access {
    sign_ups: Option<SignUps>,
    anonymous: Option<Anonymous>,
    public_url: Option<String>,
    behind_proxy: bool,
    limits: GivenLimits,
}

impl Access {
    /// Puts flags and file together, for a server that listens on `listen`.
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
            limits: GivenLimits::resolve(&args.limits, limits),
            behind_proxy: args.behind_proxy || file.behind_proxy.unwrap_or_default(),
        };
        if !listen.ip().is_loopback() && !access.behind_proxy {
            bail!(
                "listen: got `{listen}`, expected a loopback address such as 127.0.0.1:8080: beyond this machine \
                 passwords and tokens need TLS; let a proxy end TLS in front of the server and add \
                 --behind-proxy --public-url https://NAME (docs: operating a server)"
            );
        }
        if access.behind_proxy && access.public_url.is_none() {
            bail!("--behind-proxy needs --public-url https://NAME: where browsers find the server");
        }
        Ok(access)
    }

    /// What the server demands, once it is known where it listens.
    pub fn policy(&self, bound: SocketAddr) -> Policy {
        let is_local = bound.ip().is_loopback() && !self.behind_proxy;
        let sign_ups = if is_local { SignUps::Open } else { SignUps::Invitation };
        let anonymous = if is_local { Anonymous::All } else { Anonymous::None };
        Policy {
            sign_ups: self.sign_ups.unwrap_or(sign_ups),
            anonymous: self.anonymous.unwrap_or(anonymous),
            public_url: self.public_url.clone().unwrap_or_else(|| format!("http://{bound}")),
            behind_proxy: self.behind_proxy,
            limits: self.limits.in_force(is_local),
        }
    }
}

/// Without a slash at the end, as browsers write an origin.
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
        // A proxy usually stands on the same machine, so loopback is the world then.
        for listen in ["0.0.0.0:8080", "127.0.0.1:8080"] {
            let public = resolve(listen, proxied.clone()).unwrap();
            assert_eq!((public.sign_ups, public.anonymous), (SignUps::Invitation, Anonymous::None));
            assert_eq!(public.public_url, "https://diode.example.org");
            assert!(public.is_secure());
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
