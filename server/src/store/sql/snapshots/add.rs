//! Queues the job that makes a snapshot, and adds a snapshot whose files are stored.

use diode_api::{Job, NewSnapshot};
use diode_core::ids::AccountId;

use crate::store::connection::{Connection, Exclusive};
use crate::store::error::StoreResult;
use crate::store::fields::{json, unsigned};
use crate::store::snapshots::{Added, Frozen, SnapshotLimits};
use crate::store::sql::inserts::ROWS_PER_STATEMENT;
use crate::store::sql::log::write_down;
use crate::store::sql::{hardware, jobs};
use crate::store::statement::Statement;
use crate::store::types::{Now, Queued};

use super::read::stored;

/// Queues a job that an administrator asks for, and writes it to the log.
pub(super) async fn queue(
    db: &mut Connection,
    job: &Job,
    request: &NewSnapshot,
    account: Option<&AccountId>,
    who: &str,
    now: Now,
) -> StoreResult<Queued> {
    let queued = jobs::enqueue(db, job, account, now).await?;
    if queued == Queued::Yes {
        let what = format!("snapshot of {}", request.hardware);
        write_down(db, &what, &request.reason, who, now).await?;
    }
    Ok(queued)
}

pub(super) async fn add(db: &mut Connection, frozen: &Frozen, limits: &SnapshotLimits) -> StoreResult<Added> {
    // Without a turn, two transactions could together exceed the limit.
    db.turn(Exclusive::Snapshots).await?;
    let name = &frozen.summary.name;
    let count = Statement::new("SELECT COUNT(*) FROM snapshots WHERE hardware = $1 AND removed IS NULL");
    let (number,): (i64,) = db.fetch_one(count.bind(name.hardware.as_str())).await?;
    if unsigned("snapshot count", number)? >= limits.number {
        return Ok(Added::TooMany);
    }
    if stored(db).await?.saturating_add(frozen.summary.bytes) > limits.bytes {
        return Ok(Added::Full);
    }
    // The lock keeps uploads of the hardware from being deleted or quarantined. New uploads wait, too, from
    // here on.
    hardware::lock(db, &name.hardware).await?;
    let is_as_it_was = hardware::losses(db, &name.hardware).await? == frozen.losses;
    if !is_as_it_was && !all_count(db, frozen).await? {
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
    let Some((position,)) = db.fetch_optional::<(i64,)>(insert).await? else { return Ok(Added::Outdated) };
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
        let insert = Statement::new("INSERT INTO snapshot_uploads (snapshot, upload)").push_rows(rows);
        db.execute(insert).await?;
    }
    Ok(Added::Yes)
}

/// Whether every upload of the snapshot exists and counts.
async fn all_count(db: &mut Connection, frozen: &Frozen) -> StoreResult<bool> {
    for uploads in frozen.uploads.chunks(ROWS_PER_STATEMENT) {
        let count = Statement::new("SELECT COUNT(*) FROM uploads WHERE standing = 0 AND id IN (")
            .push_list(uploads.iter().map(|upload| upload.as_str()))
            .push(")");
        let (there,): (i64,) = db.fetch_one(count).await?;
        if there != uploads.len() as i64 {
            return Ok(false);
        }
    }
    Ok(true)
}
