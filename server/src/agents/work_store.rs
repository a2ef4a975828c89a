//! Work: the problems that are to be measured, are being measured, or have been.

use std::collections::{HashMap, HashSet};

use diode_api::{Breadth, Measuring, MeasuringState, Purpose};
use diode_core::ids::{AccountId, HardwareSlug, ProblemId, UploadId};
use diode_core::{KernelVariant, Problem};

use crate::agents::agent_store::ANONYMOUS;
use crate::agents::plan::{Kind, rank};
use crate::store::Store;
use crate::store::connection::{Connection, in_transaction};
use crate::store::fields::{from_json, json, named, parse, readable_row, unsigned};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement, Value};
use crate::store::{Now, StoreResult};
use crate::uploads::solutions::Damaged;

/// How many planned problems, and how many other measured problems, are read at a time.
const READ_AT_ONCE: i64 = 5_000;

/// A problem to measure.
#[derive(Debug, Clone, PartialEq)]
pub struct NewWork {
    pub problem: Problem,
    pub purpose: Purpose,
    pub breadth: Breadth,
    pub seconds: f64,
}

/// How far the known problems of a hardware have been read. The plan need not ask for these problems.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadUpTo {
    /// The last position that was read. Problems that are planned later have a higher position.
    pub planned: i64,
    pub measured: MeasuredUpTo,
}

/// How far the problems that were measured without the plan have been read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum MeasuredUpTo {
    #[default]
    Nothing,
    Problem(ProblemId),
    /// All problems that were measured before the reading reached its end. Problems that are measured later are not
    /// read.
    Everything,
}

/// Some of the known problems of a hardware.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ProblemsRead {
    pub problems: Vec<Problem>,
    pub read: ReadUpTo,
    /// Whether all known problems have been read for now.
    pub is_all: bool,
}

/// How much work there is on a hardware.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct WorkFigures {
    pub waiting: u64,
    pub leased: u64,
    pub confirmed: u64,
}

readable_row!(Measuring { problem, state: String, purpose: String, reason } => Measuring {
    problem: parse("problem id", problem)?,
    state: named("state", &state)?,
    purpose: Some(named("purpose", &purpose)?),
    reason,
});

pub(crate) struct WorkRow {
    pub(crate) position: i64,
    pub(crate) fields: String,
    pub(crate) purpose: String,
    pub(crate) breadth: String,
    pub(crate) seconds: f64,
}

readable_row!(WorkRow { position, fields, purpose, breadth, seconds });

impl WorkRow {
    pub(crate) const SELECT: &'static str = "SELECT position, fields, purpose, breadth, seconds FROM work";

    /// Whether the plan has brought this work. Otherwise people or agents have asked for it.
    pub(crate) fn is_planned(&self) -> bool {
        [Purpose::Hole, Purpose::More].iter().any(|purpose| purpose.as_str() == self.purpose)
    }

    pub(crate) fn is_hole(&self) -> bool {
        self.purpose == Purpose::Hole.as_str()
    }

    pub(crate) fn work(self) -> Result<NewWork, Damaged> {
        Ok(NewWork {
            problem: from_json("problem", &self.fields)?,
            purpose: named("purpose", &self.purpose)?,
            breadth: named("breadth", &self.breadth)?,
            seconds: self.seconds,
        })
    }
}

/// Which agents may get the work.
#[derive(Clone, Copy, Default)]
pub(crate) struct Whom<'a> {
    /// The contributor that has measured the problem, and so must not get the work.
    pub(crate) but: Option<&'a str>,
    /// The driver that an agent must have.
    pub(crate) driver: Option<&'a str>,
}

impl Store {
    /// The next part of the known problems of a hardware, measured or planned. The parts have a limited size.
    pub async fn known_problems(
        &self,
        hardware: &HardwareSlug,
        after: &ReadUpTo,
    ) -> StoreResult<ProblemsRead> {
        let db = &mut self.read_transaction().await?;
        let mut known = ProblemsRead { problems: Vec::new(), read: after.clone(), is_all: false };
        let planned = db.read_planned(hardware, &mut known).await?;
        let measured = db.read_measured(hardware, &mut known).await?;
        known.is_all = planned && measured;
        Ok(known)
    }

