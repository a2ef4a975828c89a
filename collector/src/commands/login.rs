use std::io::BufRead as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use clap::Args;
use diode_api::{Account, Agree, DeviceCode, DevicePoll, DeviceRequest, IssuedToken, Scope};

use crate::server::{
    Client, Consent, ServerArgs, TermsArgs, TokenFile, checked_token, judge, refusal, terms_of,
};

/// Get a token for a Diode server, with the help of a browser
///
/// The token is kept in a file that only you may read. DIODE_TOKEN takes its place where it is set.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode login --server https://diode.example.org")]
pub(crate) struct Login {
    /// What the token may be used for: upload, agent, train, admin
    #[arg(long = "scope", value_name = "SCOPE", default_value = "upload", value_delimiter = ',')]
    scopes: Vec<Scope>,

    /// What the token is called in the list of your tokens [default: diode on this machine's name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,

    /// Read a token from standard input, made on the server's page /account
    #[arg(long, conflicts_with_all = ["scopes", "name"])]
    paste: bool,

    #[command(flatten)]
    server: ServerArgs,

    #[command(flatten)]
    terms: TermsArgs,
}

impl Login {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let file = TokenFile::needed()?;
        let token = if self.paste { paste(&self.server.stranger()?)? } else { self.ask()? };
        let client = self.server.stranger()?.with_token(token.clone())?;
        let account: Account = client.get("/account")?;
        file.keep(client.address(), &token)?;
        say!(
            "logged in to {} as {}; the token is in {}",
            client.address(),
            account.name,
            file.path().display()
        );
        self.agree(&client)
    }

    /// Agrees to the terms of contributing if the token is for contributing and the account has not agreed yet. A
    /// user who does not agree is logged in all the same.
    fn agree(&self, client: &Client) -> anyhow::Result<()> {
        let contributes = |scope: &Scope| matches!(scope, Scope::Upload | Scope::Agent);
        if !self.paste && !self.scopes.iter().any(contributes) {
            return Ok(());
        }
        let Some(terms) = terms_of(client)? else { return Ok(()) };
        match self.terms.consent(&terms)? {
            Consent::Given => {}
            Consent::Now(version) if terms.asked => match client.put("/account/terms", &Agree { version }) {
                Ok(()) => say!("agreed to version {version} for the account"),
                // A pasted token may lack the scope for contributing.
                Err(error) if self.paste => say!("not agreed to the terms of contributing: {error:#}"),
                Err(error) => return Err(error),
            },
            Consent::Now(_) => {}
            Consent::Open => {
                say!(
                    "nobody has agreed for the account yet; if you do, add --agree {} to `diode upload`",
                    terms.version
                );
            }
        }
        Ok(())
    }

    /// Waits until the user has allowed the token in the browser.
    fn ask(&self) -> anyhow::Result<String> {
        let client = self.server.stranger()?;
        // A connection that others could read is refused here, before the user opens a page.
        client.refuse_open_way()?;
        let request = DeviceRequest {
            name: self.name.clone().unwrap_or_else(default_name),
            scopes: self.scopes.clone(),
        };
        let code: DeviceCode = client.post("/devices", &request)?;
        tell!(Warning, {}, "Open {}", code.verification_uri);
        tell!(Warning, {}, "and allow it if the page shows the code {}", code.user_code);
        let deadline = Instant::now() + Duration::from_secs(code.expires_in);
        let poll = DevicePoll { device_code: code.device_code };
        while Instant::now() < deadline {
            thread::sleep(Duration::from_secs(code.interval.clamp(1, 60)));
            // A short failure of the network is no reason to begin again.
            let Ok(mut answer) = client.post_json("/devices/token", &poll) else { continue };
            if answer.status().is_success() {
                let issued: IssuedToken = judge(answer)?;
                return checked_token(issued.secret, "the server's answer");
            }
            let status = answer.status();
            let (code, words) = refusal(&mut answer);
            let passing = code == "authorization_pending" || matches!(status.as_u16(), 429 | 502 | 503 | 504);
            if !passing {
                return Err(words);
            }
        }
        bail!("nobody has allowed it in time; run `diode login` again");
    }
}

fn paste(client: &Client) -> anyhow::Result<String> {
    tell!(Warning, {}, "Make a token at {}/account and paste it here, then press Enter:", client.address());
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("cannot read the token from standard input")?;
    checked_token(line.trim().to_owned(), "standard input")
}

fn default_name() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match host.trim() {
        "" => "diode".to_owned(),
        host => format!("diode on {host:.40}"),
    }
}

/// Revoke the token of a Diode server, and forget it
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode logout --server https://diode.example.org")]
pub(crate) struct Logout {
    #[command(flatten)]
    server: ServerArgs,
}

impl Logout {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let (file, client) = (TokenFile::needed()?, self.server.stranger()?);
        let Some(token) = file.token(client.address())? else {
            bail!("there is no token for {} in {}", client.address(), file.path().display());
        };
        let client = client.with_token(token)?;
        let mut answer = client.delete("/session")?;
        // A token that no longer works was revoked on the server's page, or has expired.
        if !answer.status().is_success() && answer.status() != 401 {
            return Err(refusal(&mut answer).1.context("the token was not revoked"));
        }
        file.forget(client.address())?;
        say!("logged out of {}; the token does not work any more", client.address());
        Ok(())
    }
}
