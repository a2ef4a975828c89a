//! The terms of contributing of a server. They apply to everything that is sent.

use std::io::{BufRead as _, IsTerminal as _, stderr, stdin};

use anyhow::Context as _;
use clap::Args;
use diode_api::Terms;

use crate::failure::Usage;
use crate::input::arguments::whole;
use crate::output::log;
use crate::server::client::{Client, Trouble, judge, successful};

/// Agreeing to the terms of a server.
#[derive(Debug, Clone, Args)]
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
    if log::is_json() || !stdin().is_terminal() || !stderr().is_terminal() {
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
