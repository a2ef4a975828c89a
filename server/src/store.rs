//! Everything that the server stores, in SQLite or in Postgres.
//!
//! [`Store`] has a method for everything that the rest of the server may ask of the database. Both databases run the
//! same SQL through a `Connection`, which knows the few differences. One story test runs on both.

pub(crate) mod connection;
pub(crate) mod databases;
mod error;
pub(crate) mod fields;
pub(crate) mod statement;
pub(crate) mod upkeep;

use std::sync::Arc;
use std::time::Duration;

use diode_core::ids::HardwareSlug;

use crate::boards::listed::Boards;
use crate::boards::summary_store::SummaryFigures;
use crate::page_cache::Remembered;
use crate::readiness::PathIdentity;
use connection::{Connection, Pools};
use statement::Statement;

pub(crate) use databases::{file_of as sqlite_file, keep_from_work, work_on};
pub use error::{StoreError, StoreResult};

pub use crate::accounts::account_store::{
    Created, Credentials, DeviceAnswer, LONGEST_WINDOW, LinkFor, NewAccount, NewTokenRow, PasswordReset,
    Tries, WaitingDevice,
};
pub use crate::accounts::identity_store::{
    Identity, Linked, LinkedIdentity, PendingSignIn, PendingSignUp, SignedUp, Unlinked,
};
pub use crate::admin::moderation_store::{Done, LogEntry, Report, UploadFilter};
pub use crate::agents::agent_store::{KnownAgent, MAX_REFUSED_RESULTS};
pub use crate::agents::lease_store::{AGENT_LEASE, LeaseOutcome, LeaseWish, LeasedWork};
pub use crate::agents::work_store::{MeasuredUpTo, NewWork, ProblemsRead, ReadUpTo, WorkFigures};
pub use crate::boards::board_store::{BoardQuery, Cursor, Ranking, Way};
pub use crate::boards::entry_store::View;
pub use crate::boards::hardware_store::{KnownHardware, NotMerged};
pub use crate::boards::survey_store::{Record, Sample};
pub use crate::compare::Pair;
pub use crate::jobs::job_store::{
    BACK_OFF, Claim, LEASE, MAX_ATTEMPTS, MAX_OWN_JOBS, MAX_WAITING_JOBS, Made, Queued,
};
pub use crate::models::contribution_store::{
    ContributionFilter, MAX_WAITING_MODELS, NewContribution, Review, ReviewAction, ReviewRefused, TakenModel,
};
pub use crate::models::model_store::Due;
pub use crate::models::publication_store::{ComparedWithPublished, NewPublication, PickChange, Refused};
pub use crate::snapshots::snapshot_store::{Added, Freezable, Frozen, SnapshotLimits, StoredSnapshot};
pub use crate::uploads::upload_store::{ForLease, NewUpload};
pub use upkeep::{CheckedUploads, Connections, Figures, NamedBlob, NamedBlobs};

/// The database. Every method is one transaction.
pub struct Store {
    pools: Pools,
    /// The file of the database, if it is one file.
    place: Option<PathIdentity>,
    pub(crate) figures: Remembered<HardwareSlug, SummaryFigures>,
    pub(crate) boards: Boards,
    /// For each snapshot, the number of its uploads that no longer count.
    pub(crate) withdrawn: Remembered<i64, u64>,
}

impl Store {
    fn new(pools: Pools, place: Option<PathIdentity>) -> Self {
        Self {
            pools,
            place,
            figures: Remembered::default(),
            boards: Boards::default(),
            withdrawn: Remembered::default(),
        }
    }

    /// Fails if the database's file is no longer where it was.
    fn check_place(&self) -> StoreResult<()> {
        Ok(self.place.as_ref().map_or(Ok(()), PathIdentity::check).map_err(sqlx::Error::Io)?)
    }

    /// A connection for a single query.
    pub(crate) async fn reader(&self) -> StoreResult<Connection> {
        self.check_place()?;
        self.pools.reader().await
    }

    /// A transaction for queries that must all see the same state.
    pub(crate) async fn read_transaction(&self) -> StoreResult<Connection> {
        self.check_place()?;
        self.pools.snapshot().await
    }

    /// A transaction that writes.
    pub(crate) async fn writer(&self) -> StoreResult<Connection> {
        self.check_place()?;
        self.pools.writer().await
    }

    /// Fails if the database does not answer.
    pub async fn ping(&self) -> StoreResult<()> {
        self.reader().await?.execute(Statement::new("SELECT 1")).await?;
        Ok(())
    }
    /// Waits for running statements and closes every connection.
    pub async fn close(&self) {
        self.pools.close().await;
    }
}

/// How far the clocks of servers may be apart.
const MAX_APART: Duration = Duration::from_secs(60);

/// A moment by the caller's clock.
#[derive(Debug, Clone, Copy)]
pub struct Now(pub jiff::Timestamp);

impl Now {
    /// Reads the clock.
    pub fn read() -> Self {
        Self(jiff::Timestamp::now())
    }

    /// This moment, rounded down to a second.
    pub(crate) fn whole_second(self) -> Self {
        Self(jiff::Timestamp::from_second(self.0.as_second()).unwrap_or(self.0))
    }

    pub fn rfc3339(self) -> String {
        self.0.to_string()
    }

    pub(crate) fn millis(self) -> i64 {
        self.0.as_millisecond()
    }

    pub(crate) fn lease_end(self, lease: Duration) -> i64 {
        self.millis() + lease.as_millis() as i64
    }

    /// No lease that was just taken ends later than this, however far the clocks of servers are apart. One that does was
    /// taken before a clock was set back, and has ended.
    pub(crate) fn latest_end(self, lease: Duration) -> i64 {
        self.lease_end(lease + MAX_APART)
    }
}

/// Opens a database that must exist. A missing file is taken for a mistake in its name, and none is created.
pub async fn open_existing(url: &str) -> StoreResult<Arc<Store>> {
    if let Some(file) = databases::file_of(url)
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

/// Opens the database that a URL names (`sqlite:FILE` or `postgres://…`), and makes its tables.
pub async fn open(url: &str) -> StoreResult<Arc<Store>> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        Ok(Arc::new(Store::new(Pools::Postgres(databases::open_postgres(url).await?), None)))
    } else {
        let (pools, place) = databases::open_sqlite(url).await?;
        Ok(Arc::new(Store::new(pools, Some(place))))
    }
}
