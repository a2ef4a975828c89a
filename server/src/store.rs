//! Everything that the server stores. [`Store`] is the interface. [`SqliteStore`] and [`PostgresStore`] behave
//! alike: the module `sql` has the SQL of both. The modules `sqlite` and `postgres` have only what differs. One
//! story test runs on both.

mod accounts;
mod agents;
mod contributions;
mod cursor;
mod error;
mod identities;
mod interface;
mod mails;
mod migrations;
mod moderation;
mod packs;
mod postgres;
mod publications;
mod snapshots;
mod sql;
mod sqlite;
mod survey;
mod types;
mod upkeep;

use std::sync::Arc;

pub use accounts::{
    AccountStore, Created, Credentials, DeviceAnswer, LONGEST_WINDOW, LinkFor, MAX_ACCOUNTS_OF_ADDRESS,
    NewAccount, NewTokenRow, PasswordReset, Tries, WaitingDevice,
};
pub use agents::{
    AGENT_LEASE, AgentStore, KnownAgent, KnownProblems, LeaseWish, LeasedWork, MAX_REFUSED_RESULTS,
    MeasuredUpTo, NewWork, ReadUpTo, Taken, WorkFigures,
};
pub use contributions::{
    ContributionFilter, ContributionStore, MAX_WAITING_MODELS, NewContribution, ReviewRefused, TakenModel,
};
pub use cursor::{Cursor, Ranking};
pub use error::{StoreError, StoreResult};
pub use identities::{Identity, IdentityStore, Linked, OpenIdSignIn, OpenIdSignUp, SignedUp, Unlinked};
pub use interface::Store;
pub use mails::{ClaimedMail, MAIL_LEASE, MAX_WAITING_MAILS, MailKind, MailStore};
pub use moderation::{Done, ModerationStore, NotMerged, UploadFilter};
pub use packs::PackStore;
pub use postgres::PostgresStore;
pub use publications::{ComparedWithPublished, Due, PublicationStore, Refused};
pub use snapshots::{Added, Freezable, Frozen, SnapshotLimits, SnapshotStore, StoredSnapshot};
pub use sqlite::SqliteStore;
pub use survey::{Pair, Record, Sample, SurveyStore};
pub use types::{
    BACK_OFF, BoardQuery, Claim, ForLease, KnownHardware, LEASE, MAX_ATTEMPTS, MAX_OWN_JOBS,
    MAX_WAITING_JOBS, Made, NamedBlob, NewSolution, NewUpload, Now, Queued, TrainingData, View,
};
pub use upkeep::{CheckedUploads, Connections, Figures, NamedBlobs, UpkeepStore};

/// Opens a database that must exist. A missing file is taken for a mistake in its name, and none is created.
pub async fn open_existing(url: &str) -> StoreResult<Arc<dyn Store>> {
    if let Some(file) = sqlite::file_of(url)
        && !file.exists()
    {
        let reason = format!(
            "there is no file {}, expected the database of a server; name it by --database-url, or start this in its folder",
            file.display()
        );
        return Err(StoreError::Url { url: url.to_owned(), reason });
    }
    open(url).await
}

/// Opens the database that a URL names (`sqlite:FILE` or `postgres://…`), and migrates its tables.
pub async fn open(url: &str) -> StoreResult<Arc<dyn Store>> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        Ok(Arc::new(PostgresStore::open(url).await?))
    } else {
        Ok(Arc::new(SqliteStore::open(url).await?))
    }
}
