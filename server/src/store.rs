//! Everything that the server stores, in SQLite or in Postgres.
//!
//! [`Store`] has a method for everything that the rest of the server may ask of the database. Both databases run the
//! same SQL through a [`connection::Connection`], which knows the few differences. One story test runs on both.

mod accounts;
mod agents;
pub(crate) mod connection;
mod contributions;
mod cursor;
mod error;
mod fields;
mod from_row;
mod identities;
mod moderation;
mod postgres;
mod publications;
mod remembered;
mod schema;
mod snapshots;
mod sql;
mod sqlite;
mod statement;
mod survey;
mod types;
mod upkeep;

use std::sync::Arc;

use diode_core::ids::HardwareSlug;

use crate::path_identity::PathIdentity;
use connection::{Connection, Pools};
use remembered::Remembered;
use sql::board::{Counted, Totals};
use sql::summaries::Figures as SummaryFigures;

pub use accounts::{
    Created, Credentials, DeviceAnswer, LONGEST_WINDOW, LinkFor, NewAccount, NewTokenRow, PasswordReset,
    Tries, WaitingDevice,
};
pub use agents::{
    AGENT_LEASE, KnownAgent, KnownProblems, LeaseWish, LeasedWork, MAX_REFUSED_RESULTS, MeasuredUpTo,
    NewWork, ReadUpTo, Taken, WorkFigures,
};
pub use contributions::{ContributionFilter, MAX_WAITING_MODELS, NewContribution, ReviewRefused, TakenModel};
pub use cursor::{Cursor, Ranking};
pub use error::{StoreError, StoreResult};
pub use identities::{Identity, Linked, OpenIdSignIn, OpenIdSignUp, SignedUp, Unlinked};
pub use moderation::{Done, NotMerged, UploadFilter};
pub use publications::{ComparedWithPublished, Due, Refused};
pub use snapshots::{Added, Freezable, Frozen, SnapshotLimits, StoredSnapshot};
pub use survey::{Pair, Record, Sample};
pub use types::{
    BACK_OFF, BoardQuery, Claim, ForLease, KnownHardware, LEASE, MAX_ATTEMPTS, MAX_OWN_JOBS,
    MAX_WAITING_JOBS, Made, NamedBlob, NewSolution, NewUpload, Now, Queued, TrainingData, View,
};
pub use upkeep::{CheckedUploads, Connections, Figures, NamedBlobs};

/// The database. Every method is one transaction.
pub struct Store {
    pools: Pools,
    /// The file of the database, if it is one file.
    place: Option<PathIdentity>,
    figures: Remembered<HardwareSlug, SummaryFigures>,
    totals: Remembered<Counted, Totals>,
    /// For each snapshot, the number of its uploads that no longer count.
    withdrawn: Remembered<i64, u64>,
}

impl Store {
    fn new(pools: Pools, place: Option<PathIdentity>) -> Self {
        Self {
            pools,
            place,
            figures: Remembered::default(),
            totals: Remembered::default(),
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
}

/// Opens a database that must exist. A missing file is taken for a mistake in its name, and none is created.
pub async fn open_existing(url: &str) -> StoreResult<Arc<Store>> {
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

/// Opens the database that a URL names (`sqlite:FILE` or `postgres://…`), and makes its tables.
pub async fn open(url: &str) -> StoreResult<Arc<Store>> {
    if url.starts_with("postgres:") || url.starts_with("postgresql:") {
        Ok(Arc::new(Store::new(Pools::Postgres(postgres::open(url).await?), None)))
    } else {
        let (pools, place) = sqlite::open(url).await?;
        Ok(Arc::new(Store::new(pools, Some(place))))
    }
}
