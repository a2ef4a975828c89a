//! Reads the snapshots, and what the next snapshot would have.

use std::collections::BTreeMap;

use diode_api::{SnapshotFile, SnapshotName, SnapshotState, SnapshotSummary, SnapshotUpload};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, HardwareSlug, ModelId, UploadId};

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::remembered::Remembered;
use crate::store::snapshots::{Freezable, StoredSnapshot};
use crate::store::sql::inserts::ROWS_PER_STATEMENT;
use crate::store::sql::licences::LicenceRow;
use crate::store::sql::solutions::{self, Selection};
use crate::store::sql::{hardware, sizes};
use crate::store::statement::Statement;

/// The summary of a snapshot. The losses show whether a remembered count is still valid: their number grows when an
/// upload of the hardware starts or stops counting.
const SELECT: &str = "SELECT s.position, s.summary, s.removed, h.losses FROM snapshots s \
     JOIN hardware h ON h.slug = s.hardware";

struct SnapshotRow {
    position: i64,
    summary: String,
    removed: Option<String>,
    losses: i64,
}

from_row!(SnapshotRow { position, summary, removed, losses });

impl SnapshotRow {
    fn summary(self, withdrawn: &Withdrawn) -> Result<SnapshotSummary, Damaged> {
        let state = if self.removed.is_some() { SnapshotState::Removed } else { SnapshotState::Whole };
        Ok(SnapshotSummary {
            state,
            reason: self.removed.unwrap_or_default(),
            withdrawn_uploads: withdrawn.get(&self.position).copied().unwrap_or_default(),
            ..from_json("snapshot", &self.summary)?
        })
    }
}

/// For each snapshot, how many of its uploads no longer count.
type Withdrawn = BTreeMap<i64, u64>;

/// Counts only for snapshots whose count is not remembered. Removed snapshots are left out: they have no uploads any
/// more, and a removal by another server does not clear this server's memory.
async fn withdrawn(
    db: &mut Connection,
    memory: &Remembered<i64, u64>,
    rows: &[SnapshotRow],
) -> StoreResult<Withdrawn> {
    let (mut known, mut unknown) = (Withdrawn::new(), Vec::new());
    for row in rows.iter().filter(|row| row.removed.is_none()) {
        match memory.get(&row.position, row.losses) {
            Some(number) => {
                known.insert(row.position, number);
            }
            None => unknown.push(row),
        }
    }
    for chunk in unknown.chunks(ROWS_PER_STATEMENT) {
        let select = Statement::new(
            "SELECT n.snapshot, COUNT(*) FROM snapshot_uploads n LEFT JOIN uploads u ON u.id = n.upload \
             WHERE (u.id IS NULL OR u.standing > 0) AND n.snapshot IN (",
        );
        let select = select.push_list(chunk.iter().map(|row| row.position)).push(") GROUP BY n.snapshot");
        let counted: Vec<(i64, i64)> = db.fetch_all(select).await?;
        for (position, number) in counted {
            known.insert(position, unsigned("upload count", number)?);
        }
        for row in chunk {
            memory.put(row.position, row.losses, *known.entry(row.position).or_default());
        }
    }
    Ok(known)
}

struct FileRow {
    name: String,
    format: String,
    bytes: i64,
    sha256: String,
}

from_row!(FileRow { name, format, bytes, sha256 });

impl FileRow {
    fn file(self) -> Result<SnapshotFile, Damaged> {
        Ok(SnapshotFile {
            name: self.name,
            format: self.format,
            bytes: unsigned("file size", self.bytes)?,
            sha256: parse("file digest", self.sha256)?,
        })
    }
}

struct UploadRow {
    id: String,
    digest: String,
    received_at: String,
    licence: LicenceRow,
}

from_row!(UploadRow { id, digest, received_at, ..licence });

pub(super) async fn list(
    db: &mut Connection,
    memory: &Remembered<i64, u64>,
    hardware: Option<&HardwareSlug>,
    limit: u32,
) -> StoreResult<Vec<SnapshotSummary>> {
    let mut select = Statement::new(SELECT);
    if let Some(slug) = hardware {
        select = select.push(" WHERE s.hardware = ").push_bind(slug.as_str());
    }
    let select = select.push(" ORDER BY s.position DESC LIMIT ").push_bind(i64::from(limit));
    let rows: Vec<SnapshotRow> = db.fetch_all(select).await?;
    let withdrawn = withdrawn(db, memory, &rows).await?;
    Ok(rows.into_iter().map(|row| row.summary(&withdrawn)).collect::<Result<_, _>>()?)
}

