//! Queries of the server's upkeep: how much the database has, which blobs must exist, whether writing works.

use std::collections::BTreeMap;

use async_trait::async_trait;
use diode_api::{ModelSummary, PackSummary};
use sqlx::Database;

use super::connection::Connection;
use super::fields::{from_json, parse, unsigned};
use super::statement::Statement;
use super::{SqlStore, agents, checks, contributions, deviations, figures, jobs, reader, snapshot};
use crate::blobs::BlobKind;
use crate::solutions::Damaged;
use crate::store::error::StoreResult;
use crate::store::types::{NamedBlob, Now, View};
use crate::store::upkeep::{CheckedRows, CheckedUploads, Connections, Figures, NamedBlobs, UpkeepStore};

#[async_trait]
impl<DB: Database<Connection: Connection>> UpkeepStore for SqlStore<DB> {
    async fn blobs(&self) -> StoreResult<NamedBlobs> {
        blobs(&mut *snapshot(self).await?).await
    }

    async fn deviations(&self, view: &View) -> StoreResult<BTreeMap<i64, f64>> {
        deviations::of_view(&mut *reader(self).await?, view).await
    }

    async fn check_uploads(&self) -> StoreResult<CheckedUploads> {
        checks::uploads(&mut *snapshot(self).await?).await
    }

    async fn check_rows(&self) -> StoreResult<CheckedRows> {
        let mut tx = snapshot(self).await?;
        let mut checked = CheckedRows::default();
        jobs::check(&mut *tx, &mut checked).await?;
        agents::check(&mut *tx, &mut checked).await?;
        contributions::check(&mut *tx, &mut checked).await?;
        Ok(checked)
    }

    async fn figures(&self, now: Now) -> StoreResult<Figures> {
        figures::figures(&mut *snapshot(self).await?, now).await
    }

    async fn count_grown_tables(&self) -> StoreResult<()> {
        self.check_place()?;
        self.writers.acquire().await?.count_grown_tables().await
    }

    fn connections(&self) -> Vec<Connections> {
        let of = |pool, connections: &sqlx::Pool<DB>| {
            let (open, idle) = (connections.size(), connections.num_idle());
            Connections { pool, open, idle: u32::try_from(idle).unwrap_or(u32::MAX) }
        };
        vec![of("readers", &self.readers), of("writers", &self.writers)]
    }
}

async fn blobs(db: &mut impl Connection) -> StoreResult<NamedBlobs> {
    let uploads: Vec<(String, String, i64)> =
        db.fetch_all(Statement::new("SELECT id, digest, bytes FROM uploads")).await?;
    let mut models: Vec<(String, String)> =
        db.fetch_all(Statement::new("SELECT id, summary FROM models")).await?;
    models.extend(contributions::unaccepted_files(db).await?);
    let uploads = uploads.into_iter().map(|(id, digest, bytes)| {
        let blob = || -> Result<NamedBlob, Damaged> {
            let (digest, bytes) = (parse("upload digest", digest)?, unsigned("upload size", bytes)?);
            Ok(NamedBlob { kind: BlobKind::Upload, digest, bytes })
        };
        blob().map_err(|damaged| format!("upload {id}: {damaged}"))
    });
    let models =
        models.into_iter().map(|(id, summary)| {
            let blob = from_json("model summary", &summary)
                .map(|ModelSummary { digest, bytes, .. }| NamedBlob { kind: BlobKind::Model, digest, bytes });
            blob.map_err(|damaged| format!("model {id}: {damaged}"))
        });
    let packs: Vec<(String, String)> =
        db.fetch_all(Statement::new("SELECT digest, summary FROM packs")).await?;
    let packs = packs.into_iter().map(|(digest, summary)| {
        let blob = from_json("pack", &summary).map(|PackSummary { sha256, bytes, .. }| NamedBlob {
            kind: BlobKind::Pack,
            digest: sha256,
            bytes,
        });
        blob.map_err(|damaged| format!("pack {digest}: {damaged}"))
    });
    let files: Vec<(String, String, i64)> =
        db.fetch_all(Statement::new("SELECT name, sha256, bytes FROM snapshot_files")).await?;
    let files = files.into_iter().map(|(name, sha256, bytes)| {
        let blob = || -> Result<NamedBlob, Damaged> {
            let (digest, bytes) = (parse("file digest", sha256)?, unsigned("file size", bytes)?);
            Ok(NamedBlob { kind: BlobKind::Snapshot, digest, bytes })
        };
        blob().map_err(|damaged| format!("snapshot file {name}: {damaged}"))
    });
    let mut found = NamedBlobs::default();
    for blob in uploads.chain(models).chain(packs).chain(files) {
        match blob {
            Ok(blob) => found.named.push(blob),
            Err(damaged) => found.damaged.push(damaged),
        }
    }
    Ok(found)
}

/// Writes a row. Fails if the disk is full or the database is read only.
pub(super) async fn probe(db: &mut impl Connection) -> StoreResult<()> {
    let update = "INSERT INTO probe (id, writes) VALUES (1, 1) \
                  ON CONFLICT (id) DO UPDATE SET writes = probe.writes + 1";
    db.execute(Statement::new(update)).await?;
    Ok(())
}
