//! Accounts in the database: their owners, passwords, one-time links and counted tries. Every secret arrives here as its
//! digest. An expired row counts as absent.

use std::collections::BTreeSet;
use std::time::Duration;

use diode_api::{Account, Agreement, Scope, Uploads};
use diode_core::ids::{AccountId, AccountName, Digest, TokenId, UploadId};

use crate::accounts::identity_store::unlinked_entry;
use crate::blobs::BlobKey;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Exclusive, Lockable, in_transaction};
use crate::store::fields::{optional, parse, readable_row, terms_version, unsigned};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};
use crate::uploads::solutions::Damaged;

/// The longest time for which tries are counted.
pub const LONGEST_WINDOW: Duration = Duration::from_secs(24 * 3600);

/// A new account.
#[derive(Debug, Clone)]
pub struct NewAccount {
    pub id: AccountId,
    pub name: AccountName,
    /// The password's hash as a PHC string; `None` if the owner will choose a password by a link.
    pub password: Option<String>,
    pub admin: bool,
    /// The version of the terms of contributing that the owner agrees to.
    pub terms: Option<u32>,
}

/// What a sign-in needs of an account.
#[derive(Debug, Clone)]
pub struct Credentials {
    pub account: Account,
    pub password: Option<String>,
    pub disabled: bool,
}

/// Whether an account was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Created {
    Done(Account),
    NameTaken,
    /// The invitation has been used, has expired or never existed.
    NoLink,
}

/// What a one-time link is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LinkFor {
    /// To make the first account of a server, which is an administrator's. Works as long as there is no account.
    FirstAccount,
    /// To make an account.
    Account,
    /// To choose the password of an account. Whoever runs the server made the link.
    Password(AccountId),
}

/// A new token.
#[derive(Debug, Clone)]
pub struct NewTokenRow {
    pub id: TokenId,
    pub secret: Digest,
    pub account: AccountId,
    pub name: String,
    pub scopes: Vec<Scope>,
    /// In milliseconds since 1970.
    pub expires: i64,
}

/// The result of choosing a password by a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PasswordReset {
    /// The account whose password was chosen.
    pub account: AccountName,
    /// The issuers of the identities that the account has lost.
    pub unlinked: Vec<String>,
}

/// A program that waits for its user to allow it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingDevice {
    pub secret: Digest,
    pub user_code: String,
    pub name: String,
    pub scopes: Vec<Scope>,
}

/// The state of a waiting program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceAnswer {
    /// The request has expired, was refused or answered, or never existed.
    Unknown,
    Waiting,
    /// The account has allowed the program. Only one poll gets this answer.
    Allowed(Box<Account>, WaitingDevice),
}

/// How often something was tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tries {
    pub count: u64,
    /// The time of the first try, in milliseconds since 1970.
    pub since: i64,
}

const FIRST_ACCOUNT: &str = "first account";

const ACCOUNT: &str = "account";

const PASSWORD: &str = "password";

/// The kind and the account.
type LinkRow = (String, Option<String>);

readable_row!(Credentials { ..account: Account, password, disabled_at: Option<String> } => Credentials {
    account,
    password,
    disabled: disabled_at.is_some(),
});

/// The reason that the log states for a new password.
const WHY: &str = "the password was chosen by a link";

/// The columns of an [`Account`]. The query must name the table `accounts` `a`.
pub(crate) const ACCOUNT_COLUMNS: &str = "a.id, a.name, a.admin, a.created_at, \
                                          (SELECT g.terms FROM agreements g WHERE g.account = a.id ORDER BY \
                                          g.terms DESC LIMIT 1) AS terms, \
                                          (SELECT g.agreed_at FROM agreements g WHERE g.account = a.id \
                                          ORDER BY g.terms DESC LIMIT 1) AS agreed_at";

