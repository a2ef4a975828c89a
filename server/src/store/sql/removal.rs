//! Removes uploads, with the solutions that nobody else has sent.

use std::collections::BTreeSet;

use diode_api::Standing;
use diode_core::hardware::Hardware;
use diode_core::ids::UploadId;

use super::board_entries::{self, fetch_views};
use super::{agents, hardware, snapshots, stale_entries, standing};
use crate::blobs::{BlobKey, BlobKind};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::statement::Statement;
use crate::store::types::View;

/// A removal computes entries at once until it has read this many timings. The other entries follow later, as
/// after a large upload.
const REFRESHED_TIMINGS: u64 = 1 << 20;

/// The views of an upload's solutions.
pub(super) async fn views(db: &mut Connection, upload: &UploadId) -> StoreResult<Vec<View>> {
    let select = Statement::new(
        "SELECT DISTINCT hardware, problem, method FROM solutions \
         WHERE id IN (SELECT solution FROM sent WHERE upload = $1)",
    );
    fetch_views(db, select.bind(upload.as_str())).await
}

/// Deletes an upload. Its hardware must be locked. Solutions that others sent, too, become theirs. Returns
/// the file of the upload, and the files of the snapshots that have it.
pub(super) async fn delete(db: &mut Connection, upload: &UploadId) -> StoreResult<Vec<BlobKey>> {
    // The upload is quarantined first. So solutions that stay count only because of the other uploads.
    standing::set(db, upload, Standing::Quarantined).await?;
    agents::reopen_of_upload(db, upload).await?;
    let delete = Statement::new(
        "DELETE FROM solutions WHERE id IN (SELECT solution FROM sent WHERE upload = $1) \
         AND NOT EXISTS (SELECT 1 FROM sent o WHERE o.solution = solutions.id AND o.upload <> $1)",
    );
    db.execute(delete.bind(upload.as_str())).await?;
    let delete = Statement::new("DELETE FROM uploads WHERE id = $1 RETURNING digest").bind(upload.as_str());
    let file: Option<(String,)> = db.fetch_optional(delete).await?;
    let mut files = snapshots::remove_with(db, upload).await?;
    if let Some((digest,)) = file {
        files.push((BlobKind::Upload, parse("upload digest", digest)?));
    }
    Ok(files)
}

/// Computes the entries of some views anew. Their hardware must be locked. Some are computed at once, up to a
/// limit, and the others later. Until then the others have no entry, because the old entry includes removed
/// solutions.
pub(super) async fn make_anew(db: &mut Connection, views: &BTreeSet<View>) -> StoreResult<()> {
    for view in views {
        board_entries::remove(db, view).await?;
    }
    let slugs: BTreeSet<_> = views.iter().map(|view| &view.hardware).collect();
    let mut known: Vec<Hardware> = Vec::with_capacity(slugs.len());
    for slug in slugs {
        known.extend(hardware::lock(db, slug).await?);
        hardware::bump(db, slug).await?;
    }
    let left = board_entries::refresh(db, &known, views, REFRESHED_TIMINGS).await?;
    for view in views.iter().filter(|view| !left.contains(view)) {
        stale_entries::remove(db, view).await?;
    }
    stale_entries::add(db, &left.into_iter().collect::<Vec<_>>()).await
}
