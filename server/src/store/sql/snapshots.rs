//! The SQL of snapshots.

mod add;
mod read;
mod remove;

use async_trait::async_trait;
use diode_api::{Job, NewSnapshot, Reason, SnapshotName, SnapshotSummary};
use diode_core::ids::{AccountId, Digest, HardwareSlug, ModelId};
use sqlx::Database;

pub(super) use remove::remove_with;

use super::connection::Connection;
use super::statement::Statement;
use super::{SqlStore, reader, snapshot};
use crate::blobs::BlobKey;
use crate::store::error::StoreResult;
use crate::store::snapshots::{Added, Freezable, Frozen, SnapshotLimits, SnapshotStore, StoredSnapshot};
use crate::store::types::{Now, Queued};

#[async_trait]
impl<DB: Database<Connection: Connection>> SnapshotStore for SqlStore<DB> {
    async fn queue_snapshot(
        &self,
        job: &Job,
        request: &NewSnapshot,
        account: Option<&AccountId>,
        who: &str,
        now: Now,
    ) -> StoreResult<Queued> {
        in_transaction!(self, tx => add::queue(tx, job, request, account, who, now))
    }

    async fn freezable(&self, slug: &HardwareSlug) -> StoreResult<Option<Freezable>> {
        read::freezable(&mut *snapshot(self).await?, slug).await
    }

    async fn add_snapshot(&self, frozen: &Frozen, limits: &SnapshotLimits) -> StoreResult<Added> {
        in_transaction!(self, tx => add::add(tx, frozen, limits))
    }

    async fn snapshots(
        &self,
        hardware: Option<&HardwareSlug>,
        limit: u32,
    ) -> StoreResult<Vec<SnapshotSummary>> {
        read::list(&mut *snapshot(self).await?, &self.withdrawn, hardware, limit).await
    }

    async fn snapshot(&self, name: &SnapshotName) -> StoreResult<Option<StoredSnapshot>> {
        read::find(&mut *snapshot(self).await?, &self.withdrawn, name).await
    }

    async fn models_of_snapshot(&self, name: &SnapshotName) -> StoreResult<Vec<ModelId>> {
        read::models(&mut *reader(self).await?, name).await
    }

    async fn remove_snapshot(
        &self,
        name: &SnapshotName,
        why: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<Option<Vec<BlobKey>>> {
        in_transaction!(self, tx => remove::remove(tx, name, why, who, now))
    }

    async fn names_snapshot_file(&self, sha256: &Digest) -> StoreResult<bool> {
        let select = Statement::new("SELECT sha256 FROM snapshot_files WHERE sha256 = $1 LIMIT 1");
        let row: Option<(String,)> = reader(self).await?.fetch_optional(select.bind(sha256.as_str())).await?;
        Ok(row.is_some())
    }
}
