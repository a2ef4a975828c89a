use std::collections::HashMap;

use diode_api::HardwareContributor;
use diode_core::ids::HardwareSlug;

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{optional, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;

/// What one contributor has measured: its solutions that count.
struct MeasuredRow {
    contributor: Option<String>,
    name: Option<String>,
    problems: i64,
    solutions: i64,
    timings: i64,
}

from_row!(MeasuredRow { contributor, name, problems, solutions, timings });

/// The uploads of one account that have a solution.
struct SentRow {
    account: Option<String>,
    uploads: i64,
    newest_at: String,
    weighted: Option<f64>,
    compared: i64,
}

from_row!(SentRow { account, uploads, newest_at, weighted, compared });

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn contributors(
    db: &mut Connection,
    slug: &HardwareSlug,
    limit: u32,
) -> StoreResult<Vec<HardwareContributor>> {
    let select = Statement::new(
        "SELECT s.contributor, a.name, COUNT(DISTINCT s.problem) AS problems, COUNT(*) AS solutions, \
         CAST(SUM(s.timings) AS BIGINT) AS timings FROM solutions s LEFT JOIN accounts a ON a.id = s.contributor \
         WHERE s.hardware = ",
    )
    .push_bind(slug.as_str())
    .push(" AND s.standing = 0 GROUP BY s.contributor, a.name ORDER BY problems DESC, timings DESC, s.contributor \
         LIMIT ")
    .push_bind(i64::from(limit));
    let measured: Vec<MeasuredRow> = db.fetch_all(select).await?;
    let select = Statement::new(
        "SELECT u.account, COUNT(*) AS uploads, MAX(u.received_at) AS newest_at, \
         SUM(u.log_ratio * u.compared) AS weighted, \
         CAST(SUM(CASE WHEN u.log_ratio IS NULL THEN 0 ELSE u.compared END) AS BIGINT) AS compared \
         FROM uploads u WHERE u.standing = 0 AND u.id IN (SELECT t.upload FROM sent t JOIN solutions s \
         ON s.id = t.solution WHERE s.hardware = ",
    );
    let select = select.push_bind(slug.as_str()).push(") GROUP BY u.account");
    let sent: Vec<SentRow> = db.fetch_all(select).await?;
    let mut sent: HashMap<_, _> = sent.into_iter().map(|row| (row.account.clone(), row)).collect();
    // If the account of an upload is deleted, its solutions count as sent without an account.
    let joined = measured.into_iter().filter_map(|row| {
        let sent = sent.remove(&row.contributor)?;
        Some(contributor(row, sent))
    });
    Ok(joined.collect::<Result<_, _>>()?)
}

fn contributor(measured: MeasuredRow, sent: SentRow) -> Result<HardwareContributor, Damaged> {
    let compared = unsigned("problem count", sent.compared)?;
    Ok(HardwareContributor {
        name: optional("account name", measured.name)?,
        problems: unsigned("problem count", measured.problems)?,
        solutions: unsigned("solution count", measured.solutions)?,
        timings: unsigned("timing count", measured.timings)?,
        uploads: unsigned("upload count", sent.uploads)?,
        newest_at: sent.newest_at,
        log_ratio: sent.weighted.filter(|_| compared > 0).map(|sum| sum / compared as f64),
        compared_problems: compared,
    })
}
