//! Checks that standings and owners still follow from the uploads.

use diode_api::Standing;
use diode_core::ids::UploadId;

use super::{fencing, standing, uploads};
use crate::store::connection::Connection;
use crate::store::error::{StoreError, StoreResult};
use crate::store::fields::{parse, unsigned};
use crate::store::statement::Statement;
use crate::store::upkeep::CheckedUploads;

pub(super) async fn uploads(db: &mut Connection) -> StoreResult<CheckedUploads> {
    let mut checked = CheckedUploads::default();
    let ids: Vec<(String,)> = db.fetch_all(Statement::new("SELECT id FROM uploads ORDER BY id")).await?;
    for (id,) in ids {
        checked.uploads += 1;
        match upload(db, &id).await {
            Ok(Checked::Right) => {}
            Ok(Checked::Waits) => checked.to_judge += 1,
            Ok(Checked::Wrong(words)) => checked.misjudged.push(format!("upload {id}: {words}")),
            Err(StoreError::Damaged(damaged)) => checked.damaged.push(format!("upload {id}: {damaged}")),
            Err(error) => return Err(error),
        }
    }
    checked.misjudged.extend(misstated(db).await?);
    Ok(checked)
}

enum Checked {
    Right,
    Waits,
    Wrong(String),
}

async fn upload(db: &mut Connection, id: &str) -> StoreResult<Checked> {
    let id: UploadId = parse("upload id", id.to_owned())?;
    // Fails if a part of the row cannot be read.
    uploads::receipt(db, &id).await?;
    let select = Statement::new("SELECT judged, standing, log_ratio, compared FROM uploads WHERE id = $1");
    let row: (i64, i64, Option<f64>, i64) = db.fetch_one(select.bind(id.as_str())).await?;
    let (judged, stored, log_ratio, compared) = row;
    if judged == 0 {
        return Ok(Checked::Waits);
    }
    let stored = (standing::read(stored)?, log_ratio, unsigned("problem count", compared)?);
    let mut ratios = fencing::own_deviations(db, &id).await?;
    let (log_ratio, standing) = fencing::verdict(stored.0, &mut ratios);
    let computed: (Standing, Option<f64>, u64) = (standing, log_ratio, ratios.len() as u64);
    if stored == computed {
        return Ok(Checked::Right);
    }
    Ok(Checked::Wrong(format!("stored {stored:?}, computed {computed:?} (standing, log-ratio, problems)")))
}

/// Solutions whose standing or owner does not follow from their uploads.
async fn misstated(db: &mut Connection) -> StoreResult<Vec<String>> {
    let select = Statement::new("SELECT id FROM solutions WHERE ")
        .push("standing IS DISTINCT FROM ")
        .push(standing::BEST)
        .push(" OR contributor IS DISTINCT FROM ")
        .push(standing::FIRST)
        .push(" ORDER BY id");
    let rows: Vec<(i64,)> = db.fetch_all(select).await?;
    let words = |(number,): (i64,)| format!("solution {number}: counts otherwise than its uploads say");
    Ok(rows.into_iter().map(words).collect())
}
