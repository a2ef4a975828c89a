//! The Diode server that commands use: its address, how to reach it, the token to send to it, and its terms of contributing.

mod client;
mod download;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, ErrorKind, IsTerminal as _, stderr, stdin};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use diode_api::Terms;

use crate::failure::Usage;
use crate::input::arguments::whole;
use crate::output::{files, log};

pub(crate) use crate::server::client::{
    Answer, Answered, Client, Trouble, document, judge, refusal, send, successful, wait_for,
};
pub(crate) use crate::server::download::{Arriving, Download};

/// Which server, and how to reach it.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct ServerArgs {
    /// Address of the server
    #[arg(long, env = "DIODE_SERVER", default_value = "http://127.0.0.1:8080", value_name = "URL")]
    pub(crate) server: String,

    /// A file of certificates (PEM) to trust instead of the public ones
    #[arg(long, env = "DIODE_CA", value_name = "FILE")]
    pub(crate) ca: Option<PathBuf>,
}

/// Where kernel packs are pulled from, if that is wanted.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct PackServerArgs {
    /// Server to pull kernel packs from, if this node has none
    #[arg(long, env = "DIODE_SERVER", value_name = "URL")]
    server: Option<String>,

    /// A file of certificates (PEM) to trust instead of the public ones
    #[arg(long, env = "DIODE_CA", value_name = "FILE")]
    ca: Option<PathBuf>,

    /// Run no kernels of a server
    #[arg(long)]
    no_server_packs: bool,
}

impl PackServerArgs {
    /// `None` if no server was named, or if its packs may not run.
    pub(crate) fn client(&self) -> anyhow::Result<Option<Client>> {
        let (Some(server), false) = (&self.server, self.no_server_packs) else { return Ok(None) };
        ServerArgs { server: server.clone(), ca: self.ca.clone() }.client().map(Some)
    }

    /// Whether kernels from a server may run, including those pulled earlier.
    pub(crate) fn may_run(&self) -> bool {
        !self.no_server_packs
    }
}

impl ServerArgs {
    /// A client that sends no token.
    pub(crate) fn stranger(&self) -> anyhow::Result<Client> {
        Client::new(Address::parse(&self.server)?, self.ca.as_deref())
    }

    /// A client with a token, if there is one: from `DIODE_TOKEN`, or from the file that `diode
    /// login` writes.
    pub(crate) fn client(&self) -> anyhow::Result<Client> {
        let client = self.stranger()?;
        let token = match from_environment()? {
            Some(token) => Some(token),
            None => TokenFile::find().map(|file| file.token(client.address())).transpose()?.flatten(),
        };
        match token {
            Some(token) => client.with_token(token),
            None => Ok(client),
        }
    }
}

/// The address of a server: a scheme and a name, without a slash at the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address(String);

