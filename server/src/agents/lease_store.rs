//! Leases: how an agent gets work, renews it, and gives it back or brings its results.

use std::collections::HashSet;
use std::time::Duration;

use diode_api::{Ability, Breadth, LeaseState, LeaseSummary, Purpose, Reach, RefusedWork};
use diode_core::ids::{AgentId, LeaseId};
use diode_core::{Micros, Problem, Tflops};

use crate::agents::agent_store::KnownAgent;
use crate::agents::plan::{FIRST_RANK, LAST_RANK, is_to_be_confirmed};
use crate::agents::work_store::{NewWork, Whom, WorkRow};
use crate::store::Store;
use crate::store::connection::{Connection, in_transaction};
use crate::store::fields::{named, parse, readable_row, rfc3339, unsigned};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};
use crate::uploads::solutions::StoredSolution;
use crate::uploads::upload_store::{ForLease, NewUpload};

/// A lease ends unless its agent renews it within this time. This time is longer than a restart of the server takes.
pub const AGENT_LEASE: Duration = Duration::from_secs(180);

/// What an agent asks for.
#[derive(Debug, Clone)]
pub struct LeaseWish<'a> {
    pub agent: &'a KnownAgent,
    /// The id of a new lease.
    pub id: LeaseId,
    /// How long all of the work may take.
    pub seconds: f64,
    /// Whether more may be planned. If not, only work that waits is given.
    pub may_plan: bool,
}

/// What an agent gets.
#[derive(Debug, Clone, PartialEq)]
pub enum LeaseOutcome {
    /// A new lease, or the lease that the agent already has.
    Lease(LeasedWork),
    /// More must be planned first: nothing of the plan waits for this agent.
    PlanIsEmpty,
    /// No work waits for this agent.
    Nothing,
}

/// A lease with its work that has not been measured yet.
#[derive(Debug, Clone, PartialEq)]
pub struct LeasedWork {
    pub id: LeaseId,
    pub work: Vec<NewWork>,
}

/// How many problems form the top of a board. Here a board has the problems of one operator and one type.
const TOP: i64 = 5;

/// A board with fewer problems has no top, because almost every problem would be in it.
const ENOUGH: i64 = 40;

/// How many expired leases one request ends.
const EXPIRED_AT_ONCE: i64 = 20;

readable_row!(LeaseSummary {
    id, state: String, taken_at, ended_at: Option<i64>, seconds, problems, measured
} => LeaseSummary {
    id: parse("lease id", id)?,
    state: named("lease state", &state)?,
    taken_at: rfc3339("lease's beginning", taken_at)?,
    ended_at: ended_at.map(|ended| rfc3339("lease's end", ended)).transpose()?,
    seconds,
    problems: unsigned("problems of a lease", problems)?,
    measured: unsigned("measured problems", measured)?,
});

/// The most problems of a lease. They are locked until the lease is made, so other requests skip them.
const MOST_PROBLEMS: i64 = 64;

/// As long as there are holes, this share of a lease is for what people and models ask for. Without it, they would
/// wait until tens of thousands of holes are measured.
const ASKED_SHARE: f64 = 0.25;

/// How many of the problems that people and models ask for are read for a lease.
const MOST_ASKED: i64 = 16;