readable_row!(Account { id, name, admin: i64, created_at, terms: Option<i64>, agreed_at: Option<String> } => Account {
    id: parse("account id", id)?,
    name: parse("account name", name)?,
    admin: admin != 0,
    created_at,
    terms: match (terms, agreed_at) {
        (Some(version), Some(agreed_at)) => Some(Agreement { version: terms_version(version)?, agreed_at }),
        _ => None,
    },
});

impl Store {
    /// Makes an account. With `link`, uses up this invitation in the same transaction. An invitation for the first
    /// account makes an administrator.
    pub async fn create_account(
        &self,
        account: &NewAccount,
        link: Option<&Digest>,
        now: Now,
    ) -> StoreResult<Created> {
        // Without a commit the invitation stays usable.
        in_transaction!(self, async |db| { db.create_account(account, link, now).await }, if Created::Done(_))
    }

    /// The account with this name, and its password hash; `None` if there is no such account.
    pub async fn credentials(&self, name: &AccountName) -> StoreResult<Option<Credentials>> {
        self.reader().await?.credentials(name).await
    }

    /// An account; `None` if it no longer exists.
    pub async fn account(&self, id: &AccountId) -> StoreResult<Option<Account>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT ").push(ACCOUNT_COLUMNS).push(" FROM accounts a WHERE a.id = ");
        db.read_optional(select.push_bind(id.as_str())).await
    }

    /// All accounts, by name, for operators.
    pub async fn accounts(&self) -> StoreResult<Vec<Credentials>> {
        let db = &mut self.reader().await?;
        db.read_all(select_credentials().push(" ORDER BY a.name")).await
    }

    /// Stores that an account agrees to a version of the terms of contributing. Later agreements to the same
    /// version change nothing.
    pub async fn agree(&self, account: &AccountId, terms: u32, now: Now) -> StoreResult<()> {
        in_transaction!(self, async |db| { db.agree(account, terms, now).await })
    }

    /// Whether there is no account yet.
    pub async fn has_no_accounts(&self) -> StoreResult<bool> {
        self.reader().await?.has_no_accounts().await
    }

    /// Replaces the password and ends every session except `kept`.
    pub async fn set_password(
        &self,
        account: &AccountId,
        hash: &str,
        kept: Option<&Digest>,
    ) -> StoreResult<()> {
        in_transaction!(self, async |db| { db.set_password(account, hash, kept).await })
    }

    /// Uses up a link and sets the password of its account. Ends the account's sessions and removes its
    /// identities, because somebody with the old password may have linked them. `None` if there is no such link.
    pub async fn set_password_by_link(
        &self,
        link: &Digest,
        hash: &str,
        now: Now,
    ) -> StoreResult<Option<PasswordReset>> {
        in_transaction!(self, async |db| {
            let Some(LinkFor::Password(account)) = db.take_link(link, now).await? else { return Ok(None) };
            let Some(name) = db.locked_account_name(&account).await? else { return Ok(None) };
            // Other links for the same password may have been sent by mistake, or stolen.
            db.forget_links(&account).await?;
            db.set_password(&account, hash, None).await?;
            let unlinked = db.take_identities(&account).await?;
            for issuer in &unlinked {
                db.note_in_log(&unlinked_entry(&name, issuer), WHY, name.as_str(), now).await?;
            }
            Ok(Some(PasswordReset { account: name, unlinked }))
        })
    }

    /// Disables an account, or enables it again. Disabling ends its sessions, and its tokens do not work
    /// meanwhile. `false` if the account is the last administrator's: only whoever runs
    /// the server may disable it.
    pub async fn set_disabled(
        &self,
        account: &AccountId,
        disabled: bool,
        may_be_last: bool,
        now: Now,
    ) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            db.turn(Exclusive::Owners).await?;
            if disabled && !may_be_last && db.is_last_administrator(account).await? {
                return Ok(false);
            }
            let update = Statement::new("UPDATE accounts SET disabled_at = $1 WHERE id = $2")
                .bind(disabled.then(|| now.rfc3339()))
                .bind(account.as_str());
            db.execute(update).await?;
            db.end_sessions(account, None).await?;
            Ok(true)
        })
    }

    /// Deletes an account with its sessions and tokens. With [`Uploads::Delete`], also deletes its uploads and
    /// recomputes board entries. The models that it contributed are deleted, too; accepted models stay if the
    /// uploads stay. Returns the files that no row names any more; `None` if the account is the
    /// last administrator's, which stays.
    pub async fn delete_account(
        &self,
        account: &AccountId,
        uploads: Uploads,
    ) -> StoreResult<Option<Vec<BlobKey>>> {
        // An upload that other accounts sent, too, then belongs to one of them.
        let now = Now::read();
        in_transaction!(self, async |db| {
            db.turn(Exclusive::Owners).await?;
            if db.is_last_administrator(account).await? {
                return Ok(None);
            }
            // Waits for uploads of this account that are under way. Uploads that begin later are refused.
            db.claim(Lockable::Account(account)).await?;
            let lock = Statement::new("SELECT id FROM accounts WHERE id = $1").bind(account.as_str());
            let _locked: Option<(String,)> = db.fetch_optional(lock.push(db.lock_row())).await?;
            let all = db.uploads_of_account(account).await?;
            let mut slugs = db.hardware_of_all(&all).await?;
            slugs.extend(db.hardware_of_contributions(account).await?);
            db.lock_all_hardware(&slugs).await?;
            let handed_over = db.hand_over_uploads(&all).await?;
            let (mut touched, mut files, mut gone) = (BTreeSet::new(), Vec::new(), Vec::new());
            for upload in &all {
                touched.extend(db.views_of_upload(upload).await?);
                if uploads == Uploads::Delete && !handed_over.contains(upload) {
                    files.extend(db.delete_upload(upload).await?);
                    gone.push(upload.clone());
                }
            }
            db.take_back_models_of(&gone, now).await?;
            files.extend(db.remove_contributions_of(account, uploads, now).await?);
            db.reopen_work_of_account(account).await?;
            // The database clears the account of the uploads that stay.
            db.execute(Statement::new("DELETE FROM accounts WHERE id = $1").bind(account.as_str())).await?;
            for upload in &all {
                db.restate_solutions(upload).await?;
            }
            for slug in touched.iter().map(|view| &view.hardware).collect::<BTreeSet<_>>() {
                db.note_hardware_change(slug, account.as_str()).await?;
            }
            db.make_entries_anew(&touched).await?;
            Ok(Some(files))
        })
    }

    /// Adds a one-time link.
    pub async fn add_link(&self, secret: &Digest, link: &LinkFor, now: Now, expires: i64) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM links WHERE expires <= $1").bind(now.millis())).await?;
            let (kind, account) = match link {
                LinkFor::FirstAccount => (FIRST_ACCOUNT, None),
                LinkFor::Account => (ACCOUNT, None),
                LinkFor::Password(account) => (PASSWORD, Some(account)),
            };
            let insert =
                Statement::new("INSERT INTO links (secret, kind, account, expires) VALUES ($1, $2, $3, $4)")
                    .bind(secret.as_str())
                    .bind(kind)
                    .bind(account.map(AccountId::as_str))
                    .bind(expires);
            db.execute(insert).await?;
            Ok(())
        })
    }

    /// What a link is for. Does not use it up.
    pub async fn link(&self, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT kind, account FROM links WHERE secret = $1 AND expires > $2")
            .bind(secret.as_str())
            .bind(now.millis());
        let row: Option<LinkRow> = db.fetch_optional(select).await?;
        Ok(row.map(link).transpose()?)
    }

    /// Counts one more try of a subject. If the first counted try lies before `since`, the count begins anew with
    /// this try; also if it lies in the future, because a clock was set back. `since` lies within [`LONGEST_WINDOW`].
    pub async fn count_attempt(&self, subject: &str, since: i64, now: Now) -> StoreResult<Tries> {
        in_transaction!(self, async |db| {
            // A single statement, so that tries at the same moment are all counted.
            let upsert = Statement::new(
        "INSERT INTO attempts (subject, tries, since) VALUES ($1, 1, $2) ON CONFLICT (subject) DO UPDATE \
         SET \
         tries = CASE WHEN attempts.since BETWEEN $3 AND $4 THEN attempts.tries + 1 ELSE 1 END, \
         since = CASE WHEN attempts.since BETWEEN $3 AND $4 THEN attempts.since ELSE $2 END RETURNING tries, since",
    )
    .bind(subject)
    .bind(now.millis())
    .bind(since)
    .bind(now.latest_end(Duration::ZERO));
            let (tries, since): (i64, i64) = db.fetch_one(upsert).await?;
            if tries == 1 {
                // Removes rows of subjects that have stopped trying. The longest window decides, because other
                // subjects may have a longer window than this one.
                let oldest = now.millis() - LONGEST_WINDOW.as_millis() as i64;
                db.execute(Statement::new("DELETE FROM attempts WHERE since < $1").bind(oldest)).await?;
            }
            Ok(Tries { count: unsigned("tries", tries)?, since })
        })
    }

    /// Deletes the tries of a subject.
    pub async fn forget_attempts(&self, subject: &str) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            db.execute(Statement::new("DELETE FROM attempts WHERE subject = $1").bind(subject)).await?;
            Ok(())
        })
    }
}

