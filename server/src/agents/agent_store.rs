//! Agents in the database, and the drivers under which they measure.

use diode_api::{Agent, Breadth, LeaseState, Purpose, Registration};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, AgentId, HardwareSlug, LeaseId};

use crate::agents::plan::expected_seconds;
use crate::agents::work_store::{NewWork, Whom, WorkRow};
use crate::store::Store;
use crate::store::connection::{Connection, in_transaction};
use crate::store::fields::{from_json, json, named, optional, parse, readable_row, rfc3339, unsigned};
use crate::store::statement::Statement;
use crate::store::upkeep::CheckedRows;
use crate::store::{Now, StoreError, StoreResult};
use crate::uploads::solutions::Damaged;

/// How many refused results it takes until an agent gets no more work.
pub const MAX_REFUSED_RESULTS: u64 = 3;

/// The contributor that stands for all agents without an account.
pub(crate) const ANONYMOUS: &str = "anonymous";

/// What the server needs of an agent for each of its requests.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownAgent {
    pub id: AgentId,
    /// Why the agent gets no more work; `None` if it gets work.
    pub put_aside: Option<String>,
    /// `None` if the agent registered without an account.
    pub account: Option<AccountId>,
    pub registration: Registration,
}

impl KnownAgent {
    pub fn hardware(&self) -> &HardwareSlug {
        &self.registration.hardware.slug
    }

    /// The driver that the agent has stated.
    pub fn driver(&self) -> Option<&str> {
        driver_of(&self.registration)
    }

    /// The contributor of the agent's results. A confirmation needs another contributor. All agents without an
    /// account are one contributor, as anonymous uploads are: a second key does not show that there is a second
    /// person.
    pub fn contributor(&self) -> &str {
        self.account.as_ref().map_or(ANONYMOUS, AccountId::as_str)
    }
}

/// How many pieces of work are in memory at a time. Many agents together make millions a day.
const WORK_AT_ONCE: i64 = 10_000;

/// How many problems are measured again: enough to show a change of one percent. They take some minutes.
const SAMPLE: i64 = 32;

readable_row!(KnownAgent { id, account, registration: String, put_aside } => KnownAgent {
    id: parse("agent id", id)?,
    put_aside,
    account: optional("account id", account)?,
    registration: from_json("agent's registration", &registration)?,
});

const AGENT_COLUMNS: &str = "SELECT a.id, a.registration, a.registered_at, a.seen, a.put_aside, \
                             (SELECT COUNT(*) FROM leases l JOIN work w ON w.lease = l.id WHERE l.agent = \
                             a.id AND w.state = 'done') \
                             AS measured, (SELECT l.id FROM leases l WHERE l.agent = a.id AND l.state = \
                             'active') AS lease FROM agents a";

readable_row!(Agent {
    id, registration: String, registered_at, seen, put_aside, measured, lease
} => {
    let registration: Registration = from_json("agent's registration", &registration)?;
    Agent {
        id: parse("agent id", id)?,
        name: registration.name,
        simulated: registration.hardware.is_simulated(),
        hardware: registration.hardware.slug,
        tool: registration.tool,
        registered_at,
        seen_at: rfc3339("agent's last request", seen)?,
        put_aside,
        measured: unsigned("measured problems", measured)?,
        lease: optional("lease id", lease)?,
    }
});