impl Store {
    /// The newest leases of an agent, newest first.
    pub async fn leases(&self, agent: &AgentId, limit: u32) -> StoreResult<Vec<LeaseSummary>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT l.id, l.state, l.taken AS taken_at, l.ended AS ended_at, l.seconds, l.problems, \
             (SELECT COUNT(*) FROM work w WHERE w.lease = l.id AND w.state = 'done') AS measured \
             FROM leases l WHERE l.agent = $1 ORDER BY l.taken DESC, l.id LIMIT $2",
        );
        db.read_all(select.bind(agent.as_str()).bind(i64::from(limit))).await
    }

    /// Gives work to an agent: the work of its lease or, if it has no lease, the first of the work that waits. No
    /// other agent gets the same problem as long as the lease is renewed.
    pub async fn take_lease(&self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<LeaseOutcome> {
        in_transaction!(self, async |db| {
            let agent = wish.agent;
            db.see_agent(&agent.id, now).await?;
            db.expire_leases(now).await?;
            if let Some(lease) = db.resume_lease(wish, now).await? {
                return Ok(LeaseOutcome::Lease(lease));
            }
            let mut chosen = Vec::new();
            // The first try skips rows that other requests have locked. If these are all rows, the second try waits for the
            // locks.
            for lock in [db.skip_locked(), db.lock_row()] {
                let select = push_waiting(Statement::new(WorkRow::SELECT), wish.agent, wish.seconds)
                    .push(" ORDER BY rank, wishes DESC, position LIMIT ")
                    .push_bind(MOST_PROBLEMS)
                    .push(lock);
                let first: Vec<WorkRow> = db.read_all(select).await?;
                let asked = match first.first() {
                    Some(row) if row.is_hole() => db.asked_work(wish, lock).await?,
                    _ => Vec::new(),
                };
                // Planned work may wait and not be among these rows: it may be locked, or come after problems that people
                // want or that must be confirmed.
                let sees_planned = first.iter().any(WorkRow::is_planned);
                if wish.may_plan && !sees_planned && db.planned_for(agent, wish.seconds, 1).await? == 0 {
                    return Ok(LeaseOutcome::PlanIsEmpty);
                }
                chosen = choose(first, asked, wish.seconds);
                if !chosen.is_empty() {
                    break;
                }
            }
            if chosen.is_empty() {
                return Ok(LeaseOutcome::Nothing);
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
            let mut update =
                Statement::new("UPDATE work SET state = 'leased', lease = ").push_bind(wish.id.as_str());
            update = update
                .push(" WHERE position IN (")
                .push_list(chosen.iter().map(|row| row.position))
                .push(")");
            db.execute(update).await?;
            let work = chosen.into_iter().map(WorkRow::work).collect::<Result<_, _>>()?;
            Ok(LeaseOutcome::Lease(LeasedWork { id: wish.id.clone(), work }))
        })
    }

    /// The agent of a lease; `None` if there is no lease with this id.
    pub async fn lease_agent(&self, lease: &LeaseId) -> StoreResult<Option<AgentId>> {
        let db = &mut self.reader().await?;
        let select = Statement::new("SELECT agent FROM leases WHERE id = $1").bind(lease.as_str());
        let row: Option<(String,)> = db.fetch_optional(select).await?;
        Ok(row.map(|(agent,)| parse("agent id", agent)).transpose()?)
    }

    /// Renews a lease. `false` if it has ended; the agent then stops.
    pub async fn renew_lease(&self, agent: &AgentId, lease: &LeaseId, now: Now) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            db.see_agent(agent, now).await?;
            let update = Statement::new(
                "UPDATE leases SET until = $1 WHERE id = $2 AND agent = $3 AND state = 'active'",
            )
            .bind(now.lease_end(AGENT_LEASE))
            .bind(lease.as_str())
            .bind(agent.as_str());
            Ok(db.execute(update).await? == 1)
        })
    }

    /// Ends a lease. Work that was not measured waits again. So does work that only this agent cannot measure: other
    /// agents may get it. Work that the hardware cannot measure does not wait again. Returns the state in which the
    /// lease ended; `None` if it had ended before.
    pub async fn end_lease(
        &self,
        agent: &AgentId,
        lease: &LeaseId,
        refused: &[RefusedWork],
        now: Now,
    ) -> StoreResult<Option<LeaseState>> {
        in_transaction!(self, async |db| {
            db.see_agent(agent, now).await?;
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
                    "UPDATE work SET state = $1, refusal = $2 WHERE lease = $3 AND problem = $4 AND state = \
                     'leased'",
                );
                let update = update.bind(state).bind(refusal);
                db.execute(update.bind(lease.as_str()).bind(problem.as_str())).await?;
            }
            if db.return_work(lease.as_str()).await? == 0 {
                return Ok(Some(LeaseState::Done));
            }
            let update = Statement::new("UPDATE leases SET state = 'returned' WHERE id = $1");
            db.execute(update.bind(lease.as_str())).await?;
            Ok(Some(LeaseState::Returned))
        })
    }

    /// How many planned problems wait that agents like this one can measure, each within `seconds`. Counts up to
    /// `most`.
    pub async fn planned_for(&self, agent: &KnownAgent, seconds: f64, most: u64) -> StoreResult<u64> {
        self.reader().await?.planned_for(agent, seconds, most).await
    }
}

