//! Whether uploads and their solutions count.

use std::collections::BTreeSet;

use diode_api::Standing;
use diode_core::ids::{HardwareSlug, UploadId};

use super::{agents, hardware, stale_entries, to_fence};
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::statement::Statement;

/// The number that stands for a standing in the database. The smallest number is the best standing.
pub(super) fn number(standing: Standing) -> i64 {
    match standing {
        Standing::Counts => 0,
        Standing::Fenced => 1,
        Standing::Quarantined => 2,
    }
}

pub(super) fn read(number: i64) -> Result<Standing, Damaged> {
    match number {
        0 => Ok(Standing::Counts),
        1 => Ok(Standing::Fenced),
        2 => Ok(Standing::Quarantined),
        other => Err(Damaged::new("standing", format_args!("{other}"))),
    }
}

/// Locks the hardware of some uploads, in the order in which uploads lock it.
pub(super) async fn lock_hardware(db: &mut Connection, uploads: &[UploadId]) -> StoreResult<()> {
    let slugs = hardware_of_all(db, uploads).await?;
    hardware::lock_all(db, &slugs).await
}

/// The hardware of some uploads.
pub(super) async fn hardware_of_all(
    db: &mut Connection,
    uploads: &[UploadId],
) -> StoreResult<BTreeSet<HardwareSlug>> {
    let mut slugs = BTreeSet::new();
    for upload in uploads {
        slugs.extend(hardware_of(db, upload).await?);
    }
    Ok(slugs)
}

async fn hardware_of(db: &mut Connection, upload: &UploadId) -> StoreResult<Vec<HardwareSlug>> {
    let select = Statement::new(
        "SELECT DISTINCT hardware FROM solutions WHERE id IN (SELECT solution FROM sent WHERE upload = $1)",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(upload.as_str())).await?;
    Ok(rows.into_iter().map(|(slug,)| parse("hardware slug", slug)).collect::<Result<_, _>>()?)
}

/// Changes the standing of an upload and of its solutions. The hardware must be locked. The views of these
/// solutions become stale. All uploads that sent them must be judged again, since the solutions may belong to
/// another account now.
pub(super) async fn set(db: &mut Connection, upload: &UploadId, standing: Standing) -> StoreResult<()> {
    let update = Statement::new("UPDATE uploads SET standing = $1 WHERE id = $2");
    db.execute(update.bind(number(standing)).bind(upload.as_str())).await?;
    restate(db, upload).await?;
    let select = Statement::new(
        "SELECT DISTINCT o.upload FROM sent s JOIN sent o ON o.solution = s.solution WHERE s.upload = $1",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(upload.as_str())).await?;
    to_fence::mark(db, &rows.into_iter().map(|(upload,)| upload).collect()).await?;
    if standing == Standing::Fenced {
        agents::reopen_for_others(db, upload).await?;
    }
    stale_entries::add_upload(db, upload).await?;
    note_change(db, upload, &standing.to_string()).await
}

/// Stores that an upload has changed which solutions count. `what` distinguishes this change from others.
pub(super) async fn note_change(db: &mut Connection, upload: &UploadId, what: &str) -> StoreResult<()> {
    for slug in hardware_of(db, upload).await? {
        hardware::changed(db, &slug, &format!("{upload} {what}")).await?;
    }
    Ok(())
}

/// If a new upload has quarantined solutions of the same account, quarantines it for the same reason, and
/// returns `true`. Solutions that count because of another upload are not quarantined.
pub(super) async fn inherit_quarantine(db: &mut Connection, upload: &UploadId) -> StoreResult<bool> {
    let select = Statement::new(
        "SELECT q.reason FROM uploads u JOIN sent s ON s.upload = u.id \
         JOIN solutions x ON x.id = s.solution JOIN sent o ON o.solution = s.solution \
         JOIN uploads q ON q.id = o.upload WHERE u.id = $1 AND x.standing > 0 AND q.standing = 2 \
         AND (COALESCE(q.account, '') = COALESCE(u.account, '') \
              OR u.account IN (SELECT account FROM senders WHERE upload = q.id)) \
         ORDER BY q.received_at, q.id LIMIT 1",
    );
    let found: Option<(Option<String>,)> = db.fetch_optional(select.bind(upload.as_str())).await?;
    let Some((reason,)) = found else { return Ok(false) };
    let update = Statement::new("UPDATE uploads SET standing = $1, reason = $2 WHERE id = $3");
    let update = update.bind(number(Standing::Quarantined)).bind(reason).bind(upload.as_str());
    db.execute(update).await?;
    restate(db, upload).await?;
    Ok(true)
}

/// The right standing of a solution: the best standing of the uploads that sent it.
pub(super) const BEST: &str = "(SELECT MIN(u.standing) FROM sent s JOIN uploads u ON u.id = s.upload \
     WHERE s.solution = solutions.id)";

/// The right owner of a solution: the account of the first upload among the uploads with the best standing.
pub(super) const FIRST: &str = "(SELECT u.account FROM sent s JOIN uploads u ON u.id = s.upload \
     WHERE s.solution = solutions.id ORDER BY u.standing, u.received_at, u.id LIMIT 1)";

/// Computes anew which account owns each solution of an upload, and whether it counts. The upload with the best
/// standing decides. Among uploads of equal standing, the first one decides, because a copy is no second
/// measurement.
pub(super) async fn restate(db: &mut Connection, upload: &UploadId) -> StoreResult<()> {
    let update = Statement::new("UPDATE solutions SET standing = ")
        .push(BEST)
        .push(", contributor = ")
        .push(FIRST)
        .push(" WHERE id IN (SELECT solution FROM sent WHERE upload = $1)");
    db.execute(update.bind(upload.as_str())).await?;
    Ok(())
}
