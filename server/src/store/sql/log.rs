//! The log that administrators read: who did what, and why.

use diode_api::{LogEntry, Reason};

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::Now;

pub(super) async fn write_down(
    db: &mut Connection,
    what: &str,
    why: &Reason,
    who: &str,
    now: Now,
) -> StoreResult<()> {
    note(db, what, why.as_str(), who, now).await
}

/// Writes an entry whose reason the server itself gives.
pub(super) async fn note(db: &mut Connection, what: &str, why: &str, who: &str, now: Now) -> StoreResult<()> {
    let insert = Statement::new("INSERT INTO moderation (at, who, what, why) VALUES ($1, $2, $3, $4)")
        .bind(now.rfc3339())
        .bind(who)
        .bind(what)
        .bind(why);
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn list(db: &mut Connection, limit: u32) -> StoreResult<Vec<LogEntry>> {
    let select = Statement::new("SELECT at, who, what, why FROM moderation ORDER BY position DESC LIMIT $1");
    let rows: Vec<(String, String, String, String)> = db.fetch_all(select.bind(i64::from(limit))).await?;
    Ok(rows.into_iter().map(|(at, who, what, why)| LogEntry { at, who, what, why }).collect())
}
