//! How much had been measured when a training was last asked for.

use diode_core::Heuristic;
use diode_core::ids::HardwareSlug;

use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::unsigned;
use crate::store::statement::Statement;
use crate::store::types::Now;

/// Stores how much has been measured, because a training is asked for or a model arrives with its data.
pub(super) async fn mark(
    db: &mut Connection,
    hardware: &HardwareSlug,
    heuristic: Heuristic,
    now: Now,
) -> StoreResult<()> {
    let problems = measured(db, hardware).await?;
    let insert = Statement::new(
        "INSERT INTO training_marks (hardware, heuristic, problems, asked) VALUES ($1, $2, $3, $4) \
         ON CONFLICT (hardware, heuristic) DO UPDATE SET problems = excluded.problems, asked = excluded.asked",
    )
    .bind(hardware.as_str())
    .bind(heuristic.as_str())
    .bind(problems)
    .bind(now.millis());
    db.execute(insert).await?;
    Ok(())
}

/// How many problems of a hardware have a board entry.
pub(super) async fn measured(db: &mut Connection, hardware: &HardwareSlug) -> StoreResult<u64> {
    let select = Statement::new("SELECT COUNT(DISTINCT problem) FROM entries WHERE hardware = $1");
    let (problems,): (i64,) = db.fetch_one(select.bind(hardware.as_str())).await?;
    Ok(unsigned("problem count", problems)?)
}