    /// The problems of a hardware that have a solution that counts.
    pub async fn measured_problems(&self, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT fields FROM problems WHERE id IN \
             (SELECT problem FROM solutions WHERE hardware = $1 AND standing = 0)",
        );
        let rows: Vec<(String,)> = db.fetch_all(select.bind(hardware.as_str())).await?;
        Ok(rows.iter().map(|(fields,)| from_json("problem", fields)).collect::<Result<_, _>>()?)
    }

    /// Adds work, except for problems that are planned or measured already. Returns how many were added.
    pub async fn add_work(&self, hardware: &HardwareSlug, work: &[NewWork]) -> StoreResult<u64> {
        in_transaction!(self, async |db| {
            let new = db.unmeasured_work(hardware, work).await?;
            let wanted: Vec<_> = work.iter().filter(|new| new.purpose == Purpose::Wanted).collect();
            db.hasten_work(hardware, &wanted).await?;
            db.add_work(hardware, new, Whom::default()).await
        })
    }

    /// Asks for problems for a contributor, which counts once for each. Of the problems that are asked for, agents get
    /// those first that most contributors ask for. Returns how many of them are not measured.
    pub async fn ask_for_work(
        &self,
        hardware: &HardwareSlug,
        work: &[NewWork],
        contributor: &str,
    ) -> StoreResult<u64> {
        in_transaction!(self, async |db| {
            let new = db.unmeasured_work(hardware, work).await?;
            db.hasten_work(hardware, &new).await?;
            db.add_work(hardware, new.iter().copied(), Whom::default()).await?;
            db.count_wishes(hardware, &new, contributor).await?;
            Ok(new.len() as u64)
        })
    }

    /// The state of some problems on a hardware, in their order. They must be few enough for one statement.
    pub async fn measuring(
        &self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
        now: Now,
    ) -> StoreResult<Vec<Measuring>> {
        let db = &mut self.read_transaction().await?;
        let measured = db.measured_among(hardware, problems).await?;
        // Work to confirm or repeat a measurement is left out, because its problem counts as measured. Work of an
        // expired lease counts as waiting, though the lease ends only when another agent asks.
        let select = Statement::new(
            "SELECT problem, CASE WHEN state = 'leased' AND EXISTS (SELECT 1 FROM leases \
             WHERE leases.id = work.lease AND leases.until < ",
        )
        .push_bind(now.millis())
        .push(
            ") THEN 'waiting' ELSE state END AS state, purpose, refusal AS reason FROM work \
             WHERE purpose NOT IN ('confirm', 'again') AND state <> 'done' AND hardware = ",
        )
        .push_bind(hardware.as_str())
        .push(" AND problem IN (")
        .push_list(problems.iter().map(ProblemId::as_str))
        .push(")");
        let rows: Vec<Measuring> = db.read_all(select).await?;
        let waiting: HashMap<ProblemId, Measuring> =
            rows.into_iter().map(|row| (row.problem.clone(), row)).collect();
        let told = |problem: &ProblemId| {
            let state = match waiting.get(problem) {
                _ if measured.contains(problem.as_str()) => MeasuringState::Measured,
                Some(row) => return row.clone(),
                None => MeasuringState::Unasked,
            };
            Measuring { problem: problem.clone(), state, purpose: None, reason: None }
        };
        Ok(problems.iter().map(told).collect())
    }

    /// How much work waits, is leased or is confirmed.
    pub async fn work_figures(&self, hardware: &HardwareSlug) -> StoreResult<WorkFigures> {
        let db = &mut self.read_transaction().await?;
        let select = Statement::new(
            "SELECT state, purpose, COUNT(*) FROM work WHERE hardware = $1 GROUP BY state, purpose",
        );
        let rows: Vec<(String, String, i64)> = db.fetch_all(select.bind(hardware.as_str())).await?;
        let mut figures = WorkFigures::default();
        for (state, purpose, count) in rows {
            let count = unsigned("number of problems", count)?;
            match state.as_str() {
                "waiting" => figures.waiting += count,
                "leased" => figures.leased += count,
                "done" if purpose == Purpose::Confirm.as_str() => figures.confirmed += count,
                _ => {}
            }
        }
        Ok(figures)
    }

    /// The work that agents get next.
    pub async fn waiting_work(&self, hardware: &HardwareSlug, limit: u32) -> StoreResult<Vec<NewWork>> {
        let db = &mut self.reader().await?;
        let select = Statement::new(WorkRow::SELECT)
            .push(" WHERE state = 'waiting' AND hardware = ")
            .push_bind(hardware.as_str())
            .push(" ORDER BY rank, wishes DESC, position LIMIT ")
            .push_bind(i64::from(limit));
        let rows: Vec<WorkRow> = db.read_all(select).await?;
        Ok(rows.into_iter().map(WorkRow::work).collect::<Result<_, _>>()?)
    }
}

