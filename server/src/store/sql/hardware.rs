use diode_core::hardware::Hardware;

use super::connection::Connection;
use super::fields::{from_json, json, named, parse};
use super::from_row::from_row;
use super::statement::Statement;
use crate::solutions::Damaged;
use crate::store::error::StoreResult;

pub(super) struct HardwareRow {
    slug: String,
    name: String,
    vendor: String,
    facts: Option<String>,
}

from_row!(HardwareRow { slug, name, vendor, facts });

impl HardwareRow {
    pub(super) fn hardware(self) -> Result<Hardware, Damaged> {
        Ok(Hardware {
            slug: parse("hardware slug", self.slug)?,
            name: self.name,
            vendor: named("vendor", &self.vendor)?,
            facts: self.facts.map(|facts| from_json("hardware facts", &facts)).transpose()?,
        })
    }
}

/// Makes the hardware known, and keeps other uploads for it waiting until this
/// transaction ends. Returns what is stored then, and `true` if it had been
/// stored without facts and now has some: then everything computed from facts
/// is out of date.
pub(super) async fn upsert<C: Connection>(
    db: &mut C,
    given: &Hardware,
    updated_at: &str,
) -> StoreResult<(Hardware, bool)> {
    insert(db, given).await?;
    let select = Statement::new("SELECT slug, name, vendor, facts FROM hardware WHERE slug = $1")
        .bind(given.slug.as_str())
        .push(C::LOCK_ROW);
    let stored: HardwareRow = db.fetch_one(select).await?;
    let mut stored = stored.hardware()?;
    let update =
        Statement::new("UPDATE hardware SET updated_at = $1, facts = COALESCE(facts, $2) WHERE slug = $3")
            .bind(updated_at)
            .bind(facts(given)?)
            .bind(given.slug.as_str());
    db.execute(update).await?;
    let has_new_facts = stored.facts.is_none() && given.facts.is_some();
    stored.facts = stored.facts.or(given.facts);
    Ok((stored, has_new_facts))
}

pub(super) async fn insert(db: &mut impl Connection, hardware: &Hardware) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO hardware (slug, name, vendor, facts) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(hardware.slug.as_str())
    .bind(hardware.name.as_str())
    .bind(hardware.vendor.as_str())
    .bind(facts(hardware)?);
    db.execute(insert).await?;
    Ok(())
}

fn facts(hardware: &Hardware) -> Result<Option<String>, Damaged> {
    hardware.facts.map(|facts| json("hardware facts", &facts)).transpose()
}
