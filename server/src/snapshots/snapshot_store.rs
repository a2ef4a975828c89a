//! Snapshots in the database. The row of a removed snapshot stays, so that people who follow a citation learn the reason.

use std::collections::BTreeMap;

use diode_api::{
    Job, NewSnapshot, Reason, SnapshotFile, SnapshotName, SnapshotState, SnapshotSummary, SnapshotUpload,
    UploadLicence,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, Digest, HardwareSlug, ModelId, UploadId};

use crate::blobs::{BlobKey, BlobKind};
use crate::jobs::job_store::Queued;
use crate::page_cache::Remembered;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Exclusive, in_transaction};
use crate::store::fields::{from_json, json, parse, readable_row, unsigned};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::store::{Now, StoreResult};
use crate::uploads::solution_store::Selection;
use crate::uploads::solutions::{Damaged, StoredSolutions};

/// How many snapshots the server keeps at most, and how large they may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// The most snapshots of one hardware.
    pub number: u64,
    /// The most bytes of all files of all snapshots.
    pub bytes: u64,
}

/// Everything of a hardware that counts, as it was at one moment.
#[derive(Debug)]
pub struct Freezable {
    pub hardware: Hardware,
    /// The digest of everything that a snapshot would have.
    pub state: Digest,
    /// Grows when an upload of the hardware starts or stops counting.
    pub losses: u64,
    pub solutions: StoredSolutions,
    /// How many timings and failures each solution has, by number.
    pub sizes: Vec<(i64, u64)>,
    /// The uploads, in the order in which they arrived.
    pub uploads: Vec<(UploadId, SnapshotUpload)>,
    /// The newest snapshot, if it is of this state and its files exist.
    pub same: Option<SnapshotName>,
    /// The version that the next snapshot gets.
    pub next: u32,
    /// How many bytes all snapshots have.
    pub stored: u64,
}

/// A snapshot whose files are stored, but which is not added yet.
#[derive(Debug, Clone)]
pub struct Frozen {
    pub summary: SnapshotSummary,
    pub state: Digest,
    /// See [`Freezable::losses`].
    pub losses: u64,
    pub files: Vec<SnapshotFile>,
    pub uploads: Vec<UploadId>,
}

/// The result of adding a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Added {
    Yes,
    /// An upload in it no longer counts, or another snapshot has its version.
    Outdated,
    /// The hardware has as many snapshots as are allowed.
    TooMany,
    /// All snapshots have as many bytes as are allowed.
    Full,
}

/// A snapshot that the database has.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredSnapshot {
    pub summary: SnapshotSummary,
    /// Empty if the files were removed.
    pub files: Vec<SnapshotFile>,
}

/// The summary of a snapshot. The losses show whether a remembered count is still valid: their number grows when an
/// upload of the hardware starts or stops counting.
const SELECT_SNAPSHOTS: &str = "SELECT s.position, s.summary, s.removed, h.losses FROM snapshots \
                                s \
                                JOIN hardware h ON h.slug = s.hardware";

struct SnapshotRow {
    position: i64,
    losses: i64,
    summary: SnapshotSummary,
}

readable_row!(SnapshotRow { position, losses, summary: String, removed: Option<String> } => {
    let state = if removed.is_some() { SnapshotState::Removed } else { SnapshotState::Whole };
    let reason = removed.unwrap_or_default();
    let summary = SnapshotSummary { state, reason, ..from_json("snapshot", &summary)? };
    SnapshotRow { position, losses, summary }
});

impl SnapshotRow {
    fn summary(self, withdrawn: &Withdrawn) -> SnapshotSummary {
        let withdrawn_uploads = withdrawn.get(&self.position).copied().unwrap_or_default();
        SnapshotSummary { withdrawn_uploads, ..self.summary }
    }
}

/// For each snapshot, how many of its uploads no longer count.
type Withdrawn = BTreeMap<i64, u64>;

readable_row!(SnapshotFile { name, format, bytes, sha256 } => SnapshotFile {
    name,
    format,
    bytes: unsigned("file size", bytes)?,
    sha256: parse("file digest", sha256)?,
});

