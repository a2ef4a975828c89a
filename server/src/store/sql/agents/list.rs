use diode_api::{Agent, Registration};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, AgentId, HardwareSlug};

use super::{drivers, leases};

use crate::solutions::Damaged;
use crate::store::agents::{KnownAgent, MAX_REFUSED_RESULTS, driver_of};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, parse, rfc3339, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::Now;

struct KnownRow {
    id: String,
    account: Option<String>,
    registration: String,
    put_aside: Option<String>,
}

from_row!(KnownRow { id, account, registration, put_aside });

impl KnownRow {
    fn known(self) -> Result<KnownAgent, Damaged> {
        Ok(KnownAgent {
            id: parse("agent id", self.id)?,
            put_aside: self.put_aside,
            account: self.account.map(|id| parse("account id", id)).transpose()?,
            registration: from_json("agent's registration", &self.registration)?,
        })
    }
}

struct AgentRow {
    id: String,
    registration: String,
    registered_at: String,
    seen: i64,
    put_aside: Option<String>,
    measured: i64,
    lease: Option<String>,
}

from_row!(AgentRow { id, registration, registered_at, seen, put_aside, measured, lease });

const COLUMNS: &str = "SELECT a.id, a.registration, a.registered_at, a.seen, a.put_aside, \
     (SELECT COUNT(*) FROM leases l JOIN work w ON w.lease = l.id WHERE l.agent = a.id AND w.state = 'done') \
     AS measured, (SELECT l.id FROM leases l WHERE l.agent = a.id AND l.state = 'active') AS lease FROM agents a";

impl AgentRow {
    fn agent(self) -> Result<Agent, Damaged> {
        let registration: Registration = from_json("agent's registration", &self.registration)?;
        Ok(Agent {
            id: parse("agent id", self.id)?,
            name: registration.name.clone(),
            hardware: registration.hardware.slug.clone(),
            simulated: registration.hardware.is_simulated(),
            tool: registration.tool.clone(),
            registered_at: self.registered_at,
            seen_at: rfc3339("agent's last request", self.seen)?,
            put_aside: self.put_aside,
            measured: unsigned("measured problems", self.measured)?,
            lease: self.lease.map(|id| parse("lease id", id)).transpose()?,
        })
    }
}

pub(super) async fn register(
    db: &mut Connection,
    id: &AgentId,
    account: Option<&AccountId>,
    registration: &Registration,
    now: Now,
) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO agents (id, account, hardware, registration, registered_at, seen) \
         VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (id) DO UPDATE SET \
         hardware = excluded.hardware, registration = excluded.registration, seen = excluded.seen",
    )
    .bind(id.as_str())
    .bind(account.map(AccountId::as_str))
    .bind(registration.hardware.slug.as_str())
    .bind(json("agent's registration", registration)?)
    .bind(now.rfc3339())
    .bind(now.millis());
    db.execute(insert).await?;
    match driver_of(registration) {
        Some(driver) => drivers::note(db, &registration.hardware, driver).await,
        None => Ok(()),
    }
}

/// Moves the agents of a hardware to the hardware that it was merged into.
pub(in crate::store::sql) async fn move_to(
    db: &mut Connection,
    from: &HardwareSlug,
    into: &Hardware,
) -> StoreResult<()> {
    let select = Statement::new("SELECT id, registration FROM agents WHERE hardware = $1 ORDER BY id");
    let rows: Vec<(String, String)> = db.fetch_all(select.bind(from.as_str())).await?;
    for (id, registration) in rows {
        let registration: Registration = from_json("agent's registration", &registration)?;
        let moved = Registration { hardware: into.clone(), ..registration };
        let update = Statement::new("UPDATE agents SET hardware = $1, registration = $2 WHERE id = $3")
            .bind(into.slug.as_str())
            .bind(json("agent's registration", &moved)?)
            .bind(id);
        db.execute(update).await?;
    }
    Ok(())
}

pub(super) async fn find(db: &mut Connection, id: &AgentId) -> StoreResult<Option<KnownAgent>> {
    let select = Statement::new("SELECT id, account, registration, put_aside FROM agents WHERE id = $1");
    let row: Option<KnownRow> = db.fetch_optional(select.bind(id.as_str())).await?;
    Ok(row.map(KnownRow::known).transpose()?)
}

pub(super) async fn summary(db: &mut Connection, id: &AgentId) -> StoreResult<Option<Agent>> {
    let select = Statement::new(COLUMNS).push(" WHERE a.id = ").push_bind(id.as_str());
    let row: Option<AgentRow> = db.fetch_optional(select).await?;
    Ok(row.map(AgentRow::agent).transpose()?)
}

pub(super) async fn count_seen(db: &mut Connection, since: Now) -> StoreResult<u64> {
    let count = Statement::new("SELECT COUNT(*) FROM agents WHERE seen >= $1").bind(since.millis());
    let (count,): (i64,) = db.fetch_one(count).await?;
    Ok(unsigned("agents", count)?)
}

/// The agents whose column `of.0` has the value `of.1`; without `of`, all agents.
pub(super) async fn list(
    db: &mut Connection,
    of: Option<(&'static str, &str)>,
    limit: u32,
) -> StoreResult<Vec<Agent>> {
    // The agents are chosen first, so that results are counted only for these.
    let mut select = Statement::new(COLUMNS).push(" WHERE a.id IN (SELECT l.id FROM agents l");
    if let Some((column, value)) = of {
        select = select.push(" WHERE l.").push(column).push(" = ").push_bind(value);
    }
    select = select.push(" ORDER BY l.seen DESC, l.id LIMIT ").push_bind(i64::from(limit));
    select = select.push(") ORDER BY a.seen DESC, a.id");
    let rows: Vec<AgentRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(AgentRow::agent).collect::<Result<_, _>>()?)
}

pub(super) async fn note_refused_result(
    db: &mut Connection,
    agent: &AgentId,
    reason: &str,
) -> StoreResult<bool> {
    // The reason may quote the file. Postgres cannot store the character NUL.
    let reason = reason.replace('\0', "\u{fffd}");
    let update = Statement::new(
        "UPDATE agents SET refused = refused + 1, \
         put_aside = CASE WHEN refused + 1 >= $1 THEN COALESCE(put_aside, $2) ELSE put_aside END WHERE id = $3 \
         RETURNING refused",
    )
    .bind(MAX_REFUSED_RESULTS)
    .bind(format!("{MAX_REFUSED_RESULTS} of its results were refused, the last since: {reason}"))
    .bind(agent.as_str());
    let refused: Option<(i64,)> = db.fetch_optional(update).await?;
    let is_put_aside = refused.is_some_and(|(refused,)| refused == MAX_REFUSED_RESULTS.cast_signed());
    if is_put_aside {
        leases::take_back(db, agent, Now::read()).await?;
    }
    Ok(is_put_aside)
}

/// Gives work again to an agent that was put aside. `false` if there is no such agent, or it was not put aside.
pub(in crate::store::sql) async fn readmit(db: &mut Connection, agent: &AgentId) -> StoreResult<bool> {
    let update = Statement::new(
        "UPDATE agents SET put_aside = NULL, refused = 0 WHERE id = $1 AND put_aside IS NOT NULL",
    );
    Ok(db.execute(update.bind(agent.as_str())).await? == 1)
}
