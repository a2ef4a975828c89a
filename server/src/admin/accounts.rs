//! Commands that make links for accounts, and that look after tokens and identities.

use anyhow::{Context as _, bail};
use clap::Subcommand;
use diode_api::Reason;
use diode_core::ids::{AccountName, TokenId};

use super::acts::Actor;
use super::lists::identity_line;
use crate::accounts::{Link, Policy, invitation_link, new_account_id, password_link};
use crate::settings::{Data, Settings};
use crate::store::{self, Created, Credentials, NewAccount, Now, Store};

#[derive(Debug, Subcommand)]
pub enum AccountCommand {
    /// Make an account, and print the link by which its owner chooses a password
    Create {
        name: AccountName,
        /// It may look after the server
        #[arg(long)]
        admin: bool,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Print a link by which one account can be made
    Invite {
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// Print a link by which the owner of an account chooses a new password; that ends its sessions and unlinks it
    Reset {
        name: AccountName,
        #[command(flatten)]
        settings: Box<Settings>,
    },
    /// List the tokens of an account, or revoke one
    Tokens {
        name: AccountName,
        /// The token's id, as the list shows it
        #[arg(long, value_name = "ID")]
        revoke: Option<TokenId>,
        #[command(flatten)]
        data: Data,
    },
    /// List the providers that an account is linked with, or unlink one and end the account's sessions
    Identities {
        name: AccountName,
        /// The provider's address, as the list shows it
        #[arg(long, value_name = "ISSUER", requires = "reason")]
        unlink: Option<String>,
        /// Why; it is written down
        #[arg(long, value_name = "TEXT", requires = "unlink")]
        reason: Option<Reason>,
        #[command(flatten)]
        data: Data,
    },
}

impl AccountCommand {
    /// Runs the command. Returns the text to print.
    pub async fn run(self) -> anyhow::Result<String> {
        let (data, makes_first) = match &self {
            Self::Create { settings, .. } | Self::Invite { settings } | Self::Reset { settings, .. } => {
                settings.check()?;
                (&settings.data, !matches!(self, Self::Reset { .. }))
            }
            Self::Tokens { data, .. } | Self::Identities { data, .. } => (data, false),
        };
        let url = &data.database_url;
        let store = if makes_first { store::open(url).await? } else { store::open_existing(url).await? };
        let outcome = self.answer(store.as_ref()).await;
        store.close().await;
        outcome
    }

    async fn answer(self, store: &Store) -> anyhow::Result<String> {
        Ok(match self {
            Self::Create { name, admin, settings } => {
                let what = format!("create {} {name}", if admin { "administrator" } else { "account" });
                let link = create(store, &policy_of(&settings), name, admin).await?;
                Actor::CommandLine.write_down(store, &what).await?;
                shown(&link, &settings)
            }
            Self::Invite { settings } => {
                let link = invitation_link(store, &policy_of(&settings)).await?;
                Actor::CommandLine.write_down(store, "make an invitation").await?;
                shown(&link, &settings)
            }
            Self::Reset { name, settings } => {
                let account = named(store, &name).await?.account;
                let link = password_link(store, &policy_of(&settings), account.id).await?;
                Actor::CommandLine
                    .write_down(store, &format!("make a link for a new password of {name}"))
                    .await?;
                shown(&link, &settings)
            }
            Self::Tokens { name, revoke, .. } => tokens(store, &name, revoke).await?,
            Self::Identities { name, unlink, reason, .. } => match unlink.zip(reason) {
                Some((issuer, why)) => unlinked(store, &name, &issuer, &why).await?,
                None => identities(store, &name).await?,
            },
        })
    }
}

fn policy_of(settings: &Settings) -> Policy {
    settings.serving.access.policy(settings.serving.listen)
}

async fn named(store: &Store, name: &AccountName) -> anyhow::Result<Credentials> {
    let found = store.credentials(name).await?;
    found.with_context(|| format!("no account `{name}`; `diode-server admin accounts` lists them"))
}

async fn create(store: &Store, policy: &Policy, name: AccountName, admin: bool) -> anyhow::Result<Link> {
    let account = NewAccount { id: new_account_id()?, name, password: None, admin, terms: None };
    match store.create_account(&account, None, Now::read()).await? {
        Created::Done(account) => password_link(store, policy, account.id).await,
        Created::NameTaken | Created::NoLink => bail!("the name `{}` is taken; choose another", account.name),
    }
}

async fn tokens(store: &Store, name: &AccountName, revoke: Option<TokenId>) -> anyhow::Result<String> {
    let account = named(store, name).await?.account;
    if let Some(id) = revoke {
        if !store.revoke_token(&account.id, &id).await? {
            bail!("`{name}` has no token `{id}`; `diode-server admin tokens {name}` lists them");
        }
        Actor::CommandLine.write_down(store, &format!("revoke token {id} of {name}")).await?;
        return Ok(format!("token {id} of {name} does not work any more\n"));
    }
    let mut text = String::new();
    for token in store.tokens(&account.id).await? {
        let scopes: Vec<_> = token.scopes.iter().map(|scope| scope.as_str()).collect();
        let used = token.used_at.map_or("never used".to_owned(), |at| format!("last used {at}"));
        text += &format!(
            "{} {} until {}, {used}: {}\n",
            token.id,
            scopes.join(","),
            token.expires_at,
            token.name
        );
    }
    Ok(text)
}

async fn identities(store: &Store, name: &AccountName) -> anyhow::Result<String> {
    let account = named(store, name).await?.account;
    Ok(store.identities(&account.id).await?.iter().map(|linked| identity_line(linked) + "\n").collect())
}

async fn unlinked(store: &Store, name: &AccountName, issuer: &str, why: &Reason) -> anyhow::Result<String> {
    let found = named(store, name).await?;
    if !store.remove_identity(name, issuer, why, Actor::CommandLine.who(), Now::read()).await? {
        bail!(
            "`{name}` is not linked with `{issuer}`; `diode-server admin identities {name}` lists the providers"
        );
    }
    let hint = match found.password {
        Some(_) => String::new(),
        None => format!("; it has no password: `diode-server admin reset {name}` prints a link for one"),
    };
    Ok(format!("{name} is unlinked from {issuer}, and its sessions have ended{hint}\n"))
}

/// The link's address is that of the settings here. The running server may have been given others.
fn shown(link: &Link, settings: &Settings) -> String {
    let mut text = format!("{}\nworks once, until {}\n", link.url, link.expires.strftime("%F %R UTC"));
    if settings.serving.access.public_url.is_none() {
        text += "for a server at this address; if yours has another, repeat this command with its --listen or --public-url\n";
    }
    text
}