impl Connection {
    /// Whether nobody else could look after the server from a browser: the account is an administrator's, and no other
    /// administrator's account works. The caller has the turn [`Exclusive::Owners`], so two administrators cannot go at
    /// once.
    async fn is_last_administrator(&mut self, account: &AccountId) -> StoreResult<bool> {
        let count = Statement::new(
            "SELECT COUNT(*), COUNT(CASE WHEN id = $1 THEN 1 END) FROM accounts WHERE admin = 1 AND disabled_at IS NULL",
        );
        let (all, own): (i64, i64) = self.fetch_one(count.bind(account.as_str())).await?;
        Ok(all == 1 && own == 1)
    }

    async fn uploads_of_account(&mut self, account: &AccountId) -> StoreResult<Vec<UploadId>> {
        let select = Statement::new("SELECT id FROM uploads WHERE account = $1").bind(account.as_str());
        let rows: Vec<(String,)> = self.fetch_all(select).await?;
        Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
    }

    /// Removes a link, so that only one of two requests can use it.
    pub(crate) async fn take_link(&mut self, secret: &Digest, now: Now) -> StoreResult<Option<LinkFor>> {
        // As long as there is no account, each start of a server makes a link for the first account. One statement
        // removes all these links: if two requests used two of them and removed them one by one, they could
        // deadlock.
        let delete = Statement::new(
            "DELETE FROM links WHERE kind = $1 AND EXISTS (SELECT 1 FROM links mine WHERE mine.secret = $2 \
             AND mine.kind = $1 AND mine.expires > $3) RETURNING secret",
        )
        .bind(FIRST_ACCOUNT)
        .bind(secret.as_str())
        .bind(now.millis());
        let first: Vec<(String,)> = self.fetch_all(delete).await?;
        if first.iter().any(|(taken,)| taken == secret.as_str()) {
            return Ok(Some(LinkFor::FirstAccount));
        }
        let delete =
            Statement::new("DELETE FROM links WHERE secret = $1 AND expires > $2 RETURNING kind, account")
                .bind(secret.as_str())
                .bind(now.millis());
        let row: Option<LinkRow> = self.fetch_optional(delete).await?;
        Ok(row.map(link).transpose()?)
    }

