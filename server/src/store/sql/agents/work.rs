use std::collections::HashSet;

use diode_api::Purpose;
use diode_core::ids::{AccountId, HardwareSlug, ProblemId, UploadId};
use diode_core::{KernelVariant, Problem};

use crate::agents::plan::{Kind, rank};
use crate::solutions::Damaged;
use crate::store::agents::{ANONYMOUS, NewWork, WorkFigures};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, named, unsigned};
use crate::store::from_row::from_row;
use crate::store::sql::inserts::ROWS_PER_STATEMENT;
use crate::store::statement::{Statement, Value};

pub(super) struct WorkRow {
    pub(super) position: i64,
    pub(super) fields: String,
    pub(super) purpose: String,
    pub(super) breadth: String,
    pub(super) seconds: f64,
}

from_row!(WorkRow { position, fields, purpose, breadth, seconds });

impl WorkRow {
    pub(super) const SELECT: &'static str = "SELECT position, fields, purpose, breadth, seconds FROM work";

    /// Whether the plan has brought this work. Otherwise people or agents have asked for it.
    pub(super) fn is_planned(&self) -> bool {
        [Purpose::Hole, Purpose::More].iter().any(|purpose| purpose.as_str() == self.purpose)
    }

    pub(super) fn is_hole(&self) -> bool {
        self.purpose == Purpose::Hole.as_str()
    }

    pub(super) fn work(self) -> Result<NewWork, Damaged> {
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
pub(super) struct Whom<'a> {
    /// The contributor that has measured the problem, and so must not get the work.
    pub(super) but: Option<&'a str>,
    /// The driver that an agent must have.
    pub(super) driver: Option<&'a str>,
}

pub(super) async fn add(
    db: &mut Connection,
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
            problem.bytes().into(),
            purpose.as_str().into(),
            rank(*purpose).into(),
            breadth.as_str().into(),
            (*seconds).into(),
            whom.but.into(),
            whom.driver.into(),
            "waiting".into(),
            KernelVariant::of(problem).map(|variant| variant.to_string()).unwrap_or_default().into(),
        ])
    };
    let mut added = 0;
    let rows = work.into_iter().map(row).collect::<Result<Vec<_>, _>>()?;
    for chunk in rows.chunks(ROWS_PER_STATEMENT) {
        let insert = Statement::new(
            "INSERT INTO work (hardware, problem, fields, op, dtype, b_layout, aligned, bytes, purpose, rank, \
             breadth, seconds, measured_by, driver, state, variant)",
        )
        .push_rows(chunk.to_vec())
        .push(" ON CONFLICT DO NOTHING");
        added += db.execute(insert).await?;
    }
    Ok(added)
}

/// Adds the problems of `work` that have no solution that counts.
pub(super) async fn add_unmeasured(
    db: &mut Connection,
    hardware: &HardwareSlug,
    work: &[NewWork],
) -> StoreResult<u64> {
    let new = unmeasured(db, hardware, work).await?;
    let wanted: Vec<_> = work.iter().filter(|new| new.purpose == Purpose::Wanted).collect();
    hasten(db, hardware, &wanted).await?;
    add(db, hardware, new, Whom::default()).await
}

/// If problems that somebody asks for wait already, moves them forward.
async fn hasten(db: &mut Connection, hardware: &HardwareSlug, wanted: &[&NewWork]) -> StoreResult<()> {
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
        db.execute(update).await?;
    }
    Ok(())
}

/// The work whose problems have no solution that counts.
async fn unmeasured<'w>(
    db: &mut Connection,
    hardware: &HardwareSlug,
    work: &'w [NewWork],
) -> StoreResult<Vec<&'w NewWork>> {
    let mut new = Vec::with_capacity(work.len());
    for chunk in work.chunks(ROWS_PER_STATEMENT) {
        let ids: Vec<ProblemId> = chunk.iter().map(|new| new.problem.id()).collect();
        let select =
            Statement::new("SELECT DISTINCT problem FROM solutions WHERE standing = 0 AND hardware = ")
                .push_bind(hardware.as_str())
                .push(" AND problem IN (")
                .push_list(ids.iter().map(ProblemId::as_str))
                .push(")");
        let rows: Vec<(String,)> = db.fetch_all(select).await?;
        let measured: HashSet<&str> = rows.iter().map(|(id,)| id.as_str()).collect();
        let unmeasured = chunk.iter().zip(&ids).filter(|(_, id)| !measured.contains(id.as_str()));
        new.extend(unmeasured.map(|(work, _)| work));
    }
    Ok(new)
}

/// Lets the work of an upload wait again. Called when the upload is quarantined, and before it is deleted.
pub(in crate::store::sql) async fn reopen_of_upload(
    db: &mut Connection,
    upload: &UploadId,
) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE work SET state = 'waiting', lease = NULL WHERE upload = $1 AND state = 'done'",
    );
    db.execute(update.bind(upload.as_str())).await?;
    Ok(())
}

/// Lets the work of an upload that does not count wait for other contributors. Confirmations are left out, because
/// a second contributor has made them.
pub(in crate::store::sql) async fn reopen_for_others(
    db: &mut Connection,
    upload: &UploadId,
) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE work SET state = 'waiting', lease = NULL, upload = NULL, \
         measured_by = COALESCE((SELECT account FROM uploads WHERE id = $1), $2) \
         WHERE upload = $1 AND state = 'done' AND purpose <> 'confirm'",
    );
    db.execute(update.bind(upload.as_str()).bind(ANONYMOUS)).await?;
    Ok(())
}

/// Lets the work that the agents of an account have leased wait again. Called before the account is deleted. The
/// locks keep the agents from taking another lease.
pub(in crate::store::sql) async fn reopen_of_account(
    db: &mut Connection,
    account: &AccountId,
) -> StoreResult<()> {
    for rows in [
        "SELECT id FROM agents WHERE account = $1 ORDER BY id",
        "SELECT id FROM leases WHERE state = 'active' AND agent IN (SELECT id FROM agents WHERE account = $1) \
         ORDER BY id",
    ] {
        let lock = Statement::new(rows).bind(account.as_str()).push(db.lock_row());
        let _locked: Vec<(String,)> = db.fetch_all(lock).await?;
    }
    let update = Statement::new(
        "UPDATE work SET state = 'waiting' WHERE state = 'leased' AND lease IN \
         (SELECT l.id FROM leases l JOIN agents a ON a.id = l.agent WHERE a.account = $1)",
    );
    db.execute(update.bind(account.as_str())).await?;
    Ok(())
}

/// The problems with a solution that counts.
pub(super) async fn measured(db: &mut Connection, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
    let select = Statement::new(
        "SELECT fields FROM problems WHERE id IN \
         (SELECT problem FROM solutions WHERE hardware = $1 AND standing = 0)",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(hardware.as_str())).await?;
    Ok(rows.iter().map(|(fields,)| from_json("problem", fields)).collect::<Result<_, _>>()?)
}

pub(super) async fn figures(db: &mut Connection, hardware: &HardwareSlug) -> StoreResult<WorkFigures> {
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

/// The waiting work, in the order in which agents get it.
pub(in crate::store::sql) async fn waiting(
    db: &mut Connection,
    hardware: &HardwareSlug,
    limit: u32,
) -> StoreResult<Vec<NewWork>> {
    let select = Statement::new(WorkRow::SELECT)
        .push(" WHERE state = 'waiting' AND hardware = ")
        .push_bind(hardware.as_str())
        .push(" ORDER BY rank, position LIMIT ")
        .push_bind(i64::from(limit));
    let rows: Vec<WorkRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(WorkRow::work).collect::<Result<_, _>>()?)
}