readable_row!((UploadId, SnapshotUpload) { ..licence: UploadLicence, id, digest, received_at } => {
    let digest = parse("upload digest", digest)?;
    (parse("upload id", id)?, SnapshotUpload { digest, received_at, licence })
});

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
        in_transaction!(self, async |db| {
            let queued = db.enqueue(job, account, now).await?;
            if queued == Queued::Yes {
                let what = format!("snapshot of {}", request.hardware);
                db.write_down(&what, &request.reason, who, now).await?;
            }
            Ok(queued)
        })
    }

    /// What a snapshot would have now; `None` for unknown hardware.
    pub async fn freezable(&self, slug: &HardwareSlug) -> StoreResult<Option<Freezable>> {
        let db = &mut self.read_transaction().await?;
        let Some(described) = db.find_hardware(slug).await? else { return Ok(None) };
        let timings = db.hardware_state(slug).await?.unwrap_or_default();
        let losses = db.hardware_losses(slug).await?;
        let uploads = db.uploads_to_freeze(slug).await?;
        let state = state_of(&timings, &described, &uploads)?;
        let solutions = db.load_solutions(Selection::Hardware(slug)).await?;
        let sizes = db.solution_sizes(slug).await?;
        let select = Statement::new(
            "SELECT version, state, removed FROM snapshots WHERE hardware = $1 ORDER BY version \
             DESC LIMIT 1",
        );
        let newest: Option<(i64, String, Option<String>)> =
            db.fetch_optional(select.bind(slug.as_str())).await?;
        let (mut same, mut next) = (None, 1);
        if let Some((version, of, removed)) = newest {
            let version = u32::try_from(version)
                .map_err(|_| Damaged::new("snapshot version", format_args!("{version}")))?;
            let is_same = of == state.as_str() && removed.is_none();
            same = is_same.then(|| SnapshotName { hardware: slug.clone(), version });
            next = version + 1;
        }
        let stored = db.snapshot_bytes().await?;
        Ok(Some(Freezable {
            hardware: described,
            state,
            losses,
            solutions,
            sizes,
            uploads,
            same,
            next,
            stored,
        }))
    }

    /// Adds a snapshot whose files are stored. If it is not added, no row names the files.
    pub async fn add_snapshot(&self, frozen: &Frozen, limits: &SnapshotLimits) -> StoreResult<Added> {
        in_transaction!(self, async |db| {
            // Without a turn, two transactions could together exceed the limit.
            db.turn(Exclusive::Snapshots).await?;
            let name = &frozen.summary.name;
            let count =
                Statement::new("SELECT COUNT(*) FROM snapshots WHERE hardware = $1 AND removed IS NULL");
            let (number,): (i64,) = db.fetch_one(count.bind(name.hardware.as_str())).await?;
            if unsigned("snapshot count", number)? >= limits.number {
                return Ok(Added::TooMany);
            }
            if db.snapshot_bytes().await?.saturating_add(frozen.summary.bytes) > limits.bytes {
                return Ok(Added::Full);
            }
            // The lock keeps uploads of the hardware from being deleted or quarantined. New uploads wait, too, from
            // here on.
            db.lock_hardware(&name.hardware).await?;
            let is_as_it_was = db.hardware_losses(&name.hardware).await? == frozen.losses;
            if !is_as_it_was && !db.all_count(frozen).await? {
                return Ok(Added::Outdated);
            }
            let insert = Statement::new(
        "INSERT INTO snapshots (hardware, version, state, bytes, summary) VALUES ($1, $2, $3, $4, $5) \
         ON CONFLICT DO NOTHING RETURNING position",
    )
    .bind(name.hardware.as_str())
    .bind(i64::from(name.version))
    .bind(frozen.state.as_str())
    .bind(frozen.summary.bytes)
    .bind(json("snapshot", &frozen.summary)?);
            let Some((position,)) = db.fetch_optional::<(i64,)>(insert).await? else {
                return Ok(Added::Outdated);
            };
            for (at, files) in frozen.files.chunks(ROWS_PER_STATEMENT).enumerate() {
                let first = at * ROWS_PER_STATEMENT;
                let rows = files.iter().enumerate().map(|(place, file)| {
                    [
                        position.into(),
                        ((first + place) as u64).into(),
                        file.name.as_str().into(),
                        file.format.as_str().into(),
                        file.bytes.into(),
                        file.sha256.as_str().into(),
                    ]
                });
                let insert = "INSERT INTO snapshot_files (snapshot, place, name, format, bytes, sha256)";
                db.execute(Statement::new(insert).push_rows(rows)).await?;
            }
            for uploads in frozen.uploads.chunks(ROWS_PER_STATEMENT) {
                let rows = uploads.iter().map(|upload| [position.into(), upload.as_str().into()]);
                let insert =
                    Statement::new("INSERT INTO snapshot_uploads (snapshot, upload)").push_rows(rows);
                db.execute(insert).await?;
            }
            Ok(Added::Yes)
        })
    }

    /// The newest snapshots, of all hardware or of one, the newest first.
    pub async fn snapshots(
        &self,
        hardware: Option<&HardwareSlug>,
        limit: u32,
    ) -> StoreResult<Vec<SnapshotSummary>> {
        let memory = &self.withdrawn;
        let db = &mut self.read_transaction().await?;
        let mut select = Statement::new(SELECT_SNAPSHOTS);
        if let Some(slug) = hardware {
            select = select.push(" WHERE s.hardware = ").push_bind(slug.as_str());
        }
        let select = select.push(" ORDER BY s.position DESC LIMIT ").push_bind(i64::from(limit));
        let rows: Vec<SnapshotRow> = db.read_all(select).await?;
        let withdrawn = db.withdrawn_uploads(memory, &rows).await?;
        Ok(rows.into_iter().map(|row| row.summary(&withdrawn)).collect())
    }

    /// One snapshot; `None` if there is none with this name.
    pub async fn snapshot(&self, name: &SnapshotName) -> StoreResult<Option<StoredSnapshot>> {
        let memory = &self.withdrawn;
        let db = &mut self.read_transaction().await?;
        let select = Statement::new(SELECT_SNAPSHOTS)
            .push(" WHERE s.hardware = ")
            .push_bind(name.hardware.as_str())
            .push(" AND s.version = ")
            .push_bind(i64::from(name.version));
        let Some(row) = db.read_optional::<SnapshotRow>(select).await? else { return Ok(None) };
        let select = Statement::new(
            "SELECT name, format, bytes, sha256 FROM snapshot_files WHERE snapshot = $1 ORDER BY \
             place",
        );
        let files = db.read_all(select.bind(row.position)).await?;
        let rows = [row];
        let withdrawn = db.withdrawn_uploads(memory, &rows).await?;
        let [row] = rows;
        Ok(Some(StoredSnapshot { summary: row.summary(&withdrawn), files }))
    }

    /// The models that were trained on exactly the uploads of a snapshot.
    pub async fn models_of_snapshot(&self, name: &SnapshotName) -> StoreResult<Vec<ModelId>> {
        // A model has the data of a snapshot if both have the same hardware and the same uploads.
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT m.id FROM snapshots s JOIN models m ON m.hardware = s.hardware WHERE \
             s.hardware = $1 \
             AND s.version = $2 AND s.removed IS NULL AND NOT EXISTS ( \
             SELECT 1 FROM snapshot_uploads n WHERE n.snapshot = s.position AND NOT EXISTS ( \
             SELECT 1 FROM model_uploads o WHERE o.model = m.id AND o.upload = n.upload)) \
             AND NOT EXISTS ( \
             SELECT 1 FROM model_uploads o WHERE o.model = m.id AND NOT EXISTS ( \
             SELECT 1 FROM snapshot_uploads n WHERE n.snapshot = s.position AND n.upload = \
             o.upload)) \
             ORDER BY m.position",
        );
        let select = select.bind(name.hardware.as_str()).bind(i64::from(name.version));
        let rows: Vec<(String,)> = db.fetch_all(select).await?;
        Ok(rows.into_iter().map(|(id,)| parse("model id", id)).collect::<Result<_, _>>()?)
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
        in_transaction!(self, async |db| {
            let select = Statement::new(
                "SELECT position FROM snapshots WHERE hardware = $1 AND version = $2 AND removed IS NULL",
            );
            let select = select.bind(name.hardware.as_str()).bind(i64::from(name.version));
            let found: Option<(i64,)> = db.fetch_optional(select.push(db.lock_row())).await?;
            let Some((position,)) = found else { return Ok(None) };
            let files = db.take_snapshot_files(position, why.as_str()).await?;
            db.write_down(&format!("remove snapshot {name}"), why, who, now).await?;
            Ok(Some(files))
        })
    }

    /// Whether a snapshot has a file with these bytes.
    pub async fn names_snapshot_file(&self, sha256: &Digest) -> StoreResult<bool> {
        let select = Statement::new("SELECT sha256 FROM snapshot_files WHERE sha256 = $1 LIMIT 1");
        let row: Option<(String,)> =
            self.reader().await?.fetch_optional(select.bind(sha256.as_str())).await?;
        Ok(row.is_some())
    }
}