impl Address {
    pub(crate) fn parse(given: &str) -> Result<Self, Usage> {
        let refuse =
            |expected: &str| Err(Usage::new(format!("--server: got `{given}`, expected {expected}")));
        let Some(rest) = given.strip_prefix("http://").or_else(|| given.strip_prefix("https://")) else {
            return refuse("an address that begins with http:// or https://");
        };
        let address = given.trim_end_matches('/');
        if rest.trim_end_matches('/').is_empty()
            || rest.contains(['?', '#', '@'])
            || rest.contains(char::is_whitespace)
        {
            return refuse("a scheme and a name alone, such as https://diode.example.org");
        }
        Ok(Self(address.to_owned()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether nobody can read a request on its way, because it is encrypted or stays on this
    /// machine.
    pub(crate) fn is_private(&self) -> bool {
        let Some(rest) = self.0.strip_prefix("http://") else { return true };
        let authority = rest.split('/').next().unwrap_or_default();
        let host = match authority.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => authority.split(':').next().unwrap_or_default(),
        };
        let address: Option<std::net::IpAddr> = host.parse().ok();
        host == "localhost" || address.is_some_and(|address| address.is_loopback())
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The file with a token for each server. Only its owner may read it.
pub(crate) struct TokenFile(PathBuf);

/// The contents of the file: tokens by the servers' addresses.
type Tokens = BTreeMap<String, String>;

impl TokenFile {
    /// The user's file. `None` if the system names no folder for a user's settings.
    pub(crate) fn find() -> Option<Self> {
        let base = files::user_folder("XDG_CONFIG_HOME", ".config")?;
        Some(Self(base.join("diode").join("tokens.json")))
    }

    /// The user's file, for commands that need it.
    pub(crate) fn needed() -> anyhow::Result<Self> {
        Self::find().context("neither XDG_CONFIG_HOME nor HOME is set, so there is no place for the token")
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// The token for a server, if there is one.
    pub(crate) fn token(&self, server: &Address) -> anyhow::Result<Option<String>> {
        let token = self.read()?.remove(server.as_str());
        token.map(|token| checked_token(token, &self.0.display().to_string())).transpose()
    }

    /// Stores a token for a server. It replaces an earlier token.
    pub(crate) fn keep(&self, server: &Address, token: &str) -> anyhow::Result<()> {
        let mut tokens = self.read()?;
        tokens.insert(server.as_str().to_owned(), token.to_owned());
        self.write(&tokens)
    }

    /// Forgets the token for a server.
    pub(crate) fn forget(&self, server: &Address) -> anyhow::Result<()> {
        let mut tokens = self.read()?;
        tokens.remove(server.as_str());
        self.write(&tokens)
    }

    fn read(&self) -> anyhow::Result<Tokens> {
        let path = self.0.display();
        let text = match fs::read_to_string(&self.0) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Tokens::new()),
            other => other.with_context(|| format!("cannot read {path}"))?,
        };
        self.refuse_shared()?;
        // The error must not repeat the contents of the file.
        serde_json::from_str(&text).map_err(|_| {
            anyhow::anyhow!("{path}: expected what `diode login` writes; remove it and log in again")
        })
    }

    #[cfg(unix)]
    fn refuse_shared(&self) -> anyhow::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.display();
        let mode = fs::metadata(&self.0).with_context(|| format!("cannot read {path}"))?.permissions().mode();
        if mode & 0o077 != 0 {
            bail!("{path}: others may read it ({:o}); run `chmod 600 {path}`", mode & 0o777);
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn refuse_shared(&self) -> anyhow::Result<()> {
        Ok(())
    }

    fn write(&self, tokens: &Tokens) -> anyhow::Result<()> {
        let unwritable = || format!("cannot write {}", self.0.display());
        if let Some(folder) = self.0.parent() {
            fs::create_dir_all(folder).with_context(unwritable)?;
        }
        let text = serde_json::to_vec_pretty(tokens).context("cannot encode the tokens as JSON")?;
        diode_formats::write_privately(&self.0, &text).with_context(unwritable)
    }
}

/// The token in `DIODE_TOKEN`.
fn from_environment() -> anyhow::Result<Option<String>> {
    match std::env::var("DIODE_TOKEN") {
        Err(std::env::VarError::NotPresent) => Ok(None),
        Ok(token) if token.is_empty() => Ok(None),
        Ok(token) => checked_token(token, "DIODE_TOKEN").map(Some),
        Err(std::env::VarError::NotUnicode(_)) => checked_token(String::new(), "DIODE_TOKEN").map(Some),
    }
}

/// Refuses a text that is not a token, before it is sent anywhere.
pub(crate) fn checked_token(token: String, place: &str) -> anyhow::Result<String> {
    let plain = |rest: &str| rest.len() == 64 && rest.bytes().all(|b| b.is_ascii_hexdigit());
    if token.strip_prefix("diode_").is_some_and(plain) {
        return Ok(token);
    }
    Err(Usage::new(format!(
        "{place}: expected a token, `diode_` and 64 hex digits; get one by `diode login`"
    ))
    .into())
}

/// Agreeing to the terms of a server.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Server")]
pub(crate) struct TermsArgs {
    /// Agree to this version of the server's terms of contributing, such as 1; once is enough for an account
    #[arg(long, env = "DIODE_AGREE", value_name = "VERSION", value_parser = whole::<u32>)]
    agree: Option<u32>,
}

/// Whether the user has agreed to a server's terms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Consent {
    /// Nothing needs to be agreed to: the account has agreed already, or the server asks nobody.
    Given,
    /// The user agrees to this version now.
    Now(u32),
    /// The user has not agreed.
    Open,
}

impl TermsArgs {
    /// A client for contributions, which sends the user's agreement along. Prints the licence of contributions. If
    /// the server asks for an agreement and the user gives none, this fails before anything is measured or sent.
    pub(crate) fn contribute(&self, client: Client) -> anyhow::Result<Client> {
        let Some(terms) = terms_of(&client)? else {
            // It is not known yet whether the server asks for an agreement. If it does, its answer says what to do.
            return Ok(client.agreeing(self.agree));
        };
        match self.consent(&terms)? {
            Consent::Given => Ok(client),
            Consent::Now(version) => Ok(client.agreeing(Some(version))),
            Consent::Open => Err(Usage::new(format!(
                "nobody has agreed to the terms of contributing of {}: read {}; if you agree, add --agree {}",
                client.address(),
                terms.address,
                terms.version
            ))
            .into()),
        }
    }

    /// Prints the licence of contributions in one line. At a terminal, asks for an agreement if the server does.
    pub(crate) fn consent(&self, terms: &Terms) -> anyhow::Result<Consent> {
        let Terms { version, licence, address, .. } = terms;
        say!("what you send is given under {licence}: terms of contributing, version {version}, {address}");
        decide(self.agree, terms, ask)
    }
}

/// The terms of a server. `None` if it has none, or if it cannot be reached now.
pub(crate) fn terms_of(client: &Client) -> anyhow::Result<Option<Terms>> {
    match successful(client.getting("/terms")) {
        Ok(answer) => judge(answer).map(Some),
        // The request that follows is tried several times, so it may reach the server later.
        Err(Trouble::Unknown(_) | Trouble::Away(..)) => Ok(None),
        Err(trouble) => Err(trouble.into()),
    }
}

fn decide(
    given: Option<u32>,
    terms: &Terms,
    ask: impl FnOnce(u32) -> anyhow::Result<Option<bool>>,
) -> anyhow::Result<Consent> {
    match given {
        Some(version) if version == terms.version => Ok(Consent::Now(version)),
        // The account has agreed to newer terms meanwhile.
        _ if !terms.asked => Ok(Consent::Given),
        Some(version) => Err(Usage::new(format!(
            "--agree: got {version}, but the terms of contributing are now version {}; read {}, and agree to that",
            terms.version, terms.address
        ))
        .into()),
        None => Ok(match ask(terms.version)? {
            Some(true) => Consent::Now(terms.version),
            Some(false) | None => Consent::Open,
        }),
    }
}

/// Asks the user. `None` if nobody can answer.
fn ask(version: u32) -> anyhow::Result<Option<bool>> {
    if log::is_json() || log::is_quiet() || !stdin().is_terminal() || !stderr().is_terminal() {
        return Ok(None);
    }
    say!("Do you agree to version {version} of these terms? Type yes or no, then press Enter:");
    let mut line = String::new();
    stdin().lock().read_line(&mut line).context("cannot read the answer from standard input")?;
    Ok(Some(matches!(line.trim().to_lowercase().as_str(), "y" | "yes")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_a_scheme_and_a_name() {
        assert_eq!(Address::parse("https://d.example/").unwrap().as_str(), "https://d.example");
        for bad in ["d.example", "ftp://d", "http://", "http://a@b", "https://d?token=x", "https://d e"] {
            assert!(Address::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_encrypted_and_local_ways_are_private() {
        for private in
            ["https://d.example", "http://localhost:8080", "http://127.0.0.1:1", "http://[::1]:8080"]
        {
            assert!(Address::parse(private).unwrap().is_private(), "{private}");
        }
        for open in
            ["http://d.example", "http://10.0.0.1:8080", "http://localhost.d.example", "http://127.0.0.1.d"]
        {
            assert!(!Address::parse(open).unwrap().is_private(), "{open}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn tokens_are_kept_per_server_and_for_their_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let file = TokenFile(folder.path().join("diode/tokens.json"));
        let (here, there) =
            (Address::parse("http://localhost:1").unwrap(), Address::parse("https://d").unwrap());
        assert_eq!(file.token(&here).unwrap(), None);
        let token = format!("diode_{}", "0".repeat(64));
        file.keep(&here, &token).unwrap();
        assert_eq!((file.token(&here).unwrap(), file.token(&there).unwrap()), (Some(token), None));
        assert_eq!(fs::metadata(file.path()).unwrap().permissions().mode() & 0o777, 0o600);
        file.forget(&here).unwrap();
        assert_eq!(file.token(&here).unwrap(), None);

        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let error = file.token(&here).unwrap_err().to_string();
        assert!(error.contains("chmod 600"), "{error}");
    }

    #[test]
    fn what_is_no_token_is_not_repeated() {
        let error = checked_token("my password".to_owned(), "DIODE_TOKEN").unwrap_err();
        assert!(error.is::<Usage>() && !error.to_string().contains("my password"), "{error}");
    }
}

#[cfg(test)]
mod terms_tests {
    use super::*;

    fn terms(asked: bool) -> Terms {
        Terms {
            version: 2,
            licence: "MIT".to_owned(),
            text: String::new(),
            address: "http://d/terms".to_owned(),
            asked,
        }
    }

    fn never(_: u32) -> anyhow::Result<Option<bool>> {
        panic!("it asks")
    }

    #[test]
    fn who_has_agreed_is_not_asked() {
        assert_eq!(decide(None, &terms(false), never).unwrap(), Consent::Given);
        assert_eq!(decide(Some(1), &terms(false), never).unwrap(), Consent::Given);
        // The server asks nobody, but an agreement that is given is sent all the same.
        assert_eq!(decide(Some(2), &terms(false), never).unwrap(), Consent::Now(2));
        assert_eq!(decide(Some(2), &terms(true), never).unwrap(), Consent::Now(2));
    }

    #[test]
    fn who_has_not_agreed_is_asked_once_and_for_the_version_in_force() {
        let answer = |said: Option<bool>| {
            decide(None, &terms(true), |version| {
                assert_eq!(version, 2);
                Ok(said)
            })
        };
        assert_eq!(answer(Some(true)).unwrap(), Consent::Now(2));
        assert_eq!(answer(Some(false)).unwrap(), Consent::Open);
        assert_eq!(answer(None).unwrap(), Consent::Open);
        let error = decide(Some(1), &terms(true), never).unwrap_err();
        assert!(
            error.is::<Usage>() && error.to_string().contains("now version 2; read http://d/terms"),
            "{error}"
        );
    }
}
