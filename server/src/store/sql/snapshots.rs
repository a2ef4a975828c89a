//! The SQL of snapshots.

mod add;
mod read;
mod remove;

use diode_api::{Job, NewSnapshot, Reason, SnapshotName, SnapshotSummary};
use diode_core::ids::{AccountId, Digest, HardwareSlug, ModelId};

pub(super) use remove::remove_with;

use crate::blobs::BlobKey;
use crate::store::Store;
use crate::store::connection::in_transaction;
use crate::store::error::StoreResult;
use crate::store::snapshots::{Added, Freezable, Frozen, SnapshotLimits, StoredSnapshot};
use crate::store::statement::Statement;
use crate::store::types::{Now, Queued};

impl Store {
    /// Queues a job that an administrator asks for, and writes it to the log.
    pub async fn queue_snapshot(
        &self,
        job: &Job,
        request: &NewSnapshot,
        account: Option<&AccountId>,
        who: &str,
        now: Now,
    ) -> StoreResult<Queued> {
        in_transaction!(self, tx => add::queue(tx, job, request, account, who, now))
    }

    /// What a snapshot would have now; `None` for unknown hardware.
    pub async fn freezable(&self, slug: &HardwareSlug) -> StoreResult<Option<Freezable>> {
        read::freezable(&mut self.read_transaction().await?, slug).await
    }

    /// Adds a snapshot whose files are stored. If it is not added, no row names the files.
    pub async fn add_snapshot(&self, frozen: &Frozen, limits: &SnapshotLimits) -> StoreResult<Added> {
        in_transaction!(self, tx => add::add(tx, frozen, limits))
    }

    /// The newest snapshots, of all hardware or of one, the newest first.
    pub async fn snapshots(
        &self,
        hardware: Option<&HardwareSlug>,
        limit: u32,
    ) -> StoreResult<Vec<SnapshotSummary>> {
        read::list(&mut self.read_transaction().await?, &self.withdrawn, hardware, limit).await
    }

    /// One snapshot; `None` if there is none with this name.
    pub async fn snapshot(&self, name: &SnapshotName) -> StoreResult<Option<StoredSnapshot>> {
        read::find(&mut self.read_transaction().await?, &self.withdrawn, name).await
    }

    /// The models that were trained on exactly the uploads of a snapshot.
    pub async fn models_of_snapshot(&self, name: &SnapshotName) -> StoreResult<Vec<ModelId>> {
        read::models(&mut self.reader().await?, name).await
    }

    /// Removes the files of a snapshot from its row, and writes it to the log. Returns the files; `None` if
    /// there is no such snapshot, or its files were removed before.
    pub async fn remove_snapshot(
        &self,
        name: &SnapshotName,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<Option<Vec<BlobKey>>> {
        in_transaction!(self, tx => remove::remove(tx, name, why, who, now))
    }

    /// Whether a snapshot has a file with these bytes.
    pub async fn names_snapshot_file(&self, sha256: &Digest) -> StoreResult<bool> {
        let select = Statement::new("SELECT sha256 FROM snapshot_files WHERE sha256 = $1 LIMIT 1");
        let row: Option<(String,)> =
            self.reader().await?.fetch_optional(select.bind(sha256.as_str())).await?;
        Ok(row.is_some())
    }
}
