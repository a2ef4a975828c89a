//! Fences uploads whose times lie too far from the times of other contributors.

use std::collections::BTreeMap;

use diode_api::Standing;
use diode_core::ids::UploadId;
use diode_core::stats::median;

use super::{copies, standing};
use crate::consensus::is_off;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::parse;
use crate::store::statement::Statement;

/// How many uploads one transaction judges at most. Uploads for the same hardware wait until it commits.
const UPLOADS_PER_ROUND: i64 = 16;

/// Judges some of the uploads that wait to be judged. Returns how many; 0 if there were none.
pub(super) async fn judge_some(db: &mut Connection) -> StoreResult<usize> {
    let select = Statement::new("SELECT id FROM uploads WHERE judged = 0 ORDER BY id LIMIT $1");
    let rows: Vec<(String,)> = db.fetch_all(select.bind(UPLOADS_PER_ROUND)).await?;
    let uploads: Vec<UploadId> =
        rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, Damaged>>()?;
    // Deviations change only while the hardware is locked.
    standing::lock_hardware(db, &uploads).await?;
    for upload in &uploads {
        judge(db, upload).await?;
    }
    Ok(uploads.len())
}

/// Judges an upload that waits to be judged. Its hardware must be locked. `true` if its standing has changed;
/// the views of its solutions are then stale.
pub(super) async fn judge(db: &mut Connection, upload: &UploadId) -> StoreResult<bool> {
    let select = Statement::new("SELECT standing FROM uploads WHERE id = $1 AND judged = 0");
    let row: Option<(i64,)> = db.fetch_optional(select.bind(upload.as_str())).await?;
    let Some((before,)) = row else { return Ok(false) };
    let before = standing::read(before)?;
    let mut ratios = own_deviations(db, upload).await?;
    let (log_ratio, after) = verdict(before, &mut ratios);
    if after != before {
        standing::set(db, upload, after).await?;
    }
    let update = Statement::new("UPDATE uploads SET log_ratio = $1, compared = $2, judged = 1 WHERE id = $3")
        .bind(log_ratio)
        .bind(ratios.len() as u64)
        .bind(upload.as_str());
    db.execute(update).await?;
    Ok(after != before)
}

/// The result of judging an upload by its deviations: their median, and the standing that follows.
pub(super) fn verdict(before: Standing, ratios: &mut [f64]) -> (Option<f64>, Standing) {
    let log_ratio = median(ratios);
    let after = match before {
        Standing::Quarantined => Standing::Quarantined,
        Standing::Counts | Standing::Fenced if log_ratio.is_some_and(is_off) => Standing::Fenced,
        Standing::Counts | Standing::Fenced => Standing::Counts,
    };
    (log_ratio, after)
}

/// The deviations of the solutions that would belong to the account if the upload counted. Copies of another
/// account's solutions are left out, so that they cannot hide wrong times. Which solutions count as copies
/// depends only on earlier uploads, so judging comes to an end.
pub(super) async fn own_deviations(db: &mut Connection, upload: &UploadId) -> StoreResult<Vec<f64>> {
    // Each solution is looked up by itself. In a join, Postgres may read all deviations.
    let select = Statement::new(
        "SELECT solution, (SELECT log_ratio FROM deviations d WHERE d.solution = sent.solution) FROM sent \
         WHERE upload = $1",
    );
    let rows: Vec<(i64, Option<f64>)> = db.fetch_all(select.bind(upload.as_str())).await?;
    let mut ratios: BTreeMap<i64, f64> =
        rows.into_iter().filter_map(|(solution, ratio)| Some((solution, ratio?))).collect();
    let solutions: Vec<i64> = ratios.keys().copied().collect();
    for copy in copies::of_others(db, upload, &solutions).await? {
        ratios.remove(&copy);
    }
    Ok(ratios.into_values().collect())
}
