use std::collections::HashSet;

use diode_api::Ability;
use diode_core::ids::LeaseId;

use super::leases::{expire, see};
use super::work::WorkRow;
use crate::agents::plan::{FIRST_RANK, LAST_RANK};
use crate::store::agents::{AGENT_LEASE, KnownAgent, LeaseWish, LeasedWork, NewWork, Taken};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{parse, unsigned};
use crate::store::statement::Statement;
use crate::store::types::Now;

/// The most problems of a lease. They are locked until the lease is made, so other requests skip them.
const MOST_PROBLEMS: i64 = 64;

/// As long as there are holes, this share of a lease is for what people and models ask for. Without it, they would
/// wait until tens of thousands of holes are measured.
const ASKED_SHARE: f64 = 0.25;
/// How many of the problems that people and models ask for are read for a lease.
const MOST_ASKED: i64 = 16;

pub(super) async fn take(db: &mut Connection, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Taken> {
    let agent = wish.agent;
    see(db, &agent.id, now).await?;
    expire(db, now).await?;
    if let Some(lease) = resume(db, wish, now).await? {
        return Ok(Taken::Lease(lease));
    }
    let mut chosen = Vec::new();
    // The first try skips rows that other requests have locked. If these are all rows, the second try waits for the
    // locks.
    for lock in [db.skip_locked(), db.lock_row()] {
        let select = waiting(Statement::new(WorkRow::SELECT), wish.agent, wish.seconds)
            .push(" ORDER BY rank, position LIMIT ")
            .push_bind(MOST_PROBLEMS)
            .push(lock);
        let first: Vec<WorkRow> = db.fetch_all(select).await?;
        let asked = match first.first() {
            Some(row) if row.is_hole() => asked(db, wish, lock).await?,
            _ => Vec::new(),
        };
        // Planned work may wait and not be among these rows: it may be locked, or come after problems that people
        // want or that must be confirmed.
        let sees_planned = first.iter().any(WorkRow::is_planned);
        if wish.may_plan && !sees_planned && planned_for(db, agent, wish.seconds, 1).await? == 0 {
            return Ok(Taken::PlanFirst);
        }
        chosen = choose(first, asked, wish.seconds);
        if !chosen.is_empty() {
            break;
        }
    }
    if chosen.is_empty() {
        return Ok(Taken::Nothing);
    }
    let seconds: f64 = chosen.iter().map(|row| row.seconds).sum();
    let insert = Statement::new(
        "INSERT INTO leases (id, agent, state, seconds, problems, taken, until) \
         VALUES ($1, $2, 'active', $3, $4, $5, $6)",
    )
    .bind(wish.id.as_str())
    .bind(agent.id.as_str())
    .bind(seconds)
    .bind(chosen.len() as u64)
    .bind(now.millis())
    .bind(now.lease_end(AGENT_LEASE));
    db.execute(insert).await?;
    let mut update = Statement::new("UPDATE work SET state = 'leased', lease = ").push_bind(wish.id.as_str());
    update = update.push(" WHERE position IN (").push_list(chosen.iter().map(|row| row.position)).push(")");
    db.execute(update).await?;
    let work = chosen.into_iter().map(WorkRow::work).collect::<Result<_, _>>()?;
    Ok(Taken::Lease(LeasedWork { id: wish.id.clone(), work }))
}

/// The lease of the agent, renewed.
async fn resume(db: &mut Connection, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Option<LeasedWork>> {
    let update =
        Statement::new("UPDATE leases SET until = $1 WHERE agent = $2 AND state = 'active' RETURNING id")
            .bind(now.lease_end(AGENT_LEASE))
            .bind(wish.agent.id.as_str());
    let Some((id,)) = db.fetch_optional::<(String,)>(update).await? else { return Ok(None) };
    let id: LeaseId = parse("lease id", id)?;
    let select = Statement::new(WorkRow::SELECT)
        .push(" WHERE state = 'leased' AND lease = ")
        .push_bind(id.as_str())
        .push(" ORDER BY rank, position");
    let rows: Vec<WorkRow> = db.fetch_all(select).await?;
    let work: Vec<NewWork> = rows.into_iter().map(WorkRow::work).collect::<Result<_, _>>()?;
    Ok(Some(LeasedWork { id, work }))
}

/// The work that people and models ask for, as far as this agent can measure it.
async fn asked(db: &mut Connection, wish: &LeaseWish<'_>, lock: &'static str) -> StoreResult<Vec<WorkRow>> {
    let select = waiting(Statement::new(WorkRow::SELECT), wish.agent, wish.seconds)
        .push(" AND rank > ")
        .push_bind(FIRST_RANK)
        .push(" AND rank < ")
        .push_bind(LAST_RANK)
        .push(" ORDER BY rank, position LIMIT ")
        .push_bind(MOST_ASKED)
        .push(lock);
    db.fetch_all(select).await
}

/// How much planned work waits for an agent. Work that people or other agents ask for is not counted.
pub(super) async fn planned_for(
    db: &mut Connection,
    agent: &KnownAgent,
    seconds: f64,
    most: u64,
) -> StoreResult<u64> {
    let select = waiting(Statement::new("SELECT COUNT(*) FROM (SELECT 1 FROM work"), agent, seconds)
        // The order makes Postgres use the index. Otherwise Postgres would read the whole table to find enough rows.
        .push(" AND purpose IN ('hole', 'more') ORDER BY rank, position LIMIT ")
        .push_bind(most)
        .push(") planned");
    let (count,): (i64,) = db.fetch_one(select).await?;
    Ok(unsigned("planned problems", count)?)
}

/// The condition for waiting work that the agent can measure.
fn waiting(select: Statement, agent: &KnownAgent, seconds: f64) -> Statement {
    let Ability { ops, dtypes, layouts, unaligned, memory_bytes, variants } = &agent.registration.ability;
    let mut select = select
        .push(" WHERE hardware = ")
        .push_bind(agent.hardware().as_str())
        .push(" AND state = 'waiting' AND seconds <= ")
        .push_bind(seconds)
        .push(" AND bytes <= ")
        .push_bind(*memory_bytes as f64)
        .push(" AND (measured_by IS NULL OR measured_by <> ")
        .push_bind(agent.contributor())
        .push(") AND op IN (");
    select = select.push_list(ops.iter().map(|op| op.as_str())).push(")");
    select = select.push(" AND dtype IN (").push_list(dtypes.iter().map(|dtype| dtype.as_str())).push(")");
    select =
        select.push(" AND b_layout IN (").push_list(layouts.iter().map(|layout| layout.as_str())).push(")");
    if !unaligned {
        select = select.push(" AND aligned = 1");
    }
    select = select
        .push(" AND (driver IS NULL OR driver = ")
        .push_bind(agent.driver().unwrap_or_default())
        .push(")");
    if let Some(variants) = variants {
        select = select.push(" AND (variant IS NULL OR variant IN (");
        select = select.push_list(variants.iter().map(ToString::to_string)).push(")").push(")");
    }
    select
        .push(" AND NOT EXISTS (SELECT 1 FROM refusals r WHERE r.work = work.position AND r.agent = ")
        .push_bind(agent.id.as_str())
        .push(")")
}

/// The first rows that together take at most `seconds`. A row that is too long is skipped. The rows of `asked` get
/// their share of the time or, if it is longer, the time of the first of them.
fn choose(rows: Vec<WorkRow>, asked: Vec<WorkRow>, seconds: f64) -> Vec<WorkRow> {
    let part = asked.first().map_or(0.0, |first| first.seconds).max(ASKED_SHARE * seconds);
    let mut own = fitting(asked, part.min(seconds));
    let left = seconds - own.iter().map(|row| row.seconds).sum::<f64>();
    let taken: HashSet<i64> = own.iter().map(|row| row.position).collect();
    let rows = rows.into_iter().filter(|row| !taken.contains(&row.position)).collect();
    let mut chosen = fitting(rows, left);
    chosen.truncate(MOST_PROBLEMS as usize - own.len());
    // Holes, then what was asked for, then the rest: the order of ranks, as in other leases.
    let holes = chosen.iter().take_while(|row| row.is_hole()).count();
    let more = chosen.split_off(holes);
    chosen.append(&mut own);
    chosen.extend(more);
    chosen
}

fn fitting(rows: Vec<WorkRow>, seconds: f64) -> Vec<WorkRow> {
    let mut left = seconds;
    let fits = |row: &WorkRow| {
        let fits = row.seconds <= left;
        left -= if fits { row.seconds } else { 0.0 };
        fits
    };
    rows.into_iter().filter(fits).collect()
}
