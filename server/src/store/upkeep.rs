//! What operators ask of the store: how much it has, and whether it is right.

use std::fmt::Display;

use diode_api::{JobState, ModelSummary, PackSummary};
use diode_core::ids::Digest;
use serde::{Deserialize, Serialize};

use crate::agents::lease_store::AGENT_LEASE;
use crate::blobs::BlobKind;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Pools, in_transaction};
use crate::store::databases::count_grown_tables;
use crate::store::fields::{from_json, named, parse, unsigned};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};
use crate::uploads::solutions::Damaged;

/// A blob that a row names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NamedBlob {
    pub kind: BlobKind,
    pub digest: Digest,
    pub bytes: u64,
}

/// The blobs that rows name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedBlobs {
    pub named: Vec<NamedBlob>,
    /// Rows that cannot be read, in words. Which blobs they name is not known.
    pub damaged: Vec<String>,
}

/// The result of checking that standings and owners follow from the uploads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedUploads {
    pub uploads: usize,
    /// Uploads that wait to be judged anew. They are not compared.
    pub to_judge: usize,
    /// Rows that cannot be read, in words.
    pub damaged: Vec<String>,
    /// Values that differ from what they should be, in words.
    pub misjudged: Vec<String>,
}

/// The result of reading the rows of jobs, agents and contributed models.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CheckedRows {
    pub rows: usize,
    /// Rows that cannot be read, in words.
    pub damaged: Vec<String>,
}

impl CheckedRows {
    pub(crate) fn note(&mut self, kind: &str, id: &dyn Display, read: Result<(), Damaged>) {
        self.rows += 1;
        self.damaged.extend(read.err().map(|damaged| format!("{kind} {id}: {damaged}")));
    }
}

/// How much the database has and how much waits.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Figures {
    pub jobs: Vec<(JobState, u64)>,
    pub stale_entries: u64,
    /// Uploads that wait to be judged anew.
    pub to_judge: u64,
    pub uploads: u64,
    pub upload_bytes: u64,
    /// Agents that have asked for something within the time of a lease.
    pub agents: u64,
    pub leases: u64,
    pub waiting_work: u64,
}

/// The connections of a pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Connections {
    pub pool: &'static str,
    pub open: u32,
    pub idle: u32,
}

impl Store {
    /// Every blob that a row names.
    pub async fn blobs(&self) -> StoreResult<NamedBlobs> {
        let db = &mut self.read_transaction().await?;
        let uploads: Vec<(String, String, i64)> =
            db.fetch_all(Statement::new("SELECT id, digest, bytes FROM uploads")).await?;
        let mut models: Vec<(String, String)> =
            db.fetch_all(Statement::new("SELECT id, summary FROM models")).await?;
        models.extend(db.unaccepted_files().await?);
        let uploads = uploads.into_iter().map(|(id, digest, bytes)| {
            let blob = || -> Result<NamedBlob, Damaged> {
                let (digest, bytes) = (parse("upload digest", digest)?, unsigned("upload size", bytes)?);
                Ok(NamedBlob { kind: BlobKind::Upload, digest, bytes })
            };
            blob().map_err(|damaged| format!("upload {id}: {damaged}"))
        });
        let models = models.into_iter().map(|(id, summary)| {
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

    /// Reads every job, agent, lease, piece of work and contributed model.
    pub async fn check_rows(&self) -> StoreResult<CheckedRows> {
        let mut tx = self.read_transaction().await?;
        let mut checked = CheckedRows::default();
        tx.check_jobs(&mut checked).await?;
        tx.check_agents(&mut checked).await?;
        tx.check_contributions(&mut checked).await?;
        Ok(checked)
    }

    /// How much the database has and how much waits.
    pub async fn figures(&self, now: Now) -> StoreResult<Figures> {
        let db = &mut self.read_transaction().await?;
        let counts = Statement::new(
            "SELECT (SELECT COUNT(*) FROM stale_entries), (SELECT COUNT(*) FROM uploads WHERE judged = 0), \
             (SELECT COUNT(*) FROM uploads), (SELECT COUNT(*) FROM agents WHERE seen >= $1), \
             (SELECT COUNT(*) FROM leases WHERE state = 'active'), \
             (SELECT COUNT(*) FROM work WHERE state = 'waiting')",
        )
        .bind(now.millis() - AGENT_LEASE.as_millis() as i64);
        let (stale, to_judge, uploads, agents, leases, work): (i64, i64, i64, i64, i64, i64) =
            db.fetch_one(counts).await?;
        let by_state = Statement::new("SELECT state, COUNT(*) FROM jobs GROUP BY state ORDER BY state");
        let jobs: Vec<(String, i64)> = db.fetch_all(by_state).await?;
        let read = |(state, number): (String, i64)| -> Result<(JobState, u64), Damaged> {
            Ok((named("job state", &state)?, unsigned("jobs", number)?))
        };
        Ok(Figures {
            jobs: jobs.into_iter().map(read).collect::<Result<_, _>>()?,
            stale_entries: unsigned("stale entries", stale)?,
            to_judge: unsigned("uploads to judge", to_judge)?,
            uploads: unsigned("uploads", uploads)?,
            upload_bytes: db.stored_bytes().await?,
            agents: unsigned("agents", agents)?,
            leases: unsigned("leases", leases)?,
            waiting_work: unsigned("waiting work", work)?,
        })
    }

    /// Lets the database count tables again that have grown much, so that it reads boards by the right index. Postgres
    /// counts by itself, too, but up to a minute later.
    pub async fn count_grown_tables(&self) -> StoreResult<()> {
        self.check_place()?;
        match &self.pools {
            // SQLite chooses the right indexes without counts.
            Pools::Sqlite { .. } => Ok(()),
            Pools::Postgres(pool) => count_grown_tables(pool).await,
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

    /// How many bytes all files have that people sent: uploads and contributed models.
    pub async fn stored_bytes(&self) -> StoreResult<u64> {
        self.reader().await?.stored_bytes().await
    }

    /// Fails if the database cannot be written to.
    pub async fn probe(&self) -> StoreResult<()> {
        in_transaction!(self, async |db| {
            let update = "INSERT INTO probe (id, writes) VALUES (1, 1) \
                          ON CONFLICT (id) DO UPDATE SET writes = probe.writes + 1";
            db.execute(Statement::new(update)).await?;
            Ok(())
        })
    }
}

impl Connection {
    /// How many bytes all files have that people sent: uploads and contributed models.
    pub(crate) async fn stored_bytes(&mut self) -> StoreResult<u64> {
        let select = Statement::new(
            "SELECT CAST((SELECT COALESCE(SUM(bytes), 0) FROM uploads) \
             + (SELECT COALESCE(SUM(bytes), 0) FROM contributed_models) AS BIGINT)",
        );
        let (bytes,): (i64,) = self.fetch_one(select).await?;
        Ok(unsigned("upload size", bytes)?)
    }
}