pub(super) async fn find(
    db: &mut Connection,
    memory: &Remembered<i64, u64>,
    name: &SnapshotName,
) -> StoreResult<Option<StoredSnapshot>> {
    let select = Statement::new(SELECT)
        .push(" WHERE s.hardware = ")
        .push_bind(name.hardware.as_str())
        .push(" AND s.version = ")
        .push_bind(i64::from(name.version));
    let Some(row) = db.fetch_optional::<SnapshotRow>(select).await? else { return Ok(None) };
    let select = Statement::new(
        "SELECT name, format, bytes, sha256 FROM snapshot_files WHERE snapshot = $1 ORDER BY place",
    );
    let files: Vec<FileRow> = db.fetch_all(select.bind(row.position)).await?;
    let files = files.into_iter().map(FileRow::file).collect::<Result<_, _>>()?;
    let rows = [row];
    let withdrawn = withdrawn(db, memory, &rows).await?;
    let [row] = rows;
    Ok(Some(StoredSnapshot { summary: row.summary(&withdrawn)?, files }))
}

/// A model has the data of a snapshot if both have the same hardware and the same uploads.
pub(super) async fn models(db: &mut Connection, name: &SnapshotName) -> StoreResult<Vec<ModelId>> {
    let select = Statement::new(
        "SELECT m.id FROM snapshots s JOIN models m ON m.hardware = s.hardware WHERE s.hardware = $1 \
         AND s.version = $2 AND s.removed IS NULL AND NOT EXISTS ( \
             SELECT 1 FROM snapshot_uploads n WHERE n.snapshot = s.position AND NOT EXISTS ( \
                 SELECT 1 FROM model_uploads o WHERE o.model = m.id AND o.upload = n.upload)) \
         AND NOT EXISTS ( \
             SELECT 1 FROM model_uploads o WHERE o.model = m.id AND NOT EXISTS ( \
                 SELECT 1 FROM snapshot_uploads n WHERE n.snapshot = s.position AND n.upload = o.upload)) \
         ORDER BY m.position",
    );
    let select = select.bind(name.hardware.as_str()).bind(i64::from(name.version));
    let rows: Vec<(String,)> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(|(id,)| parse("model id", id)).collect::<Result<_, _>>()?)
}

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn freezable(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Option<Freezable>> {
    let Some(described) = hardware::find(db, slug).await? else { return Ok(None) };
    let timings = hardware::state(db, slug).await?.unwrap_or_default();
    let losses = hardware::losses(db, slug).await?;
    let uploads = uploads(db, slug).await?;
    let state = state_of(&timings, &described, &uploads)?;
    let solutions = solutions::load(db, Selection::Hardware(slug)).await?;
    let sizes = sizes::solutions(db, slug).await?;
    let select = Statement::new(
        "SELECT version, state, removed FROM snapshots WHERE hardware = $1 ORDER BY version DESC LIMIT 1",
    );
    let newest: Option<(i64, String, Option<String>)> = db.fetch_optional(select.bind(slug.as_str())).await?;
    let (mut same, mut next) = (None, 1);
    if let Some((version, of, removed)) = newest {
        let version = u32::try_from(version)
            .map_err(|_| Damaged::new("snapshot version", format_args!("{version}")))?;
        let is_same = of == state.as_str() && removed.is_none();
        same = is_same.then(|| SnapshotName { hardware: slug.clone(), version });
        next = version + 1;
    }
    let stored = stored(db).await?;
    Ok(Some(Freezable { hardware: described, state, losses, solutions, sizes, uploads, same, next, stored }))
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

/// How many bytes all files of all snapshots have. A file that two snapshots share counts twice.
pub(super) async fn stored(db: &mut Connection) -> StoreResult<u64> {
    let select = "SELECT CAST(COALESCE(SUM(bytes), 0) AS BIGINT) FROM snapshots WHERE removed IS NULL";
    let (bytes,): (i64,) = db.fetch_one(Statement::new(select)).await?;
    Ok(unsigned("snapshot size", bytes)?)
}

/// The uploads that count and have solutions of a hardware, in the order in which they arrived.
async fn uploads(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Vec<(UploadId, SnapshotUpload)>> {
    let select = Statement::new(
        "SELECT id, digest, received_at, licence, licence_basis, terms FROM uploads WHERE standing = 0 AND id IN ( \
             SELECT n.upload FROM solutions s JOIN sent n ON n.solution = s.id WHERE s.hardware = $1) \
         ORDER BY received_at, id",
    );
    let rows: Vec<UploadRow> = db.fetch_all(select.bind(slug.as_str())).await?;
    let upload = |row: UploadRow| {
        let digest = parse("upload digest", row.digest)?;
        let upload = SnapshotUpload { digest, received_at: row.received_at, licence: row.licence.licence()? };
        Ok((parse("upload id", row.id)?, upload))
    };
    Ok(rows.into_iter().map(upload).collect::<Result<_, Damaged>>()?)
}
