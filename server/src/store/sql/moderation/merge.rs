//! Merges two kinds of hardware that turned out to be one.

use std::collections::BTreeSet;

use diode_api::HardwareMerge;
use diode_core::hardware::find as listed;
use diode_core::ids::HardwareSlug;

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::unsigned;
use crate::store::moderation::NotMerged;
use crate::store::sql::log::write_down;
use crate::store::sql::{agents, hardware};
use crate::store::statement::Statement;
use crate::store::types::Now;

/// Moves the rows that refer to the first hardware to the other hardware.
const MOVED: [&str; 5] = [
    // Entries are computed anew for every problem that the first hardware has.
    "INSERT INTO stale_entries (hardware, problem, method) \
     SELECT DISTINCT $1, problem, method FROM solutions WHERE hardware = $2 ON CONFLICT DO NOTHING",
    "UPDATE solutions SET hardware = $1 WHERE hardware = $2",
    // Work is not moved if the other hardware has work for the same problem, so that nothing is measured twice.
    "UPDATE work SET hardware = $1 WHERE hardware = $2 AND NOT EXISTS (SELECT 1 FROM work o WHERE o.hardware = $1 \
     AND o.problem = work.problem AND (o.purpose = 'confirm') = (work.purpose = 'confirm') \
     AND COALESCE(o.driver, '') = COALESCE(work.driver, ''))",
    "INSERT INTO drivers (hardware, driver) SELECT $1, driver FROM drivers WHERE hardware = $2 ON CONFLICT DO NOTHING",
    "UPDATE hardware SET merged_into = $1 WHERE slug = $2 OR merged_into = $2",
];

/// Removes the first hardware's rows that were not moved.
const REMOVED: [&str; 7] = [
    "DELETE FROM work WHERE hardware = $1",
    "DELETE FROM drivers WHERE hardware = $1",
    "DELETE FROM entries WHERE hardware = $1",
    "DELETE FROM stale_entries WHERE hardware = $1",
    "DELETE FROM training_marks WHERE hardware = $1",
    // No page predicts with the models of this hardware any more.
    "DELETE FROM unseen_models WHERE model IN (SELECT id FROM models WHERE hardware = $1)",
    "UPDATE models SET state = 'earlier', pinned = 0 WHERE hardware = $1 AND state = 'published'",
];

pub(super) async fn merge(
    db: &mut Connection,
    merge: &HardwareMerge,
    who: &str,
    now: Now,
) -> StoreResult<Result<u64, NotMerged>> {
    let HardwareMerge { from, into, reason } = merge;
    if from == into {
        return Ok(Err(NotMerged::Same));
    }
    hardware::lock_all(db, &BTreeSet::from([from.clone(), into.clone()])).await?;
    for slug in [from, into] {
        if hardware::find(db, slug).await?.is_none_or(|found| found.slug != *slug) {
            return Ok(Err(NotMerged::Unknown(slug.clone())));
        }
    }
    let [Some(gone), Some(stays)] = [hardware::find(db, from).await?, hardware::find(db, into).await?] else {
        return Ok(Err(NotMerged::Unknown(from.clone())));
    };
    if gone.is_simulated() != stays.is_simulated() {
        return Ok(Err(NotMerged::Simulated));
    }
    if listed(from.as_str()).is_some_and(|listed| listed.slug == *from) {
        return Ok(Err(NotMerged::Listed));
    }
    let jobs = open_jobs(db, from).await?;
    if jobs > 0 {
        return Ok(Err(NotMerged::Busy(jobs)));
    }
    let count = Statement::new("SELECT COUNT(*) FROM solutions WHERE hardware = $1");
    let (solutions,): (i64,) = db.fetch_one(count.bind(from.as_str())).await?;
    for sql in MOVED {
        db.execute(Statement::new(sql).bind(into.as_str()).bind(from.as_str())).await?;
    }
    rename_library(db, from, into).await?;
    for sql in REMOVED {
        db.execute(Statement::new(sql).bind(from.as_str())).await?;
    }
    agents::move_to(db, from, &stays).await?;
    let what = format!("merge hardware {from} into {into}");
    for slug in [from, into] {
        hardware::changed(db, slug, &what).await?;
    }
    write_down(db, &what, reason, who, now).await?;
    Ok(Ok(unsigned("solution count", solutions)?))
}

/// How many jobs about a hardware have not ended.
async fn open_jobs(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<u64> {
    // The request is JSON. JSON and LIKE write all characters of a slug unchanged.
    let count =
        Statement::new("SELECT COUNT(*) FROM jobs WHERE state IN ('queued', 'running') AND request LIKE $1")
            .bind(format!("%\"hardware\":\"{slug}\"%"));
    let (jobs,): (i64,) = db.fetch_one(count).await?;
    Ok(unsigned("job count", jobs)?)
}

/// The name of an upload's library begins with the hardware, so it changes with the merge.
async fn rename_library(db: &mut Connection, from: &HardwareSlug, into: &HardwareSlug) -> StoreResult<()> {
    let name = |slug: &HardwareSlug| format!("{slug}@");
    let update = Statement::new(
        "UPDATE uploads SET library = $1 || SUBSTR(library, CAST($2 AS INTEGER)) WHERE library LIKE $3",
    )
    .bind(name(into))
    .bind(i64::try_from(name(from).len() + 1).map_err(|error| Damaged::new("slug", error))?)
    .bind(format!("{}%", name(from)));
    db.execute(update).await?;
    Ok(())
}
