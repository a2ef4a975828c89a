use diode_api::{Breadth, Purpose};
use diode_core::ids::LeaseId;

use super::leading::leads;
use super::work::{Whom, WorkRow, add, reopen_for_others};
use crate::agents::plan::is_to_be_confirmed;
use crate::store::agents::NewWork;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::statement::Statement;
use crate::store::types::{ForLease, NewUpload, Now};

/// Stores which work of a lease an upload has brought, in the upload's own transaction. The lease ends when all of
/// its work is there. Work that arrives after the end counts, too, unless another lease has had it since. If the
/// upload does not count, its work waits for other contributors, since new results of this contributor would not
/// count either.
pub(in crate::store::sql) async fn settle(
    db: &mut Connection,
    upload: &NewUpload,
    counts: bool,
) -> StoreResult<()> {
    let Some(ForLease { lease, agent, contributor }) = &upload.lease else { return Ok(()) };
    let lock = Statement::new("SELECT id FROM leases WHERE id = ")
        .push_bind(lease.as_str())
        .push(" AND agent = ")
        .push_bind(agent.as_str())
        .push(db.lock_row());
    // The lease may come from a database that this one has replaced. Its results are stored, but there is no work
    // to settle.
    let known: Option<(String,)> = db.fetch_optional(lock).await?;
    if known.is_none() {
        return Ok(());
    }
    for solution in &upload.solutions {
        let update = Statement::new(
            "UPDATE work SET state = 'done', upload = $1 WHERE lease = $2 AND hardware = $3 AND problem = $4 \
             AND state IN ('leased', 'waiting') RETURNING position, fields, purpose, breadth, seconds",
        )
        .bind(upload.id.as_str())
        .bind(lease.as_str())
        .bind(solution.hardware.as_str())
        .bind(solution.problem.as_str());
        let done: Vec<WorkRow> = db.fetch_all(update).await?;
        for row in done {
            let NewWork { problem, purpose, seconds, .. } = row.work()?;
            if counts
                && ![Purpose::Confirm, Purpose::Again].contains(&purpose)
                && (is_to_be_confirmed(&problem) || leads(db, solution, &problem).await?)
            {
                // A sample has the best configs, and no others need to be confirmed.
                let confirm =
                    NewWork { problem, purpose: Purpose::Confirm, breadth: Breadth::Sample, seconds };
                let whom = Whom { but: Some(contributor), ..Whom::default() };
                add(db, &solution.hardware, [&confirm], whom).await?;
            }
        }
    }
    if !counts {
        reopen_for_others(db, &upload.id).await?;
    }
    end_if_complete(db, lease).await
}

async fn end_if_complete(db: &mut Connection, lease: &LeaseId) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE leases SET state = 'done', ended = $1 WHERE id = $2 AND state = 'active' \
         AND NOT EXISTS (SELECT 1 FROM work WHERE lease = $2 AND state = 'leased')",
    )
    .bind(Now::read().millis())
    .bind(lease.as_str());
    db.execute(update).await?;
    Ok(())
}
