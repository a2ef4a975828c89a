//! Marks of stale entries.

use diode_core::ids::{HardwareSlug, UploadId};

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::View;

pub(super) async fn add(db: &mut Connection, views: &[&View]) -> StoreResult<()> {
    for chunk in views.chunks(super::inserts::ROWS_PER_STATEMENT) {
        db.execute(super::inserts::stale_entries(chunk)).await?;
    }
    Ok(())
}

/// Marks every view of a hardware.
pub(super) async fn add_all(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO stale_entries (hardware, problem, method) \
         SELECT DISTINCT hardware, problem, method FROM solutions WHERE hardware = $1 ON CONFLICT DO NOTHING",
    );
    db.execute(insert.bind(slug.as_str())).await?;
    Ok(())
}

/// Marks every view of an upload's solutions.
pub(super) async fn add_upload(db: &mut Connection, upload: &UploadId) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO stale_entries (hardware, problem, method) \
         SELECT DISTINCT hardware, problem, method FROM solutions \
         WHERE id IN (SELECT solution FROM sent WHERE upload = $1) ON CONFLICT DO NOTHING",
    );
    db.execute(insert.bind(upload.as_str())).await?;
    Ok(())
}

/// Removes the mark of a view.
pub(super) async fn remove(db: &mut Connection, view: &View) -> StoreResult<()> {
    let delete =
        Statement::new("DELETE FROM stale_entries WHERE hardware = $1 AND problem = $2 AND method = $3")
            .bind(view.hardware.as_str())
            .bind(view.problem.as_str())
            .bind(view.method.to_string());
    db.execute(delete).await?;
    Ok(())
}