impl Store {
    /// Adds an agent, or updates it. If its driver is new for the hardware and other agents have had another driver,
    /// some measured problems are queued again, for agents with the new driver.
    pub async fn register_agent(
        &self,
        id: &AgentId,
        account: Option<&AccountId>,
        registration: &Registration,
        now: Now,
    ) -> StoreResult<()> {
        in_transaction!(self, async |db| {
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
                Some(driver) => db.note_driver(&registration.hardware, driver).await,
                None => Ok(()),
            }
        })
    }

    /// One agent; `None` if there is none with this id.
    pub async fn agent(&self, id: &AgentId) -> StoreResult<Option<KnownAgent>> {
        self.reader().await?.find_agent(id).await
    }

    /// The public summary of an agent, with counts of all that it has measured; `None` if there is none with this id.
    pub async fn agent_summary(&self, id: &AgentId) -> StoreResult<Option<Agent>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(AGENT_COLUMNS).push(" WHERE a.id = ").push_bind(id.as_str());
        db.read_optional(select).await
    }

    /// How many agents have asked for something since this time.
    pub async fn agents_seen(&self, since: Now) -> StoreResult<u64> {
        let db = &mut self.reader().await?;
        let count = Statement::new("SELECT COUNT(*) FROM agents WHERE seen >= $1").bind(since.millis());
        let (count,): (i64,) = db.fetch_one(count).await?;
        Ok(unsigned("agents", count)?)
    }

    /// The agents of a hardware, or all agents. Agents that were seen last come first.
    pub async fn agents(&self, hardware: Option<&HardwareSlug>, limit: u32) -> StoreResult<Vec<Agent>> {
        let whose = hardware.map(|slug| ("hardware", slug.as_str()));
        self.reader().await?.list_agents(whose, limit).await
    }

    /// The agents of an account. Agents that were seen last come first.
    pub async fn agents_of(&self, account: &AccountId, limit: u32) -> StoreResult<Vec<Agent>> {
        self.reader().await?.list_agents(Some(("account", account.as_str())), limit).await
    }

    /// Stores that a result of an agent was refused. After [`MAX_REFUSED_RESULTS`] refused results the agent is put
    /// aside. Returns `true` if this result was the last of them.
    pub async fn note_refused_result(&self, agent: &AgentId, reason: &str) -> StoreResult<bool> {
        in_transaction!(self, async |db| {
            // The reason may quote the file. Postgres cannot store the character NUL.
            let reason = reason.replace('\0', "\u{fffd}");
            let update = Statement::new(
                "UPDATE agents SET refused = refused + 1, \
                 put_aside = CASE WHEN refused + 1 >= $1 THEN COALESCE(put_aside, $2) ELSE put_aside END \
                 WHERE id = \
                 $3 \
                 RETURNING refused",
            )
            .bind(MAX_REFUSED_RESULTS)
            .bind(format!("{MAX_REFUSED_RESULTS} of its results were refused, the last since: {reason}"))
            .bind(agent.as_str());
            let refused: Option<(i64,)> = db.fetch_optional(update).await?;
            let is_put_aside = refused.is_some_and(|(refused,)| refused == MAX_REFUSED_RESULTS.cast_signed());
            if is_put_aside {
                db.take_back_lease(agent, Now::read()).await?;
            }
            Ok(is_put_aside)
        })
    }
}

