//! Checks that the rows of agents can be read.

use diode_api::LeaseState;
use diode_core::ids::{AgentId, LeaseId};

use super::list;
use super::work::WorkRow;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::{StoreError, StoreResult};
use crate::store::fields::{named, parse, rfc3339, unsigned};
use crate::store::statement::Statement;
use crate::store::upkeep::CheckedRows;

/// How many pieces of work are in memory at a time. Many agents together make millions a day.
const WORK_AT_ONCE: i64 = 10_000;

/// Reads every agent, lease and piece of work.
pub(in crate::store::sql) async fn check(db: &mut Connection, checked: &mut CheckedRows) -> StoreResult<()> {
    let ids: Vec<(String,)> = db.fetch_all(Statement::new("SELECT id FROM agents ORDER BY id")).await?;
    for (id,) in ids {
        let found = match AgentId::try_from(id.clone()) {
            Ok(agent) => list::find(db, &agent).await.map(drop),
            Err(error) => Err(Damaged::new("agent id", error).into()),
        };
        match found {
            Err(StoreError::Damaged(damaged)) => checked.note("agent", &id, Err(damaged)),
            other => checked.note("agent", &id, Ok(other?)),
        }
    }
    let select = "SELECT id, state, taken, ended, problems FROM leases ORDER BY id";
    let leases: Vec<(String, String, i64, Option<i64>, i64)> = db.fetch_all(Statement::new(select)).await?;
    for (id, state, taken, ended, problems) in leases {
        let read = || -> Result<(), Damaged> {
            parse::<LeaseId>("lease id", id.clone())?;
            named::<LeaseState>("lease state", &state)?;
            rfc3339("lease's beginning", taken)?;
            ended.map(|ended| rfc3339("lease's end", ended)).transpose()?;
            unsigned("problems of a lease", problems).map(drop)
        };
        checked.note("lease", &id, read());
    }
    let mut after = 0_i64;
    loop {
        let select = Statement::new(WorkRow::SELECT).push(" WHERE position > ").push_bind(after);
        let select = select.push(" ORDER BY position LIMIT ").push_bind(WORK_AT_ONCE);
        let work: Vec<WorkRow> = db.fetch_all(select).await?;
        let Some(last) = work.last() else { return Ok(()) };
        after = last.position;
        for row in work {
            let position = row.position;
            checked.note("work", &position, row.work().map(drop));
        }
    }
}
