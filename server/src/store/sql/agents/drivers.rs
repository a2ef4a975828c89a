//! Measures some problems again when a new driver appears.

use diode_api::{Breadth, Purpose};
use diode_core::Problem;
use diode_core::hardware::Hardware;
use diode_core::ids::HardwareSlug;

use super::work::{Whom, add};
use crate::agents::plan::expected_seconds;
use crate::solutions::Damaged;
use crate::store::agents::NewWork;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::from_json;
use crate::store::statement::Statement;

/// How many problems are measured again: enough to show a change of one percent. They take some minutes.
const SAMPLE: i64 = 32;

/// Stores the driver of a new agent. If other agents have measured under another driver, plans a sample of the
/// measured problems for agents with the new driver.
pub(super) async fn note(db: &mut Connection, hardware: &Hardware, driver: &str) -> StoreResult<()> {
    let slug = &hardware.slug;
    let insert =
        Statement::new("INSERT INTO drivers (hardware, driver) VALUES ($1, $2) ON CONFLICT DO NOTHING");
    if db.execute(insert.bind(slug.as_str()).bind(driver)).await? == 0 {
        return Ok(());
    }
    let others = Statement::new("SELECT COUNT(*) FROM drivers WHERE hardware = $1 AND driver <> $2");
    let (others,): (i64,) = db.fetch_one(others.bind(slug.as_str()).bind(driver)).await?;
    if others == 0 {
        return Ok(());
    }
    let work: Vec<NewWork> = sample(db, slug)
        .await?
        .into_iter()
        .map(|problem| {
            let seconds = expected_seconds(hardware, &problem, Breadth::Sample);
            NewWork { problem, purpose: Purpose::Again, breadth: Breadth::Sample, seconds }
        })
        .collect();
    add(db, slug, &work, Whom { driver: Some(driver), ..Whom::default() }).await?;
    Ok(())
}

/// An even sample of the measured problems: those with the lowest ids. It is even because ids are hashes. As long
/// as no problem is added, every driver gets the same sample.
async fn sample(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Vec<Problem>> {
    let select = Statement::new(
        "SELECT p.fields FROM problems p WHERE p.id IN \
         (SELECT DISTINCT problem FROM entries WHERE hardware = $1 ORDER BY problem LIMIT $2) ORDER BY p.id",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(slug.as_str()).bind(SAMPLE)).await?;
    Ok(rows.iter().map(|(fields,)| from_json("problem", fields)).collect::<Result<_, Damaged>>()?)
}
