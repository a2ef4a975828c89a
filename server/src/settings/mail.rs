//! The settings of mails.

use std::fmt::{self, Debug, Display};
use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;

use anyhow::{Context as _, bail};
use axum::http::Uri;
use clap::Args;
use percent_encoding::percent_decode_str;
use serde::Deserialize;

use super::explain::without_password;
use crate::mail::EmailAddress;

const EXPECTED: &str =
    "expected file:FOLDER, smtps://USER:PASSWORD@HOST or smtp://USER:PASSWORD@HOST, with a port or without";

/// The settings of mails, by flag or variable.
#[derive(Debug, Clone, Default, Args)]
pub struct MailArgs {
    /// Where mails go: smtps://USER:PASSWORD@HOST, smtp://…, or file:FOLDER to try it out [default: none are sent]
    #[arg(long, env = "DIODE_MAIL_SERVER", value_name = "URL", hide_env_values = true)]
    pub mail_server: Option<String>,

    /// The address that mails come from
    #[arg(long, env = "DIODE_MAIL_FROM", value_name = "ADDRESS")]
    pub mail_from: Option<String>,

    /// Certificates (PEM) to trust instead of the public ones
    #[arg(long, env = "DIODE_MAIL_CA", value_name = "FILE")]
    pub mail_ca: Option<PathBuf>,
}

/// The settings of mails in `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MailFile {
    server: Option<String>,
    from: Option<String>,
    ca: Option<PathBuf>,
}

/// The settings of mails in force.
#[derive(Debug, Clone)]
pub struct MailSettings {
    pub server: MailServer,
    pub from: EmailAddress,
    /// Certificates to trust instead of the public ones.
    pub ca: Option<PathBuf>,
}

/// Where mails go.
#[derive(Debug, Clone)]
pub enum MailServer {
    /// Mails go into a folder, as files, to try the server out.
    Folder(PathBuf),
    Smtp(Smtp),
}

/// A server that accepts mails and sends them on.
#[derive(Debug, Clone)]
pub struct Smtp {
    pub security: Security,
    pub host: String,
    pub port: u16,
    pub login: Option<Login>,
    /// The URL as it was given, without the password.
    shown: String,
}

/// How a connection to a mail server is protected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Security {
    /// Not at all; only on this machine.
    None,
    /// By TLS that begins after the greeting. A server that does not offer TLS gets no mail.
    StartTls,
    /// By TLS from the first byte.
    Tls,
}

/// The user and password for a mail server.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub user: String,
    pub password: String,
}

impl Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({}:…)", self.user)
    }
}

impl Display for MailServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => write!(f, "file:{}", folder.display()),
            Self::Smtp(smtp) => f.write_str(&smtp.shown),
        }
    }
}

impl MailSettings {
    /// Combines flags and file; `None` if no mails are sent.
    pub(super) fn resolve(args: MailArgs, file: MailFile) -> anyhow::Result<Option<Self>> {
        let ca = args.mail_ca.or(file.ca);
        match (args.mail_server.or(file.server), args.mail_from.or(file.from)) {
            (None, None) if ca.is_some() => bail!("--mail-ca needs --mail-server URL: where mails go"),
            (None, None) => Ok(None),
            (Some(server), Some(from)) => {
                Ok(Some(Self { server: server.parse()?, from: from.parse().context("mail from")?, ca }))
            }
            (Some(_), None) => {
                bail!("--mail-server needs --mail-from ADDRESS: the address that mails come from")
            }
            (None, Some(_)) => bail!("--mail-from needs --mail-server URL: where mails go"),
        }
    }
}

impl FromStr for MailServer {
    type Err = anyhow::Error;

    fn from_str(given: &str) -> anyhow::Result<Self> {
        if let Some(folder) = given.strip_prefix("file:").filter(|folder| !folder.is_empty()) {
            return Ok(Self::Folder(folder.into()));
        }
        // The message does not repeat the URL, which may have a password. In a mistyped URL the password may stand
        // anywhere.
        let Some(smtp) = smtp_of(given) else { bail!("mail server: {EXPECTED}; got something else") };
        Ok(Self::Smtp(smtp))
    }
}