    /// Removes all links of an account.
    pub(crate) async fn forget_links(&mut self, account: &AccountId) -> StoreResult<()> {
        self.execute(Statement::new("DELETE FROM links WHERE account = $1").bind(account.as_str())).await?;
        Ok(())
    }

    /// The caller must commit only if this returns [`Created::Done`].
    pub(crate) async fn create_account(
        &mut self,
        account: &NewAccount,
        link: Option<&Digest>,
        now: Now,
    ) -> StoreResult<Created> {
        let admin = match link {
            None => account.admin,
            Some(secret) => match self.take_link(secret, now).await? {
                Some(LinkFor::Account) => account.admin,
                Some(LinkFor::FirstAccount) if self.has_no_accounts().await? => true,
                _ => return Ok(Created::NoLink),
            },
        };
        let insert = Statement::new(
            "INSERT INTO accounts (id, name, password, admin, created_at) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT DO NOTHING",
        )
        .bind(account.id.as_str())
        .bind(account.name.as_str())
        .bind(account.password.as_deref())
        .bind(i64::from(admin))
        .bind(now.rfc3339());
        if self.execute(insert).await? == 0 {
            return Ok(Created::NameTaken);
        }
        if let Some(version) = account.terms {
            self.agree(&account.id, version, now).await?;
        }
        Ok(Created::Done(Account {
            id: account.id.clone(),
            name: account.name.clone(),
            admin,
            created_at: now.rfc3339(),
            terms: account.terms.map(|version| Agreement { version, agreed_at: now.rfc3339() }),
        }))
    }

