use std::collections::BTreeSet;

use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{Digest, HardwareSlug};

use super::stale_entries;
use crate::solutions::Damaged;
use crate::store::connection::{Connection, Lockable};
use crate::store::error::{StoreError, StoreResult};
use crate::store::fields::{from_json, json, named, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;
use crate::store::types::{KnownHardware, NewUpload};

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

/// A hardware, or the hardware that it was merged into; `None` if it is unknown.
pub(super) async fn find(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
    let select = Statement::new("SELECT slug, name, vendor, facts FROM hardware WHERE slug = ");
    let row: Option<HardwareRow> = db.fetch_optional(push_resolved(select, slug)).await?;
    Ok(row.map(HardwareRow::hardware).transpose()?)
}

/// Adds the slug of the hardware that this one was merged into. If there is none, adds `slug`.
pub(super) fn push_resolved(statement: Statement, slug: &HardwareSlug) -> Statement {
    statement
        .push("COALESCE((SELECT merged_into FROM hardware WHERE slug = ")
        .push_bind(slug.as_str())
        .push("), ")
        .push_bind(slug.as_str())
        .push(")")
}

struct KnownRow {
    hardware: HardwareRow,
    confirmed: i64,
}

from_row!(KnownRow { confirmed, ..hardware });

pub(super) async fn known(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Option<KnownHardware>> {
    let select = Statement::new("SELECT slug, name, vendor, facts, confirmed FROM hardware WHERE slug = ");
    let row: Option<KnownRow> = db.fetch_optional(push_resolved(select, slug)).await?;
    let known = |row: KnownRow| -> Result<_, Damaged> {
        Ok(KnownHardware { hardware: row.hardware.hardware()?, confirmed: row.confirmed != 0 })
    };
    Ok(row.map(known).transpose()?)
}

/// Confirms the facts of a hardware. If `facts` is `None`, confirms the stored facts. `false` if the hardware is
/// unknown or has no facts. Everything that was computed from facts is then stale.
pub(super) async fn confirm(
    db: &mut Connection,
    slug: &HardwareSlug,
    given: Option<&Facts>,
) -> StoreResult<bool> {
    let Some(known) = lock(db, slug).await? else { return Ok(false) };
    let Some(facts) = given.copied().or(known.facts) else { return Ok(false) };
    let update =
        Statement::new("UPDATE hardware SET facts = $1, confirmed = 1, conflicts = 0 WHERE slug = $2")
            .bind(json("hardware facts", &facts)?)
            .bind(slug.as_str());
    db.execute(update).await?;
    stale_entries::add_all(db, slug).await?;
    changed(db, slug, "confirmed").await?;
    Ok(true)
}

/// Finds a hardware and locks it. Other transactions that change what belongs to it wait until this one ends.
pub(super) async fn lock(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
    db.claim(Lockable::Hardware(slug)).await?;
    let select = Statement::new("SELECT slug, name, vendor, facts FROM hardware WHERE slug = $1")
        .bind(slug.as_str())
        .push(db.lock_row());
    let row: Option<HardwareRow> = db.fetch_optional(select).await?;
    Ok(row.map(HardwareRow::hardware).transpose()?)
}

/// Locks several kinds of hardware, in an order that all transactions share. Otherwise two transactions could
/// deadlock.
pub(super) async fn lock_all(db: &mut Connection, slugs: &BTreeSet<HardwareSlug>) -> StoreResult<()> {
    for slug in slugs {
        lock(db, slug).await?;
    }
    Ok(())
}

/// Adds the hardware and locks it. The lock comes before anything refers to the hardware: if two transactions
/// referred to it first, neither could lock it afterwards.
pub(super) async fn insert_locked(db: &mut Connection, hardware: &Hardware) -> StoreResult<()> {
    db.claim(Lockable::Hardware(&hardware.slug)).await?;
    insert(db, hardware).await?;
    lock(db, &hardware.slug).await?;
    Ok(())
}

/// Raises the hardware's revision, which grows with each change of its entries.
pub(super) async fn bump(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<()> {
    let update = Statement::new("UPDATE hardware SET revision = revision + 1 WHERE slug = $1");
    db.execute(update.bind(slug.as_str())).await?;
    Ok(())
}

pub(super) async fn revision(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
    let select = Statement::new("SELECT revision FROM hardware WHERE slug = $1").bind(slug.as_str());
    let row: Option<(i64,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(revision,)| revision))
}

/// How often solutions of the hardware have started or stopped counting.
pub(super) async fn losses(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<u64> {
    let select = Statement::new("SELECT losses FROM hardware WHERE slug = $1").bind(slug.as_str());
    let row: Option<(i64,)> = db.fetch_optional(select).await?;
    Ok(row.map_or(Ok(0), |(losses,)| unsigned("number of losses", losses))?)
}

/// A text that stays the same as long as no upload changes the hardware's timings. `None` if the hardware is
/// unknown.
pub(super) async fn state(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Option<String>> {
    let select = Statement::new("SELECT state FROM hardware WHERE slug = $1").bind(slug.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.map(|(state,)| state))
}

struct KeptRow {
    hardware: HardwareRow,
    merged_into: Option<String>,
}

from_row!(KeptRow { merged_into, ..hardware });

/// Adds the hardware if it is new. Until this transaction ends, other transactions may add to it and change it, but
/// [`lock`] waits. Returns the hardware with the facts that will be stored. Fails if the hardware was merged into
/// another.
pub(super) async fn keep(db: &mut Connection, given: &Hardware) -> StoreResult<Hardware> {
    db.keep(Lockable::Hardware(&given.slug)).await?;
    let keep_row = db.keep_row();
    let select = || {
        let select =
            Statement::new("SELECT slug, name, vendor, facts, merged_into FROM hardware WHERE slug = ");
        select.push_bind(given.slug.as_str()).push(keep_row)
    };
    let mut row: Option<KeptRow> = db.fetch_optional(select()).await?;
    if row.is_none() {
        insert(db, given).await?;
        row = db.fetch_optional(select()).await?;
    }
    let row = row.ok_or(sqlx::Error::RowNotFound)?;
    if row.merged_into.is_some() {
        return Err(StoreError::Merged(given.slug.clone()));
    }
    let stored = row.hardware.hardware()?;
    Ok(Hardware { facts: stored.facts.or(given.facts), ..stored })
}

/// Stores that an upload has added solutions. Other uploads for the hardware wait from here on, so this comes last.
/// `used` has the facts that the upload's entries were computed from. Returns `false` if other facts have been
/// stored meanwhile. If there were no facts before, all entries become stale.
pub(super) async fn note_upload(
    db: &mut Connection,
    given: &Hardware,
    used: &Hardware,
    upload: &NewUpload,
) -> StoreResult<bool> {
    let select = Statement::new("SELECT facts, state FROM hardware WHERE slug = ");
    let select = select.push_bind(given.slug.as_str()).push(db.change_row());
    let (before, state): (Option<String>, String) = db.fetch_one(select).await?;
    let before: Option<Facts> = before.map(|facts| from_json("hardware facts", &facts)).transpose()?;
    let is_other = matches!((before, given.facts), (Some(a), Some(b)) if a != b);
    let update = Statement::new(
        "UPDATE hardware SET updated_at = $1, facts = COALESCE(facts, $2), state = $3, \
         revision = revision + 1, conflicts = conflicts + $4 WHERE slug = $5",
    )
    .bind(upload.received_at.as_str())
    .bind(facts(given)?)
    .bind(Digest::of(format!("{state}\n{}", upload.digest).as_bytes()).as_str())
    .bind(i64::from(is_other))
    .bind(given.slug.as_str());
    db.execute(update).await?;
    if before.is_none() && given.facts.is_some() {
        stale_entries::add_all(db, &given.slug).await?;
    }
    Ok(before.or(given.facts) == used.facts)
}

/// Stores that the set of solutions that count has changed. `what` distinguishes this change from others.
pub(super) async fn changed(db: &mut Connection, slug: &HardwareSlug, what: &str) -> StoreResult<()> {
    let before = state(db, slug).await?.unwrap_or_default();
    let after = Digest::of(format!("{before}\n{what}").as_bytes());
    let update = Statement::new(
        "UPDATE hardware SET state = $1, revision = revision + 1, losses = losses + 1 WHERE slug = $2",
    );
    db.execute(update.bind(after.as_str()).bind(slug.as_str())).await?;
    Ok(())
}

pub(super) async fn insert(db: &mut Connection, hardware: &Hardware) -> StoreResult<()> {
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