fn smtp_of(given: &str) -> Option<Smtp> {
    let url: Uri = given.parse().ok()?;
    let host = url.host()?.trim_matches(['[', ']']).to_owned();
    let address: Option<IpAddr> = host.parse().ok();
    let is_loopback = host == "localhost" || address.is_some_and(|address| address.is_loopback());
    let (security, usual_port) = match url.scheme_str()? {
        "smtps" => (Security::Tls, 465),
        "smtp" if is_loopback => (Security::None, 25),
        "smtp" => (Security::StartTls, 587),
        _ => return None,
    };
    if host.is_empty() || !matches!(url.path(), "" | "/") || url.query().is_some() {
        return None;
    }
    let authority = url.authority()?.as_str();
    let (who, place) =
        authority.rsplit_once('@').map_or((None, authority), |(who, place)| (Some(who), place));
    // If the part after a colon is no port, the URL is mistyped.
    if url.port_u16().is_none() && Some(place) != url.host() {
        return None;
    }
    let login = match who {
        None => None,
        Some(who) => {
            let (user, password) = who.split_once(':')?;
            let plain = |text| Some(percent_decode_str(text).decode_utf8().ok()?.into_owned());
            Some(Login { user: plain(user)?, password: plain(password)? })
        }
    };
    let port = url.port_u16().unwrap_or(usual_port);
    Some(Smtp { security, host, port, login, shown: without_password(given) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(server: Option<&str>, from: Option<&str>) -> Result<Option<MailSettings>, String> {
        let (mail_server, mail_from) = (server.map(str::to_owned), from.map(str::to_owned));
        let args = MailArgs { mail_server, mail_from, mail_ca: None };
        MailSettings::resolve(args, MailFile::default()).map_err(|error| format!("{error:#}"))
    }

    fn smtp(server: &str) -> Smtp {
        match resolve(Some(server), Some("diode@example.org")).unwrap().unwrap().server {
            MailServer::Smtp(smtp) => smtp,
            MailServer::Folder(folder) => panic!("{}", folder.display()),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_half_a_setting_is_refused() {
        assert!(resolve(None, None).unwrap().is_none());
        assert!(resolve(Some("file:mails"), None).unwrap_err().contains("--mail-from"));
        assert!(resolve(None, Some("diode@example.org")).unwrap_err().contains("--mail-server"));
        assert!(resolve(Some("file:mails"), Some("diode")).unwrap_err().contains("such as ada@example.org"));
        let alone = MailArgs { mail_ca: Some("ca.pem".into()), ..MailArgs::default() };
        let error = MailSettings::resolve(alone, MailFile::default()).unwrap_err().to_string();
        assert!(error.contains("--mail-server"), "{error}");
        let file = MailFile {
            server: Some("file:a".to_owned()),
            from: Some("a@example.org".to_owned()),
            ca: Some("ca.pem".into()),
        };
        let args = MailArgs { mail_server: Some("file:b".to_owned()), ..MailArgs::default() };
        let found = MailSettings::resolve(args, file).unwrap().unwrap();
        assert_eq!((found.server.to_string().as_str(), found.from.as_str()), ("file:b", "a@example.org"));
    }

    #[test]
    fn beyond_this_machine_there_is_tls() {
        for (server, security, host, port) in [
            ("smtps://mail.example.org", Security::Tls, "mail.example.org", 465),
            ("smtp://mail.example.org", Security::StartTls, "mail.example.org", 587),
            ("smtp://10.0.0.1:25/", Security::StartTls, "10.0.0.1", 25),
            ("smtp://localhost", Security::None, "localhost", 25),
            ("smtp://[::1]:2525", Security::None, "::1", 2525),
            ("smtp://127.0.0.1.example.org", Security::StartTls, "127.0.0.1.example.org", 587),
        ] {
            let found = smtp(server);
            assert_eq!((found.security, found.host.as_str(), found.port), (security, host, port), "{server}");
        }
    }

    #[test]
    fn the_password_is_read_and_shown_nowhere() {
        let found = smtp("smtps://diode:p%40ss:word@mail.example.org:4650");
        let login = Login { user: "diode".to_owned(), password: "p@ss:word".to_owned() };
        assert_eq!((found.login.as_ref(), found.port), (Some(&login), 4650));
        let server = MailServer::Smtp(found);
        assert_eq!(server.to_string(), "smtps://diode:…@mail.example.org:4650");
        assert!(!format!("{server:?}").contains("word"), "{server:?}");
        for bad in [
            "smtps://diode:password",
            "smtps://diode@mail.example.org",
            "smtp://diode:pass word@mail.example.org",
            "http://diode:password@mail.example.org",
            "smtps://diode:password@mail.example.org/path",
            "smtps://",
            "file:",
            "mail.example.org",
        ] {
            let error = resolve(Some(bad), Some("diode@example.org")).unwrap_err();
            assert!(error.contains("smtps://USER:PASSWORD@HOST") && !error.contains("password"), "{error}");
        }
    }
}
