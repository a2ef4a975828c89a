//! Removes the files of snapshots. The rows stay, so that people who follow a citation learn the reason.

use diode_api::{Reason, SnapshotName};
use diode_core::ids::UploadId;

use crate::blobs::{BlobKey, BlobKind};
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::sql::log::write_down;
use crate::store::statement::Statement;
use crate::store::types::Now;

/// Removes the snapshot that an administrator names, and writes it to the log. `None` if there is no such snapshot,
/// or its files were removed before.
pub(super) async fn remove(
    db: &mut Connection,
    name: &SnapshotName,
    why: &Reason,
    who: &str,
    now: Now,
) -> StoreResult<Option<Vec<BlobKey>>> {
    let select = Statement::new(
        "SELECT position FROM snapshots WHERE hardware = $1 AND version = $2 AND removed IS NULL",
    );
    let select = select.bind(name.hardware.as_str()).bind(i64::from(name.version));
    let found: Option<(i64,)> = db.fetch_optional(select.push(db.lock_row())).await?;
    let Some((position,)) = found else { return Ok(None) };
    let files = take_files(db, position, why.as_str()).await?;
    write_down(db, &format!("remove snapshot {name}"), why, who, now).await?;
    Ok(Some(files))
}

/// Removes the snapshots that have a deleted upload.
pub(in crate::store::sql) async fn remove_with(
    db: &mut Connection,
    upload: &UploadId,
) -> StoreResult<Vec<BlobKey>> {
    let select = Statement::new("SELECT snapshot FROM snapshot_uploads WHERE upload = $1");
    let rows: Vec<(i64,)> = db.fetch_all(select.bind(upload.as_str())).await?;
    let mut files = Vec::new();
    for (position,) in rows {
        files.extend(take_files(db, position, "an upload in it was deleted").await?);
    }
    Ok(files)
}

async fn take_files(db: &mut Connection, position: i64, why: &str) -> StoreResult<Vec<BlobKey>> {
    let update = Statement::new("UPDATE snapshots SET removed = $1 WHERE position = $2");
    db.execute(update.bind(why).bind(position)).await?;
    let delete = Statement::new("DELETE FROM snapshot_uploads WHERE snapshot = $1");
    db.execute(delete.bind(position)).await?;
    let delete = Statement::new("DELETE FROM snapshot_files WHERE snapshot = $1 RETURNING sha256");
    let rows: Vec<(String,)> = db.fetch_all(delete.bind(position)).await?;
    let file = |(sha256,)| Ok((BlobKind::Snapshot, parse("file digest", sha256)?));
    Ok(rows.into_iter().map(file).collect::<Result<_, Damaged>>()?)
}
