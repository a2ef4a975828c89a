//! Solutions that another account sent first.

use std::collections::{BTreeMap, BTreeSet};

use diode_core::ids::UploadId;

use super::inserts::ROWS_PER_STATEMENT;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;

/// The time of an upload's arrival, its id, and its account.
type Arrived = (String, String, String);

/// Returns which of `solutions` would belong to another account even if the upload counted. A solution belongs to
/// the account of the first upload that sent it and counts.
///
/// Takes several steps, each of which reads rows by their keys. For a single query, Postgres may read all uploads
/// for each solution, or all rows of all uploads. Then the cost of an upload would grow with the number of uploads.
pub(super) async fn of_others(
    db: &mut Connection,
    upload: &UploadId,
    solutions: &[i64],
) -> StoreResult<BTreeSet<i64>> {
    let mut sent: Vec<(i64, String)> = Vec::with_capacity(solutions.len());
    for chunk in solutions.chunks(ROWS_PER_STATEMENT) {
        let select = Statement::new("SELECT solution, upload FROM sent WHERE solution IN (");
        sent.extend(db.fetch_all::<(i64, String)>(select.push_list(chunk.iter().copied()).push(")")).await?);
    }
    let senders: BTreeSet<&str> = sent.iter().map(|(_, by)| by.as_str()).collect();
    if senders.iter().all(|by| *by == upload.as_str()) {
        return Ok(BTreeSet::new());
    }
    let mut arrived: BTreeMap<String, Arrived> = BTreeMap::new();
    for chunk in senders.into_iter().collect::<Vec<_>>().chunks(ROWS_PER_STATEMENT) {
        let select = Statement::new(
            "SELECT received_at, id, COALESCE(account, '') FROM uploads WHERE (standing = 0 OR id = ",
        );
        let select = select.push_bind(upload.as_str()).push(") AND id IN (");
        let rows: Vec<Arrived> = db.fetch_all(select.push_list(chunk.iter().copied()).push(")")).await?;
        arrived.extend(rows.into_iter().map(|row| (row.1.clone(), row)));
    }
    let own = arrived.get(upload.as_str()).map(|(_, _, account)| account.clone());
    let mut first: BTreeMap<i64, &Arrived> = BTreeMap::new();
    for (solution, by) in &sent {
        let Some(by) = arrived.get(by) else { continue };
        let earliest = first.entry(*solution).or_insert(by);
        *earliest = by.min(earliest);
    }
    let of_others = first.into_iter().filter(|(_, (_, _, account))| Some(account) != own.as_ref());
    Ok(of_others.map(|(solution, _)| solution).collect())
}
