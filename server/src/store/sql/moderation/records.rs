//! What administrators did, and what users reported.

use diode_core::api::{LogEntry, NewReport, Reason, Report};
use diode_core::ids::AccountId;

use crate::solutions::Damaged;
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::{optional, parse};
use crate::store::sql::statement::Statement;
use crate::store::types::Now;

pub(in crate::store::sql) async fn write_down(
    db: &mut impl Connection,
    what: &str,
    why: &Reason,
    who: &str,
    now: Now,
) -> StoreResult<()> {
    let insert = Statement::new("INSERT INTO moderation (at, who, what, why) VALUES ($1, $2, $3, $4)")
        .bind(now.rfc3339())
        .bind(who)
        .bind(what)
        .bind(why.as_str());
    db.execute(insert).await?;
    Ok(())
}

pub(super) async fn log(db: &mut impl Connection, limit: u32) -> StoreResult<Vec<LogEntry>> {
    let select = Statement::new("SELECT at, who, what, why FROM moderation ORDER BY position DESC LIMIT $1");
    let rows: Vec<(String, String, String, String)> = db.fetch_all(select.bind(i64::from(limit))).await?;
    Ok(rows.into_iter().map(|(at, who, what, why)| LogEntry { at, who, what, why }).collect())
}

pub(super) async fn add_report(
    db: &mut impl Connection,
    report: &NewReport,
    account: Option<&AccountId>,
    now: Now,
) -> StoreResult<bool> {
    let insert = Statement::new(
        "INSERT INTO reports (at, upload, account, reason) SELECT $1, id, $2, $3 FROM uploads WHERE id = $4",
    )
    .bind(now.rfc3339())
    .bind(account.map(AccountId::as_str))
    .bind(report.reason.as_str())
    .bind(report.upload.as_str());
    Ok(db.execute(insert).await? == 1)
}

pub(super) async fn reports(db: &mut impl Connection, limit: u32) -> StoreResult<Vec<Report>> {
    let select = Statement::new(
        "SELECT r.at, r.upload, a.name, r.reason FROM reports r LEFT JOIN accounts a ON a.id = r.account \
         ORDER BY r.position DESC LIMIT $1",
    );
    let rows: Vec<(String, String, Option<String>, String)> =
        db.fetch_all(select.bind(i64::from(limit))).await?;
    let report = |(at, upload, who, reason)| {
        Ok(Report {
            at,
            upload: parse("upload id", upload)?,
            who: optional("account name", who)?,
            reason: parse("reason", reason)?,
        })
    };
    Ok(rows.into_iter().map(report).collect::<Result<_, Damaged>>()?)
}
