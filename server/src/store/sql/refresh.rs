//! Recomputes stale entries.

use std::collections::BTreeSet;

use diode_core::ids::{HardwareSlug, ProblemId};

use super::board_entries::{fetch_views, refresh};
use super::{fencing, hardware, stale_entries};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::View;

/// How many views one transaction recomputes at most. Uploads for the same hardware wait until it commits.
const VIEWS_PER_ROUND: u64 = 32;

/// A round ends after this many timings. To compute with them takes some tenths of a second.
const TIMINGS_PER_ROUND: u64 = 1 << 20;

/// The views whose entries are marked.
pub(super) async fn marked(db: &mut Connection) -> StoreResult<Vec<View>> {
    fetch_views(db, Statement::new("SELECT hardware, problem, method FROM stale_entries")).await
}

/// Recomputes some entries or, if none is stale, judges some uploads. Returns how many; 0 if there was nothing
/// to do.
pub(super) async fn refresh_or_judge(db: &mut Connection) -> StoreResult<usize> {
    match refresh_some(db).await? {
        0 => fencing::judge_some(db).await,
        done => Ok(done),
    }
}

/// Recomputes some entries. Returns how many views; 0 if there was nothing to do.
///
/// The hardware is locked before its views are read, and every upload keeps the hardware. So no upload can mark
/// a view between the reading and the commit.
async fn refresh_some(db: &mut Connection) -> StoreResult<usize> {
    let select = Statement::new("SELECT hardware, problem, method FROM stale_entries LIMIT 1");
    let Some(View { hardware: slug, .. }) = fetch_views(db, select).await?.pop() else { return Ok(0) };
    let Some(known) = hardware::lock(db, &slug).await? else { return Ok(0) };
    let views = some_of(db, &slug).await?;
    let left = refresh(db, &[known], &views, TIMINGS_PER_ROUND).await?;
    let mut done = 0;
    for view in views.iter().filter(|view| !left.contains(view)) {
        stale_entries::remove(db, view).await?;
        done += 1;
    }
    hardware::bump(db, &slug).await?;
    Ok(done)
}

/// Some stale views, starting at a different place each time. So all views get their turn, even if uploads mark
/// some of them again and again.
async fn some_of(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<BTreeSet<View>> {
    // The place changes with each round, because each round raises the revision.
    let revision = hardware::revision(db, slug).await?.unwrap_or_default();
    let start = ProblemId::of(&revision.to_le_bytes());
    let mut views = BTreeSet::new();
    for part in ["problem >= ", "problem < "] {
        let select = Statement::new("SELECT hardware, problem, method FROM stale_entries WHERE hardware = ")
            .push_bind(slug.as_str())
            .push(" AND ")
            .push(part)
            .push_bind(start.as_str())
            .push(" ORDER BY problem, method LIMIT ")
            .push_bind(VIEWS_PER_ROUND.saturating_sub(views.len() as u64));
        views.extend(fetch_views(db, select).await?);
    }
    Ok(views)
}