impl Connection {
    /// Whether every upload of the snapshot exists and counts.
    async fn all_count(&mut self, frozen: &Frozen) -> StoreResult<bool> {
        for uploads in frozen.uploads.chunks(ROWS_PER_STATEMENT) {
            let count = Statement::new("SELECT COUNT(*) FROM uploads WHERE standing = 0 AND id IN (")
                .push_list(uploads.iter().map(|upload| upload.as_str()))
                .push(")");
            let (there,): (i64,) = self.fetch_one(count).await?;
            if there != uploads.len() as i64 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Counts only for snapshots whose count is not remembered. Removed snapshots are left out: they have no uploads any
    /// more, and a removal by another server does not clear this server's memory.
    async fn withdrawn_uploads(
        &mut self,
        memory: &Remembered<i64, u64>,
        rows: &[SnapshotRow],
    ) -> StoreResult<Withdrawn> {
        let (mut known, mut unknown) = (Withdrawn::new(), Vec::new());
        for row in rows.iter().filter(|row| row.summary.state == SnapshotState::Whole) {
            match memory.get(&row.position, row.losses) {
                Some(number) => {
                    known.insert(row.position, number);
                }
                None => unknown.push(row),
            }
        }
        for chunk in unknown.chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new(
                "SELECT n.snapshot, COUNT(*) FROM snapshot_uploads n LEFT JOIN uploads u ON u.id \
                 = n.upload \
                 WHERE (u.id IS NULL OR u.standing > 0) AND n.snapshot IN (",
            );
            let select = select.push_list(chunk.iter().map(|row| row.position)).push(") GROUP BY n.snapshot");
            let counted: Vec<(i64, i64)> = self.fetch_all(select).await?;
            for (position, number) in counted {
                known.insert(position, unsigned("upload count", number)?);
            }
            for row in chunk {
                memory.put(row.position, row.losses, *known.entry(row.position).or_default());
            }
        }
        Ok(known)
    }

    /// How many bytes all files of all snapshots have. A file that two snapshots share counts twice.
    pub(crate) async fn snapshot_bytes(&mut self) -> StoreResult<u64> {
        let select = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM snapshots WHERE removed IS NULL";
        let (bytes,): (i64,) = self.fetch_one(Statement::new(select)).await?;
        Ok(unsigned("snapshot size", bytes)?)
    }

    /// The uploads that count and have solutions of a hardware, in the order in which they arrived.
    async fn uploads_to_freeze(
        &mut self,
        slug: &HardwareSlug,
    ) -> StoreResult<Vec<(UploadId, SnapshotUpload)>> {
        let select = Statement::new(
            "SELECT id, digest, received_at, licence, licence_basis, terms FROM uploads WHERE \
             standing = 0 AND id IN ( \
             SELECT n.upload FROM solutions s JOIN sent n ON n.solution = s.id WHERE s.hardware = \
             $1) \
             ORDER BY received_at, id",
        );
        self.read_all(select.bind(slug.as_str())).await
    }

    /// Removes the snapshots that have a deleted upload.
    pub(crate) async fn remove_snapshots_with(&mut self, upload: &UploadId) -> StoreResult<Vec<BlobKey>> {
        let select = Statement::new("SELECT snapshot FROM snapshot_uploads WHERE upload = $1");
        let rows: Vec<(i64,)> = self.fetch_all(select.bind(upload.as_str())).await?;
        let mut files = Vec::new();
        for (position,) in rows {
            files.extend(self.take_snapshot_files(position, "an upload in it was deleted").await?);
        }
        Ok(files)
    }

    async fn take_snapshot_files(&mut self, position: i64, why: &str) -> StoreResult<Vec<BlobKey>> {
        let update = Statement::new("UPDATE snapshots SET removed = $1 WHERE position = $2");
        self.execute(update.bind(why).bind(position)).await?;
        let delete = Statement::new("DELETE FROM snapshot_uploads WHERE snapshot = $1");
        self.execute(delete.bind(position)).await?;
        let delete = Statement::new("DELETE FROM snapshot_files WHERE snapshot = $1 RETURNING sha256");
        let rows: Vec<(String,)> = self.fetch_all(delete.bind(position)).await?;
        let file = |(sha256,)| Ok((BlobKind::Snapshot, parse("file digest", sha256)?));
        Ok(rows.into_iter().map(file).collect::<Result<_, Damaged>>()?)
    }
}

/// The digest of everything in a snapshot, including the terms that were agreed to. An upload without terms adds
/// nothing. So old data has the same digest as before there were terms, and is not frozen a second time.
fn state_of(
    timings: &str,
    described: &Hardware,
    uploads: &[(UploadId, SnapshotUpload)],
) -> Result<Digest, Damaged> {
    let mut text = format!("{timings}\n{}", json("hardware", described)?);
    for (id, upload) in uploads {
        if let Some(version) = upload.licence.terms {
            text += &format!("\n{id} {version}");
        }
    }
    Ok(Digest::of(text.as_bytes()))
}