impl Connection {
    /// Reads every agent, lease and piece of work.
    pub(crate) async fn check_agents(&mut self, checked: &mut CheckedRows) -> StoreResult<()> {
        let ids: Vec<(String,)> = self.fetch_all(Statement::new("SELECT id FROM agents ORDER BY id")).await?;
        for (id,) in ids {
            let found = match AgentId::try_from(id.clone()) {
                Ok(agent) => self.find_agent(&agent).await.map(drop),
                Err(error) => Err(Damaged::new("agent id", error).into()),
            };
            match found {
                Err(StoreError::Damaged(damaged)) => checked.note("agent", &id, Err(damaged)),
                other => checked.note("agent", &id, Ok(other?)),
            }
        }
        let select = "SELECT id, state, taken, ended, problems FROM leases ORDER BY id";
        let leases: Vec<(String, String, i64, Option<i64>, i64)> =
            self.fetch_all(Statement::new(select)).await?;
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
            let work: Vec<WorkRow> = self.read_all(select).await?;
            let Some(last) = work.last() else { return Ok(()) };
            after = last.position;
            for row in work {
                let position = row.position;
                checked.note("work", &position, row.work().map(drop));
            }
        }
    }

    /// Stores the driver of a new agent. If other agents have measured under another driver, plans a sample of the
    /// measured problems for agents with the new driver.
    pub(crate) async fn note_driver(&mut self, hardware: &Hardware, driver: &str) -> StoreResult<()> {
        let slug = &hardware.slug;
        let insert =
            Statement::new("INSERT INTO drivers (hardware, driver) VALUES ($1, $2) ON CONFLICT DO NOTHING");
        if self.execute(insert.bind(slug.as_str()).bind(driver)).await? == 0 {
            return Ok(());
        }
        let others = Statement::new("SELECT COUNT(*) FROM drivers WHERE hardware = $1 AND driver <> $2");
        let (others,): (i64,) = self.fetch_one(others.bind(slug.as_str()).bind(driver)).await?;
        if others == 0 {
            return Ok(());
        }
        let work: Vec<NewWork> = self
            .sample_of_measured(slug)
            .await?
            .into_iter()
            .map(|problem| {
                let seconds = expected_seconds(hardware, &problem, Breadth::Sample);
                NewWork { problem, purpose: Purpose::Again, breadth: Breadth::Sample, seconds }
            })
            .collect();
        self.add_work(slug, &work, Whom { driver: Some(driver), ..Whom::default() }).await?;
        Ok(())
    }

    /// An even sample of the measured problems: those with the lowest ids. It is even because ids are hashes. As long
    /// as no problem is added, every driver gets the same sample.
    async fn sample_of_measured(&mut self, slug: &HardwareSlug) -> StoreResult<Vec<Problem>> {
        let select = Statement::new(
            "SELECT p.fields FROM problems p WHERE p.id IN \
             (SELECT DISTINCT problem FROM entries WHERE hardware = $1 ORDER BY problem LIMIT $2) ORDER BY \
             p.id",
        );
        let rows: Vec<(String,)> = self.fetch_all(select.bind(slug.as_str()).bind(SAMPLE)).await?;
        Ok(rows.iter().map(|(fields,)| from_json("problem", fields)).collect::<Result<_, Damaged>>()?)
    }

    /// Moves the agents of a hardware to the hardware that it was merged into.
    pub(crate) async fn move_agents(&mut self, from: &HardwareSlug, into: &Hardware) -> StoreResult<()> {
        let select = Statement::new("SELECT id, registration FROM agents WHERE hardware = $1 ORDER BY id");
        let rows: Vec<(String, String)> = self.fetch_all(select.bind(from.as_str())).await?;
        for (id, registration) in rows {
            let registration: Registration = from_json("agent's registration", &registration)?;
            let moved = Registration { hardware: into.clone(), ..registration };
            let update = Statement::new("UPDATE agents SET hardware = $1, registration = $2 WHERE id = $3")
                .bind(into.slug.as_str())
                .bind(json("agent's registration", &moved)?)
                .bind(id);
            self.execute(update).await?;
        }
        Ok(())
    }

    pub(crate) async fn find_agent(&mut self, id: &AgentId) -> StoreResult<Option<KnownAgent>> {
        let select = Statement::new("SELECT id, account, registration, put_aside FROM agents WHERE id = $1");
        self.read_optional(select.bind(id.as_str())).await
    }

    /// The agents whose column `of.0` has the value `of.1`; without `of`, all agents.
    pub(crate) async fn list_agents(
        &mut self,
        of: Option<(&'static str, &str)>,
        limit: u32,
    ) -> StoreResult<Vec<Agent>> {
        // The agents are chosen first, so that results are counted only for these.
        let mut select = Statement::new(AGENT_COLUMNS).push(" WHERE a.id IN (SELECT l.id FROM agents l");
        if let Some((column, value)) = of {
            select = select.push(" WHERE l.").push(column).push(" = ").push_bind(value);
        }
        select = select.push(" ORDER BY l.seen DESC, l.id LIMIT ").push_bind(i64::from(limit));
        select = select.push(") ORDER BY a.seen DESC, a.id");
        self.read_all(select).await
    }

    /// Gives work again to an agent that was put aside. `false` if there is no such agent, or it was not put aside.
    pub(crate) async fn readmit_agent(&mut self, agent: &AgentId) -> StoreResult<bool> {
        let update = Statement::new(
            "UPDATE agents SET put_aside = NULL, refused = 0 WHERE id = $1 AND put_aside IS NOT NULL",
        );
        Ok(self.execute(update.bind(agent.as_str())).await? == 1)
    }
}

pub(crate) fn driver_of(registration: &Registration) -> Option<&str> {
    registration.node.get("driver").map(String::as_str)
}
