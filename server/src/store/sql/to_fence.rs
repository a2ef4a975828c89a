//! Marks uploads that must be judged.

use std::collections::BTreeSet;

use super::inserts::ROWS_PER_STATEMENT;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;

/// Marks uploads by their ids, in order. So two transactions that mark the same uploads cannot deadlock.
pub(super) async fn mark(db: &mut Connection, uploads: &BTreeSet<String>) -> StoreResult<()> {
    let uploads: Vec<&str> = uploads.iter().map(String::as_str).collect();
    for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
        let lock = Statement::new("SELECT id FROM uploads WHERE judged <> 0 AND id IN (")
            .push_list(chunk.iter().copied())
            .push(") ORDER BY id")
            .push(db.change_row());
        let locked: Vec<(String,)> = db.fetch_all(lock).await?;
        if !locked.is_empty() {
            let update = Statement::new("UPDATE uploads SET judged = 0 WHERE id IN (");
            db.execute(update.push_list(locked.into_iter().map(|(id,)| id)).push(")")).await?;
        }
    }
    Ok(())
}
