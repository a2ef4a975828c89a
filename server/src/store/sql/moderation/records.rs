//! What users reported.

use diode_api::{NewReport, Report};
use diode_core::ids::AccountId;

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{optional, parse};
use crate::store::statement::Statement;
use crate::store::types::Now;

pub(super) async fn add_report(
    db: &mut Connection,
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

pub(super) async fn reports(db: &mut Connection, limit: u32) -> StoreResult<Vec<Report>> {
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