    pub(crate) async fn agree(&mut self, account: &AccountId, terms: u32, now: Now) -> StoreResult<()> {
        let insert = Statement::new(
            "INSERT INTO agreements (account, terms, agreed_at) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        );
        self.execute(insert.bind(account.as_str()).bind(i64::from(terms)).bind(now.rfc3339())).await?;
        Ok(())
    }

    pub(crate) async fn credentials(&mut self, name: &AccountName) -> StoreResult<Option<Credentials>> {
        let select = select_credentials().push(" WHERE a.name = ").push_bind(name.as_str());
        self.read_optional(select).await
    }

    /// The name of an account, which nobody can change or delete until the transaction ends.
    pub(crate) async fn locked_account_name(
        &mut self,
        account: &AccountId,
    ) -> StoreResult<Option<AccountName>> {
        let select = Statement::new("SELECT name FROM accounts WHERE id = $1").bind(account.as_str());
        let row: Option<(String,)> = self.fetch_optional(select.push(self.change_row())).await?;
        Ok(row.map(|(name,)| parse("account name", name)).transpose()?)
    }

    pub(crate) async fn has_no_accounts(&mut self) -> StoreResult<bool> {
        let some: Option<(String,)> =
            self.fetch_optional(Statement::new("SELECT id FROM accounts LIMIT 1")).await?;
        Ok(some.is_none())
    }

    pub(crate) async fn set_password(
        &mut self,
        account: &AccountId,
        hash: &str,
        kept: Option<&Digest>,
    ) -> StoreResult<()> {
        let update = Statement::new("UPDATE accounts SET password = $1 WHERE id = $2");
        self.execute(update.bind(hash).bind(account.as_str())).await?;
        self.end_sessions(account, kept).await
    }
}

pub(crate) fn link((kind, account): LinkRow) -> Result<LinkFor, Damaged> {
    let account: Option<AccountId> = optional("account id", account)?;
    match (kind.as_str(), account) {
        (FIRST_ACCOUNT, None) => Ok(LinkFor::FirstAccount),
        (ACCOUNT, None) => Ok(LinkFor::Account),
        (PASSWORD, Some(account)) => Ok(LinkFor::Password(account)),
        (kind, account) => Err(Damaged::new("link", format_args!("`{kind}` with account {account:?}"))),
    }
}

pub(crate) fn select_credentials() -> Statement {
    Statement::new("SELECT ").push(ACCOUNT_COLUMNS).push(", a.password, a.disabled_at FROM accounts a")
}