impl Connection {
    /// Reads planned problems, measured or not. Returns whether these were the last.
    async fn read_planned(&mut self, hardware: &HardwareSlug, known: &mut ProblemsRead) -> StoreResult<bool> {
        let select = Statement::new(
            "SELECT position, fields FROM work WHERE hardware = $1 AND position > $2 ORDER BY position \
             LIMIT $3",
        );
        let select = select.bind(hardware.as_str()).bind(known.read.planned).bind(READ_AT_ONCE);
        let rows: Vec<(i64, String)> = self.fetch_all(select).await?;
        known.read.planned = rows.last().map_or(known.read.planned, |(position, _)| *position);
        let problems: Result<Vec<Problem>, Damaged> =
            rows.iter().map(|(_, fields)| from_json("problem", fields)).collect();
        known.problems.extend(problems?);
        Ok((rows.len() as i64) < READ_AT_ONCE)
    }

    /// Reads measured problems, except for planned ones. Returns whether these were the last.
    async fn read_measured(
        &mut self,
        hardware: &HardwareSlug,
        known: &mut ProblemsRead,
    ) -> StoreResult<bool> {
        let after = match &known.read.measured {
            MeasuredUpTo::Nothing => "",
            MeasuredUpTo::Problem(problem) => problem.as_str(),
            MeasuredUpTo::Everything => return Ok(true),
        };
        // The limit is in the inner query, before planned problems are left out. So no part takes long, even if it
        // gives few problems.
        let select = Statement::new(
            "SELECT measured.problem, (SELECT p.fields FROM problems p WHERE p.id = measured.problem AND \
             NOT EXISTS \
             (SELECT 1 FROM work w WHERE w.hardware = $1 AND w.problem = measured.problem)) AS fields FROM \
             (SELECT DISTINCT problem FROM solutions WHERE hardware = $1 AND standing = 0 AND problem > $2 \
             ORDER BY problem LIMIT $3) measured ORDER BY measured.problem",
        );
        let select = select.bind(hardware.as_str()).bind(after).bind(READ_AT_ONCE);
        let rows: Vec<(String, Option<String>)> = self.fetch_all(select).await?;
        let is_all = (rows.len() as i64) < READ_AT_ONCE;
        known.read.measured = match rows.last() {
            Some((last, _)) if !is_all => MeasuredUpTo::Problem(parse("problem id", last.clone())?),
            _ => MeasuredUpTo::Everything,
        };
        for fields in rows.into_iter().filter_map(|(_, fields)| fields) {
            known.problems.push(from_json("problem", &fields)?);
        }
        Ok(is_all)
    }

    pub(crate) async fn add_work(
        &mut self,
        hardware: &HardwareSlug,
        work: impl IntoIterator<Item = &NewWork>,
        whom: Whom<'_>,
    ) -> StoreResult<u64> {
        let row = |new: &NewWork| -> Result<[Value; 16], Damaged> {
            let NewWork { problem, purpose, breadth, seconds } = new;
            // A problem that the plan does not cover has no kind, but somebody may still want it.
            let aligned = Kind::of(problem).is_some_and(|kind| kind.aligned);
            Ok([
                hardware.as_str().into(),
                problem.id().as_str().into(),
                json("problem", problem)?.into(),
                problem.op.as_str().into(),
                problem.a_dtype.as_str().into(),
                problem.b_layout.as_str().into(),
                u64::from(aligned).into(),
                problem.memory().into(),
                purpose.as_str().into(),
                rank(*purpose).into(),
                breadth.as_str().into(),
                (*seconds).into(),
                whom.but.into(),
                whom.driver.into(),
                "waiting".into(),
                KernelVariant::for_problem(problem)
                    .map(|variant| variant.to_string())
                    .unwrap_or_default()
                    .into(),
            ])
        };
        let mut added = 0;
        let rows = work.into_iter().map(row).collect::<Result<Vec<_>, _>>()?;
        for chunk in rows.chunks(ROWS_PER_STATEMENT) {
            let insert = Statement::new(
                "INSERT INTO work (hardware, problem, fields, op, dtype, b_layout, aligned, bytes, purpose, \
                 rank, \
                 breadth, seconds, measured_by, driver, state, variant)",
            )
            .push_rows(chunk.to_vec())
            .push(" ON CONFLICT DO NOTHING");
            added += self.execute(insert).await?;
        }
        Ok(added)
    }

    /// If problems that somebody asks for wait already, moves them forward.
    async fn hasten_work(&mut self, hardware: &HardwareSlug, wanted: &[&NewWork]) -> StoreResult<()> {
        for chunk in wanted.chunks(ROWS_PER_STATEMENT) {
            let update = Statement::new("UPDATE work SET purpose = ")
                .push_bind(Purpose::Wanted.as_str())
                .push(", rank = ")
                .push_bind(rank(Purpose::Wanted))
                .push(" WHERE state = 'waiting' AND purpose IN ('hole', 'weak', 'more') AND hardware = ")
                .push_bind(hardware.as_str())
                .push(" AND problem IN (")
                .push_list(chunk.iter().map(|new| new.problem.id()).map(|id| id.as_str().to_owned()))
                .push(")");
            self.execute(update).await?;
        }
        Ok(())
    }

