//! Entries that do not count all solutions of their view yet.

use std::collections::BTreeSet;

use diode_core::ids::{HardwareSlug, UploadId};

use super::board_entries::{fetch_views, refresh};
use super::connection::Connection;
use super::hardware;
use super::statement::Statement;
use crate::store::error::StoreResult;
use crate::store::types::View;

/// Views that one transaction recomputes at most. Uploads for the same hardware wait that long.
const VIEWS_PER_ROUND: i64 = 32;

/// Timings after which a round ends: some tenths of a second.
const TIMINGS_PER_ROUND: u64 = 1 << 20;

pub(super) async fn add(db: &mut impl Connection, views: &[&View]) -> StoreResult<()> {
    for chunk in views.chunks(super::inserts::ROWS_PER_STATEMENT) {
        db.execute(super::inserts::stale_entries(chunk)).await?;
    }
    Ok(())
}

/// Marks every view of a hardware.
pub(super) async fn add_all(db: &mut impl Connection, slug: &HardwareSlug) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO stale_entries (hardware, problem, method) \
         SELECT DISTINCT hardware, problem, method FROM solutions WHERE hardware = $1 ON CONFLICT DO NOTHING",
    );
    db.execute(insert.bind(slug.as_str())).await?;
    Ok(())
}

/// Marks every view that an upload has solutions in.
pub(super) async fn add_upload(db: &mut impl Connection, upload: &UploadId) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO stale_entries (hardware, problem, method) \
         SELECT DISTINCT hardware, problem, method FROM solutions \
         WHERE id IN (SELECT solution FROM sent WHERE upload = $1) ON CONFLICT DO NOTHING",
    );
    db.execute(insert.bind(upload.as_str())).await?;
    Ok(())
}

/// Takes the mark off a view.
pub(super) async fn remove(db: &mut impl Connection, view: &View) -> StoreResult<()> {
    let delete =
        Statement::new("DELETE FROM stale_entries WHERE hardware = $1 AND problem = $2 AND method = $3")
            .bind(view.hardware.as_str())
            .bind(view.problem.as_str())
            .bind(view.method.to_string());
    db.execute(delete).await?;
    Ok(())
}

pub(super) async fn list(db: &mut impl Connection) -> StoreResult<Vec<View>> {
    fetch_views(db, Statement::new("SELECT hardware, problem, method FROM stale_entries")).await
}

/// Recomputes some entries; returns how many views were done, 0 if there was nothing to do.
///
/// The hardware is locked before its views are read, as an upload does it. So no upload for it can mark a
/// view between its reading and the commit.
pub(super) async fn refresh_some(db: &mut impl Connection) -> StoreResult<usize> {
    let select = Statement::new("SELECT hardware, problem, method FROM stale_entries LIMIT 1");
    let Some(View { hardware: slug, .. }) = fetch_views(db, select).await?.pop() else { return Ok(0) };
    let Some(known) = hardware::lock(db, &slug).await? else { return Ok(0) };
    let select = Statement::new(
        "SELECT hardware, problem, method FROM stale_entries WHERE hardware = $1 \
         ORDER BY problem, method LIMIT $2",
    );
    let views = fetch_views(db, select.bind(slug.as_str()).bind(VIEWS_PER_ROUND)).await?;
    let views: BTreeSet<View> = views.into_iter().collect();
    let left = refresh(db, &[known], &views, TIMINGS_PER_ROUND).await?;
    let mut done = 0;
    for view in views.iter().filter(|view| !left.contains(view)) {
        remove(db, view).await?;
        done += 1;
    }
    hardware::bump(db, &slug).await?;
    Ok(done)
}
