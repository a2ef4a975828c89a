use diode_api::{LeaseState, LeaseSummary, Reach, RefusedWork};
use diode_core::ids::{AgentId, LeaseId};

use crate::solutions::Damaged;
use crate::store::agents::AGENT_LEASE;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{named, parse, rfc3339, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::Now;

/// How many expired leases one request ends.
const EXPIRED_AT_ONCE: i64 = 20;

struct LeaseRow {
    id: String,
    state: String,
    taken: i64,
    ended: Option<i64>,
    seconds: f64,
    problems: i64,
    measured: i64,
}

from_row!(LeaseRow { id, state, taken, ended, seconds, problems, measured });

impl LeaseRow {
    fn summary(self) -> Result<LeaseSummary, Damaged> {
        Ok(LeaseSummary {
            id: parse("lease id", self.id)?,
            state: named("lease state", &self.state)?,
            taken_at: rfc3339("lease's beginning", self.taken)?,
            ended_at: self.ended.map(|ended| rfc3339("lease's end", ended)).transpose()?,
            seconds: self.seconds,
            problems: unsigned("problems of a lease", self.problems)?,
            measured: unsigned("measured problems", self.measured)?,
        })
    }
}

pub(super) async fn list(db: &mut Connection, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>> {
    let select = Statement::new(
        "SELECT l.id, l.state, l.taken, l.ended, l.seconds, l.problems, \
         (SELECT COUNT(*) FROM work w WHERE w.lease = l.id AND w.state = 'done') AS measured \
         FROM leases l WHERE l.agent = $1 ORDER BY l.taken DESC, l.id LIMIT $2",
    );
    let rows: Vec<LeaseRow> = db.fetch_all(select.bind(agent.as_str()).bind(i64::from(limit))).await?;
    Ok(rows.into_iter().map(LeaseRow::summary).collect::<Result<_, _>>()?)
}

pub(super) async fn agent(db: &mut Connection, lease: &LeaseId) -> StoreResult<Option<AgentId>> {
    let select = Statement::new("SELECT agent FROM leases WHERE id = $1").bind(lease.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(agent,)| parse("agent id", agent)).transpose()?)
}

pub(super) async fn renew(
    db: &mut Connection,
    agent: &AgentId,
    lease: &LeaseId,
    now: Now,
) -> StoreResult<bool> {
    see(db, agent, now).await?;
    let update =
        Statement::new("UPDATE leases SET until = $1 WHERE id = $2 AND agent = $3 AND state = 'active'")
            .bind(now.lease_end(AGENT_LEASE))
            .bind(lease.as_str())
            .bind(agent.as_str());
    Ok(db.execute(update).await? == 1)
}

/// Stores that an agent has asked for something. This locks the agent: its other requests, and a deletion of its
/// account, wait until the transaction ends. This must come first, because all transactions lock an agent before
/// leases, and leases before work.
pub(super) async fn see(db: &mut Connection, agent: &AgentId, now: Now) -> StoreResult<()> {
    let update = Statement::new("UPDATE agents SET seen = $1 WHERE id = $2");
    db.execute(update.bind(now.millis()).bind(agent.as_str())).await?;
    Ok(())
}

pub(super) async fn end(
    db: &mut Connection,
    agent: &AgentId,
    lease: &LeaseId,
    refused: &[RefusedWork],
    now: Now,
) -> StoreResult<Option<LeaseState>> {
    see(db, agent, now).await?;
    // The final state is set below, when it is known whether any work goes back.
    let update = Statement::new(
        "UPDATE leases SET state = 'done', ended = $1 WHERE id = $2 AND agent = $3 AND state = 'active'",
    )
    .bind(now.millis())
    .bind(lease.as_str())
    .bind(agent.as_str());
    if db.execute(update).await? == 0 {
        return Ok(None);
    }
    for RefusedWork { problem, reason, reach } in refused {
        let (state, refusal) = match reach {
            Reach::Hardware => ("refused", Some(reason.as_str())),
            // The work waits again, for other agents.
            Reach::Agent => ("waiting", None),
        };
        if *reach == Reach::Agent {
            let insert = Statement::new(
                "INSERT INTO refusals (work, agent, reason) SELECT position, $1, $2 FROM work \
                 WHERE lease = $3 AND problem = $4 AND state = 'leased' ON CONFLICT DO NOTHING",
            );
            let insert = insert.bind(agent.as_str()).bind(reason.as_str());
            db.execute(insert.bind(lease.as_str()).bind(problem.as_str())).await?;
        }
        let update = Statement::new(
            "UPDATE work SET state = $1, refusal = $2 WHERE lease = $3 AND problem = $4 AND state = 'leased'",
        );
        let update = update.bind(state).bind(refusal);
        db.execute(update.bind(lease.as_str()).bind(problem.as_str())).await?;
    }
    if return_work(db, lease.as_str()).await? == 0 {
        return Ok(Some(LeaseState::Done));
    }
    let update = Statement::new("UPDATE leases SET state = 'returned' WHERE id = $1");
    db.execute(update.bind(lease.as_str())).await?;
    Ok(Some(LeaseState::Returned))
}

/// Ends the lease of an agent, if it has one. The agent must be locked.
pub(super) async fn take_back(db: &mut Connection, agent: &AgentId, now: Now) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE leases SET state = 'returned', ended = $1 WHERE agent = $2 AND state = 'active' RETURNING id",
    );
    let lease: Option<(String,)> = db.fetch_optional(update.bind(now.millis()).bind(agent.as_str())).await?;
    if let Some((lease,)) = lease {
        return_work(db, &lease).await?;
    }
    Ok(())
}

/// Ends leases that were not renewed in time.
pub(super) async fn expire(db: &mut Connection, now: Now) -> StoreResult<()> {
    let update = Statement::new("UPDATE leases SET state = 'expired', ended = ")
        .push_bind(now.millis())
        .push(" WHERE id IN (SELECT id FROM leases WHERE state = 'active' AND until < ")
        .push_bind(now.millis())
        .push(" ORDER BY until LIMIT ")
        .push_bind(EXPIRED_AT_ONCE)
        .push(db.skip_locked())
        .push(") RETURNING id");
    let expired: Vec<(String,)> = db.fetch_all(update).await?;
    for (lease,) in expired {
        return_work(db, &lease).await?;
    }
    Ok(())
}

/// Lets a lease's unmeasured work wait again. Returns how many problems that are. The rows still name the lease,
/// because its results may arrive late.
async fn return_work(db: &mut Connection, lease: &str) -> StoreResult<u64> {
    let update = Statement::new("UPDATE work SET state = 'waiting' WHERE lease = $1 AND state = 'leased'");
    db.execute(update.bind(lease)).await
}
