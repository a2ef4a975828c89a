use diode_core::api::Purpose;
use diode_core::ids::HardwareSlug;
use diode_core::{KernelVariant, Problem};

use crate::agents::plan::{Kind, rank};
use crate::solutions::Damaged;
use crate::store::agents::{NewWork, WorkFigures};
use crate::store::error::StoreResult;
use crate::store::sql::connection::Connection;
use crate::store::sql::fields::{from_json, json, named, unsigned};
use crate::store::sql::from_row::from_row;
use crate::store::sql::inserts::ROWS_PER_STATEMENT;
use crate::store::sql::statement::{Statement, Value};

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

    pub(super) fn work(self) -> Result<NewWork, Damaged> {
        Ok(NewWork {
            problem: from_json("problem", &self.fields)?,
            purpose: named("purpose", &self.purpose)?,
            breadth: named("breadth", &self.breadth)?,
            seconds: self.seconds,
        })
    }
}

/// `measured_by` is who must not get it.
pub(super) async fn add(
    db: &mut impl Connection,
    hardware: &HardwareSlug,
    work: &[NewWork],
    measured_by: Option<&str>,
) -> StoreResult<u64> {
    let row = |new: &NewWork| -> Result<[Value; 15], Damaged> {
        let NewWork { problem, purpose, breadth, seconds } = new;
        // What the plan does not know has no kind, but may be wanted.
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
            measured_by.into(),
            "waiting".into(),
            KernelVariant::of(problem).map(|variant| variant.to_string()).unwrap_or_default().into(),
        ])
    };
    let mut added = 0;
    for chunk in work.chunks(ROWS_PER_STATEMENT) {
        let insert = Statement::new(
            "INSERT INTO work (hardware, problem, fields, op, dtype, b_layout, aligned, bytes, purpose, rank, \
             breadth, seconds, measured_by, state, variant)",
        )
        .push_rows(chunk.iter().map(row).collect::<Result<Vec<_>, _>>()?)
        .push(" ON CONFLICT DO NOTHING");
        added += db.execute(insert).await?;
    }
    Ok(added)
}

/// What agents have measured, but is there no more.
pub(super) async fn reopen_removed(db: &mut impl Connection, hardware: &HardwareSlug) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE work SET state = 'waiting', lease = NULL WHERE hardware = $1 \
         AND (state = 'done' AND upload IS NULL OR state = 'leased' AND lease IS NULL)",
    );
    db.execute(update.bind(hardware.as_str())).await?;
    Ok(())
}

pub(super) async fn known(db: &mut impl Connection, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
    let select = Statement::new("SELECT fields FROM work WHERE hardware = $1").bind(hardware.as_str());
    let planned: Vec<(String,)> = db.fetch_all(select).await?;
    let mut known = measured(db, hardware).await?;
    for (fields,) in planned {
        known.push(from_json("problem", &fields)?);
    }
    Ok(known)
}

/// Problems with a solution that counts.
pub(super) async fn measured(db: &mut impl Connection, hardware: &HardwareSlug) -> StoreResult<Vec<Problem>> {
    let select = Statement::new(
        "SELECT fields FROM problems WHERE id IN \
         (SELECT problem FROM solutions WHERE hardware = $1 AND standing = 0)",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(hardware.as_str())).await?;
    Ok(rows.iter().map(|(fields,)| from_json("problem", fields)).collect::<Result<_, _>>()?)
}

pub(super) async fn figures(db: &mut impl Connection, hardware: &HardwareSlug) -> StoreResult<WorkFigures> {
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
