//! The problems that the plan need not ask for. They are read in parts, because many agents together make
//! millions a day.

use diode_core::Problem;
use diode_core::ids::HardwareSlug;

use crate::solutions::Damaged;
use crate::store::agents::{KnownProblems, MeasuredUpTo, ReadUpTo};
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, parse};
use crate::store::statement::Statement;

/// How many planned problems, and how many other measured problems, are read at a time.
const AT_ONCE: i64 = 5_000;

/// `db` must be a transaction whose queries all see the same state.
pub(super) async fn read(
    db: &mut Connection,
    hardware: &HardwareSlug,
    after: &ReadUpTo,
) -> StoreResult<KnownProblems> {
    let mut known = KnownProblems { problems: Vec::new(), read: after.clone(), is_all: false };
    let planned = read_planned(db, hardware, &mut known).await?;
    let measured = read_measured(db, hardware, &mut known).await?;
    known.is_all = planned && measured;
    Ok(known)
}

/// Reads planned problems, measured or not. Returns whether these were the last.
async fn read_planned(
    db: &mut Connection,
    hardware: &HardwareSlug,
    known: &mut KnownProblems,
) -> StoreResult<bool> {
    let select = Statement::new(
        "SELECT position, fields FROM work WHERE hardware = $1 AND position > $2 ORDER BY position LIMIT $3",
    );
    let select = select.bind(hardware.as_str()).bind(known.read.planned).bind(AT_ONCE);
    let rows: Vec<(i64, String)> = db.fetch_all(select).await?;
    known.read.planned = rows.last().map_or(known.read.planned, |(position, _)| *position);
    let problems: Result<Vec<Problem>, Damaged> =
        rows.iter().map(|(_, fields)| from_json("problem", fields)).collect();
    known.problems.extend(problems?);
    Ok((rows.len() as i64) < AT_ONCE)
}

/// Reads measured problems, except for planned ones. Returns whether these were the last.
async fn read_measured(
    db: &mut Connection,
    hardware: &HardwareSlug,
    known: &mut KnownProblems,
) -> StoreResult<bool> {
    let after = match &known.read.measured {
        MeasuredUpTo::Nothing => "",
        MeasuredUpTo::Problem(problem) => problem.as_str(),
        MeasuredUpTo::Everything => return Ok(true),
    };
    // The limit is in the inner query, before planned problems are left out. So no part takes long, even if it
    // gives few problems.
    let select = Statement::new(
        "SELECT measured.problem, (SELECT p.fields FROM problems p WHERE p.id = measured.problem AND NOT EXISTS \
         (SELECT 1 FROM work w WHERE w.hardware = $1 AND w.problem = measured.problem)) AS fields FROM \
         (SELECT DISTINCT problem FROM solutions WHERE hardware = $1 AND standing = 0 AND problem > $2 \
          ORDER BY problem LIMIT $3) measured ORDER BY measured.problem",
    );
    let select = select.bind(hardware.as_str()).bind(after).bind(AT_ONCE);
    let rows: Vec<(String, Option<String>)> = db.fetch_all(select).await?;
    let is_all = (rows.len() as i64) < AT_ONCE;
    known.read.measured = match rows.last() {
        Some((last, _)) if !is_all => MeasuredUpTo::Problem(parse("problem id", last.clone())?),
        _ => MeasuredUpTo::Everything,
    };
    for fields in rows.into_iter().filter_map(|(_, fields)| fields) {
        known.problems.push(from_json("problem", &fields)?);
    }
    Ok(is_all)
}