    /// Notes who asks for problems that wait or are being measured.
    async fn count_wishes(
        &mut self,
        hardware: &HardwareSlug,
        wanted: &[&NewWork],
        contributor: &str,
    ) -> StoreResult<()> {
        for chunk in wanted.chunks(ROWS_PER_STATEMENT) {
            let of_chunk = |statement: Statement| {
                let ids = chunk.iter().map(|new| new.problem.id().as_str().to_owned());
                statement
                    .push(" WHERE purpose NOT IN ('confirm', 'again') AND state IN ('waiting', 'leased') AND hardware = ")
                    .push_bind(hardware.as_str())
                    .push(" AND problem IN (")
                    .push_list(ids)
                    .push(")")
            };
            let insert = Statement::new("INSERT INTO wishes (work, contributor) SELECT position, ")
                .push_bind(contributor)
                .push(" FROM work");
            self.execute(of_chunk(insert).push(" ON CONFLICT DO NOTHING")).await?;
            let count =
                "UPDATE work SET wishes = (SELECT COUNT(*) FROM wishes w WHERE w.work = work.position)";
            self.execute(of_chunk(Statement::new(count))).await?;
        }
        Ok(())
    }

    /// The work whose problems have no solution that counts.
    async fn unmeasured_work<'w>(
        &mut self,
        hardware: &HardwareSlug,
        work: &'w [NewWork],
    ) -> StoreResult<Vec<&'w NewWork>> {
        let mut new = Vec::with_capacity(work.len());
        for chunk in work.chunks(ROWS_PER_STATEMENT) {
            let ids: Vec<ProblemId> = chunk.iter().map(|new| new.problem.id()).collect();
            let measured = self.measured_among(hardware, &ids).await?;
            let unmeasured = chunk.iter().zip(&ids).filter(|(_, id)| !measured.contains(id.as_str()));
            new.extend(unmeasured.map(|(work, _)| work));
        }
        Ok(new)
    }

    /// Which of these problems have a solution that counts.
    pub(crate) async fn measured_among(
        &mut self,
        hardware: &HardwareSlug,
        problems: &[ProblemId],
    ) -> StoreResult<HashSet<String>> {
        let select =
            Statement::new("SELECT DISTINCT problem FROM solutions WHERE standing = 0 AND hardware = ")
                .push_bind(hardware.as_str())
                .push(" AND problem IN (")
                .push_list(problems.iter().map(ProblemId::as_str))
                .push(")");
        let rows: Vec<(String,)> = self.fetch_all(select).await?;
        Ok(rows.into_iter().map(|(problem,)| problem).collect())
    }

    /// Lets the work of an upload wait again. Called when the upload is quarantined, and before it is deleted.
    pub(crate) async fn reopen_work_of_upload(&mut self, upload: &UploadId) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE work SET state = 'waiting', lease = NULL WHERE upload = $1 AND state = 'done'",
        );
        self.execute(update.bind(upload.as_str())).await?;
        Ok(())
    }

    /// Lets the work of an upload that does not count wait for other contributors. Confirmations are left out, because
    /// a second contributor has made them.
    pub(crate) async fn reopen_work_for_others(&mut self, upload: &UploadId) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE work SET state = 'waiting', lease = NULL, upload = NULL, \
             measured_by = COALESCE((SELECT account FROM uploads WHERE id = $1), $2) \
             WHERE upload = $1 AND state = 'done' AND purpose <> 'confirm'",
        );
        self.execute(update.bind(upload.as_str()).bind(ANONYMOUS)).await?;
        Ok(())
    }

    /// Lets the work that the agents of an account have leased wait again. Called before the account is deleted. The
    /// locks keep the agents from taking another lease.
    pub(crate) async fn reopen_work_of_account(&mut self, account: &AccountId) -> StoreResult<()> {
        for rows in [
            "SELECT id FROM agents WHERE account = $1 ORDER BY id",
            "SELECT id FROM leases WHERE state = 'active' AND agent IN (SELECT id FROM agents WHERE account \
             = $1) \
             ORDER BY id",
        ] {
            let lock = Statement::new(rows).bind(account.as_str()).push(self.lock_row());
            let _locked: Vec<(String,)> = self.fetch_all(lock).await?;
        }
        let update = Statement::new(
            "UPDATE work SET state = 'waiting' WHERE state = 'leased' AND lease IN \
             (SELECT l.id FROM leases l JOIN agents a ON a.id = l.agent WHERE a.account = $1)",
        );
        self.execute(update.bind(account.as_str())).await?;
        Ok(())
    }
}
