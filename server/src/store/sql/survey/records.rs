//! The problems on which a contributor is the fastest.

use diode_core::Nanos;
use diode_core::ids::AccountId;

use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::sql::entry_row;
use crate::store::statement::Statement;
use crate::store::survey::{Record, Sample};

/// The account's solutions that count and are as fast as the board's best time, which is a median over
/// contributors. They are found by way of the account's uploads, because uploads have an index by account.
const FASTEST: &str = " FROM solutions s JOIN entries e ON e.hardware = s.hardware AND e.problem = s.problem \
     AND e.method = s.method JOIN problems p ON p.id = s.problem \
     WHERE s.standing = 0 AND s.best_ns <= e.best_ns AND s.contributor = $1 \
     AND s.id IN (SELECT t.solution FROM sent t JOIN uploads u ON u.id = t.upload WHERE u.account = $1)";

struct RecordRow {
    hardware: String,
    fields: String,
    best_ns: f64,
    entry: String,
}

from_row!(RecordRow { hardware, fields, best_ns, entry });

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn records(
    db: &mut Connection,
    account: &AccountId,
    limit: u32,
) -> StoreResult<Sample<Record>> {
    let count = Statement::new("SELECT COUNT(*)").push(FASTEST);
    let (total,): (i64,) = db.fetch_one(count.bind(account.as_str())).await?;
    let select = Statement::new("SELECT s.hardware, p.fields, s.best_ns, e.entry")
        .push(FASTEST)
        .push(" ORDER BY e.flops DESC, s.hardware, s.problem, s.method LIMIT $2");
    let rows: Vec<RecordRow> = db.fetch_all(select.bind(account.as_str()).bind(i64::from(limit))).await?;
    let record = |row: RecordRow| {
        Ok(Record {
            hardware: parse("hardware slug", row.hardware)?,
            problem: from_json("problem", &row.fields)?,
            time: Nanos(row.best_ns),
            contributors: entry_row::read(&row.entry)?.best_contributors,
        })
    };
    let items = rows.into_iter().map(record).collect::<Result<_, Damaged>>()?;
    Ok(Sample { total: unsigned("record count", total)?, items })
}