impl Connection {
    /// Whether the best time of a solution puts its problem at the top of its board. Counts the entries that
    /// exist by now.
    pub(crate) async fn leads(&mut self, solution: &StoredSolution, problem: &Problem) -> StoreResult<bool> {
        let Some(best_us) = solution.best_us else { return Ok(false) };
        let own = Tflops::from_work(problem.flops(), Micros(best_us)).0;
        let board = || {
            Statement::new("SELECT COUNT(*) FROM (SELECT 1 AS one FROM entries WHERE hardware = ")
                .push_bind(solution.hardware.as_str())
                .push(" AND method = ")
                .push_bind(solution.method.to_string())
                .push(" AND op = ")
                .push_bind(problem.op.as_str())
                .push(" AND a_dtype = ")
                .push_bind(problem.a_dtype.as_str())
                .push(" AND problem <> ")
                .push_bind(solution.problem.as_str())
        };
        let limited =
            |select: Statement, number: i64| select.push(" LIMIT ").push_bind(number).push(") AS counted");
        let faster = limited(board().push(" AND tflops > ").push_bind(own), TOP);
        let (faster,): (i64,) = self.fetch_one(faster).await?;
        if faster == TOP {
            return Ok(false);
        }
        let (all,): (i64,) = self.fetch_one(limited(board(), ENOUGH)).await?;
        Ok(all == ENOUGH)
    }

    /// Stores that an agent has asked for something. This locks the agent: its other requests, and a deletion of its
    /// account, wait until the transaction ends. This must come first, because all transactions lock an agent before
    /// leases, and leases before work.
    pub(crate) async fn see_agent(&mut self, agent: &AgentId, now: Now) -> StoreResult<()> {
        let update = Statement::new("UPDATE agents SET seen = $1 WHERE id = $2");
        self.execute(update.bind(now.millis()).bind(agent.as_str())).await?;
        Ok(())
    }

