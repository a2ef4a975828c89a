//! Queries of the server's upkeep: how much the database has, which blobs must exist, whether writing works.

use std::collections::BTreeMap;

use diode_api::{ModelSummary, PackSummary};

use super::{agents, checks, contributions, deviations, figures, jobs};
use crate::blobs::BlobKind;
use crate::solutions::Damaged;
use crate::store::Store;
use crate::store::connection::{Connection, Pools};
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, parse, unsigned};
use crate::store::postgres;
use crate::store::statement::Statement;
use crate::store::types::{NamedBlob, Now, View};
use crate::store::upkeep::{CheckedRows, CheckedUploads, Connections, Figures, NamedBlobs};

impl Store {
    /// Every blob that a row names.
    pub async fn blobs(&self) -> StoreResult<NamedBlobs> {
        blobs(&mut self.read_transaction().await?).await
    }

    /// The stored deviations of a view, by the number of the solution.
    pub async fn deviations(&self, view: &View) -> StoreResult<BTreeMap<i64, f64>> {
        deviations::of_view(&mut self.reader().await?, view).await
    }

    /// Judges every upload anew and computes the owners of its solutions, but changes nothing.
    pub async fn check_uploads(&self) -> StoreResult<CheckedUploads> {
        checks::uploads(&mut self.read_transaction().await?).await
    }

    /// Reads every job, agent, lease, piece of work and contributed model.
    pub async fn check_rows(&self) -> StoreResult<CheckedRows> {
        let mut tx = self.read_transaction().await?;
        let mut checked = CheckedRows::default();
        jobs::check(&mut tx, &mut checked).await?;
        agents::check(&mut tx, &mut checked).await?;
        contributions::check(&mut tx, &mut checked).await?;
        Ok(checked)
    }

    /// How much the database has and how much waits.
    pub async fn figures(&self, now: Now) -> StoreResult<Figures> {
        figures::figures(&mut self.read_transaction().await?, now).await
    }

    /// Lets the database count tables again that have grown much, so that it reads boards by the right index. Postgres
    /// counts by itself, too, but up to a minute later.
    pub async fn count_grown_tables(&self) -> StoreResult<()> {
        self.check_place()?;
        match &self.pools {
            // SQLite chooses the right indexes without counts.
            Pools::Sqlite { .. } => Ok(()),
            Pools::Postgres(pool) => postgres::count_grown_tables(pool).await,
        }
    }

    /// The connections to the database.
    pub fn connections(&self) -> Vec<Connections> {
        let of = |pool, open, idle: usize| Connections {
            pool,
            open,
            idle: u32::try_from(idle).unwrap_or(u32::MAX),
        };
        match &self.pools {
            Pools::Sqlite { readers, writer } => vec![
                of("readers", readers.size(), readers.num_idle()),
                of("writers", writer.size(), writer.num_idle()),
            ],
            Pools::Postgres(pool) => {
                ["readers", "writers"].map(|name| of(name, pool.size(), pool.num_idle())).into()
            }
        }
    }
}

async fn blobs(db: &mut Connection) -> StoreResult<NamedBlobs> {
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
pub(super) async fn probe(db: &mut Connection) -> StoreResult<()> {
    let update = "INSERT INTO probe (id, writes) VALUES (1, 1) \
                  ON CONFLICT (id) DO UPDATE SET writes = probe.writes + 1";
    db.execute(Statement::new(update)).await?;
    Ok(())
}