    /// Ends the lease of an agent, if it has one. The agent must be locked.
    pub(crate) async fn take_back_lease(&mut self, agent: &AgentId, now: Now) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE leases SET state = 'returned', ended = $1 WHERE agent = $2 AND state = 'active' \
             RETURNING id",
        );
        let lease: Option<(String,)> =
            self.fetch_optional(update.bind(now.millis()).bind(agent.as_str())).await?;
        if let Some((lease,)) = lease {
            self.return_work(&lease).await?;
        }
        Ok(())
    }

    /// Ends leases that were not renewed in time.
    pub(crate) async fn expire_leases(&mut self, now: Now) -> StoreResult<()> {
        let update = Statement::new("UPDATE leases SET state = 'expired', ended = ")
            .push_bind(now.millis())
            .push(" WHERE id IN (SELECT id FROM leases WHERE state = 'active' AND (until < ")
            .push_bind(now.millis())
            .push(" OR until > ")
            .push_bind(now.latest_end(AGENT_LEASE))
            .push(") ORDER BY until LIMIT ")
            .push_bind(EXPIRED_AT_ONCE)
            .push(self.skip_locked())
            .push(") RETURNING id");
        let expired: Vec<(String,)> = self.fetch_all(update).await?;
        for (lease,) in expired {
            self.return_work(&lease).await?;
        }
        Ok(())
    }

    /// Lets a lease's unmeasured work wait again. Returns how many problems that are. The rows still name the lease,
    /// because its results may arrive late.
    async fn return_work(&mut self, lease: &str) -> StoreResult<u64> {
        let update =
            Statement::new("UPDATE work SET state = 'waiting' WHERE lease = $1 AND state = 'leased'");
        self.execute(update.bind(lease)).await
    }

    /// Stores which work of a lease an upload has brought, in the upload's own transaction. The lease ends when all of
    /// its work is there. Work that arrives after the end counts, too, unless another lease has had it since. If the
    /// upload does not count, its work waits for other contributors, since new results of this contributor would not
    /// count either.
    pub(crate) async fn settle_lease(&mut self, upload: &NewUpload, counts: bool) -> StoreResult<()> {
        let Some(ForLease { lease, agent, contributor }) = &upload.lease else { return Ok(()) };
        let lock = Statement::new("SELECT id FROM leases WHERE id = ")
            .push_bind(lease.as_str())
            .push(" AND agent = ")
            .push_bind(agent.as_str())
            .push(self.lock_row());
        // The lease may come from a database that this one has replaced. Its results are stored, but there is no work
        // to settle.
        let known: Option<(String,)> = self.fetch_optional(lock).await?;
        if known.is_none() {
            return Ok(());
        }
        for solution in &upload.solutions {
            let update = Statement::new(
            "UPDATE work SET state = 'done', upload = $1 WHERE lease = $2 AND hardware = $3 AND problem = \
             $4 \
             AND state IN ('leased', 'waiting') RETURNING position, fields, purpose, breadth, seconds",
        )
        .bind(upload.id.as_str())
        .bind(lease.as_str())
        .bind(solution.hardware.as_str())
        .bind(solution.problem.as_str());
            let done: Vec<WorkRow> = self.read_all(update).await?;
            for row in done {
                let NewWork { problem, purpose, seconds, .. } = row.work()?;
                if counts
                    && ![Purpose::Confirm, Purpose::Again].contains(&purpose)
                    && (is_to_be_confirmed(&problem) || self.leads(solution, &problem).await?)
                {
                    // A sample has the best configs, and no others need to be confirmed.
                    let confirm =
                        NewWork { problem, purpose: Purpose::Confirm, breadth: Breadth::Sample, seconds };
                    let whom = Whom { but: Some(contributor), ..Whom::default() };
                    self.add_work(&solution.hardware, [&confirm], whom).await?;
                }
            }
        }
        if !counts {
            self.reopen_work_for_others(&upload.id).await?;
        }
        self.end_lease_if_complete(lease).await
    }

    async fn end_lease_if_complete(&mut self, lease: &LeaseId) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE leases SET state = 'done', ended = $1 WHERE id = $2 AND state = 'active' \
             AND NOT EXISTS (SELECT 1 FROM work WHERE lease = $2 AND state = 'leased')",
        )
        .bind(Now::read().millis())
        .bind(lease.as_str());
        self.execute(update).await?;
        Ok(())
    }

    /// The lease of the agent, renewed.
    async fn resume_lease(&mut self, wish: &LeaseWish<'_>, now: Now) -> StoreResult<Option<LeasedWork>> {
        let update =
            Statement::new("UPDATE leases SET until = $1 WHERE agent = $2 AND state = 'active' RETURNING id")
                .bind(now.lease_end(AGENT_LEASE))
                .bind(wish.agent.id.as_str());
        let Some((id,)) = self.fetch_optional::<(String,)>(update).await? else { return Ok(None) };
        let id: LeaseId = parse("lease id", id)?;
        let select = Statement::new(WorkRow::SELECT)
            .push(" WHERE state = 'leased' AND lease = ")
            .push_bind(id.as_str())
            .push(" ORDER BY rank, wishes DESC, position");
        let rows: Vec<WorkRow> = self.read_all(select).await?;
        let work: Vec<NewWork> = rows.into_iter().map(WorkRow::work).collect::<Result<_, _>>()?;
        Ok(Some(LeasedWork { id, work }))
    }

    /// The work that people and models ask for, as far as this agent can measure it.
    async fn asked_work(&mut self, wish: &LeaseWish<'_>, lock: &'static str) -> StoreResult<Vec<WorkRow>> {
        let select = push_waiting(Statement::new(WorkRow::SELECT), wish.agent, wish.seconds)
            .push(" AND rank > ")
            .push_bind(FIRST_RANK)
            .push(" AND rank < ")
            .push_bind(LAST_RANK)
            .push(" ORDER BY rank, wishes DESC, position LIMIT ")
            .push_bind(MOST_ASKED)
            .push(lock);
        self.read_all(select).await
    }

    /// How much planned work waits for an agent. Work that people or other agents ask for is not counted.
    pub(crate) async fn planned_for(
        &mut self,
        agent: &KnownAgent,
        seconds: f64,
        most: u64,
    ) -> StoreResult<u64> {
        let select = push_waiting(Statement::new("SELECT COUNT(*) FROM (SELECT 1 FROM work"), agent, seconds)
            // The order makes Postgres use the index. Otherwise Postgres would read the whole table to find enough rows.
            .push(" AND purpose IN ('hole', 'more') ORDER BY rank, wishes DESC, position LIMIT ")
            .push_bind(most)
            .push(") planned");
        let (count,): (i64,) = self.fetch_one(select).await?;
        Ok(unsigned("planned problems", count)?)
    }
}

/// The condition for waiting work that the agent can measure.
fn push_waiting(select: Statement, agent: &KnownAgent, seconds: f64) -> Statement {
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
