//! Hardware in the database: its facts, the locks and counts that all its uploads share, and its merge into another.

use std::collections::BTreeSet;

use diode_api::Reason;
use diode_core::hardware::{Facts, Hardware, find as listed};
use diode_core::ids::{Digest, HardwareSlug};

use crate::boards::consensus::ENTRY_VERSION;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Lockable, in_transaction};
use crate::store::fields::{from_json, json, named, parse, readable_row, unsigned};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};
use crate::uploads::solutions::Damaged;

/// Why one hardware is not merged into another.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotMerged {
    /// There is no hardware with this slug, or it was merged before.
    Unknown(HardwareSlug),
    /// The hardware would be merged into itself.
    Same,
    /// The hardware is in the catalogue, so it is a kind of its own.
    Listed,
    /// One hardware is simulated and the other is not.
    Simulated,
    /// How many jobs about the hardware wait or run.
    Busy(u64),
}

impl NotMerged {
    /// The reason in words, for the caller.
    pub(crate) fn explain(&self, from: &HardwareSlug, into: &HardwareSlug) -> String {
        match self {
            Self::Unknown(slug) => format!("no hardware `{slug}`; GET /api/v1/hardware lists what there is"),
            Self::Same => format!("into: got `{into}`, which is the same, expected another hardware"),
            Self::Listed => format!(
                "from: got `{from}`, which is in the catalogue and so a kind of its own, expected hardware that is not"
            ),
            Self::Simulated => {
                format!(
                    "into: got `{into}`; of `{from}` and `{into}`, one has made-up times and one has real ones"
                )
            }
            Self::Busy(jobs) => {
                format!("{jobs} jobs about `{from}` wait or run; cancel them or wait until they have ended")
            }
        }
    }
}

readable_row!(Hardware { slug, name, vendor: String, facts: Option<String> } => Hardware {
    slug: parse("hardware slug", slug)?,
    name,
    vendor: named("vendor", &vendor)?,
    facts: facts.map(|facts| from_json("hardware facts", &facts)).transpose()?,
});

readable_row!(KnownHardware { ..hardware: Hardware, confirmed: i64 } => KnownHardware {
    hardware,
    confirmed: confirmed != 0,
});

/// Moves the rows that refer to the first hardware to the other hardware.
const MOVED: [&str; 5] = [
    // Entries are computed anew for every problem that the first hardware has.
    "INSERT INTO stale_entries (hardware, problem, method) \
     SELECT DISTINCT $1, problem, method FROM solutions WHERE hardware = $2 ON CONFLICT DO NOTHING",
    "UPDATE solutions SET hardware = $1 WHERE hardware = $2",
    // Work is not moved if the other hardware has work for the same problem, so that nothing is measured twice.
    "UPDATE work SET hardware = $1 WHERE hardware = $2 AND NOT EXISTS (SELECT 1 FROM work o WHERE \
     o.hardware = $1 \
     AND o.problem = work.problem AND (o.purpose = 'confirm') = (work.purpose = 'confirm') \
     AND COALESCE(o.driver, '') = COALESCE(work.driver, ''))",
    "INSERT INTO drivers (hardware, driver) SELECT $1, driver FROM drivers WHERE hardware = $2 ON CONFLICT \
     DO NOTHING",
    "UPDATE hardware SET merged_into = $1 WHERE slug = $2 OR merged_into = $2",
];

/// Removes the first hardware's rows that were not moved.
const REMOVED: [&str; 7] = [
    "DELETE FROM work WHERE hardware = $1",
    "DELETE FROM drivers WHERE hardware = $1",
    "DELETE FROM entries WHERE hardware = $1",
    "DELETE FROM stale_entries WHERE hardware = $1",
    "DELETE FROM training_marks WHERE hardware = $1",
    // No page predicts with the models of this hardware any more.
    "DELETE FROM unseen_models WHERE model IN (SELECT id FROM models WHERE hardware = $1)",
    "UPDATE models SET state = 'earlier', pinned = 0 WHERE hardware = $1 AND state = 'published'",
];

/// Hardware as the store has it.
#[derive(Debug, Clone, PartialEq)]
pub struct KnownHardware {
    pub hardware: Hardware,
    /// Whether an administrator has confirmed the hardware's facts.
    pub confirmed: bool,
}

impl Store {
    /// A count that grows when problems of a hardware may have lost their solutions, for example by a quarantine. 0
    /// for hardware that nobody has measured.
    pub async fn losses(&self, hardware: &HardwareSlug) -> StoreResult<u64> {
        self.reader().await?.hardware_losses(hardware).await
    }

    /// Merges one hardware into another for good, and writes it to the log. The other hardware gets all timings of
    /// the first and its waiting work. It also gets uploads that arrive later under the first hardware's name. Boards
    /// follow within seconds. The models and snapshots of the first hardware stay, but none of its models is
    /// published any more. Returns how many solutions have moved.
    pub async fn merge_hardware(
        &self,
        from: &HardwareSlug,
        into: &HardwareSlug,
        reason: &Reason,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<u64, NotMerged>> {
        in_transaction!(self, async |db| {
    if from == into {
        return Ok(Err(NotMerged::Same));
    }
    db.lock_all_hardware(&BTreeSet::from([from.clone(), into.clone()])).await?;
    for slug in [from, into] {
        if db.find_hardware(slug).await?.is_none_or(|found| found.slug != *slug) {
            return Ok(Err(NotMerged::Unknown(slug.clone())));
        }
    }
    let [Some(gone), Some(stays)] = [db.find_hardware(from).await?, db.find_hardware(into).await?] else {
        return Ok(Err(NotMerged::Unknown(from.clone())));
    };
    if gone.is_simulated() != stays.is_simulated() {
        return Ok(Err(NotMerged::Simulated));
    }
    if listed(from.as_str()).is_some_and(|listed| listed.slug == *from) {
        return Ok(Err(NotMerged::Listed));
    }
    let jobs = db.open_jobs_of(from).await?;
    if jobs > 0 {
        return Ok(Err(NotMerged::Busy(jobs)));
    }
    let count = Statement::new("SELECT COUNT(*) FROM solutions WHERE hardware = $1");
    let (solutions,): (i64,) = db.fetch_one(count.bind(from.as_str())).await?;
    for sql in MOVED {
        db.execute(Statement::new(sql).bind(into.as_str()).bind(from.as_str())).await?;
    }
    db.rename_library(from, into).await?;
    for sql in REMOVED {
        db.execute(Statement::new(sql).bind(from.as_str())).await?;
    }
    db.move_agents(from, &stays).await?;
    let what = format!("merge hardware {from} into {into}");
    for slug in [from, into] {
        db.note_hardware_change(slug, &what).await?;
    }
    db.write_down(&what, reason, who, now).await?;
    Ok(Ok(unsigned("solution count", solutions)?))
}, if Ok(_))
    }

    /// The description of a hardware. Reads only one row.
    pub async fn hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
        self.reader().await?.find_hardware(slug).await
    }

    /// The description of a hardware, and whether an administrator has confirmed its facts.
    pub async fn known_hardware(&self, slug: &HardwareSlug) -> StoreResult<Option<KnownHardware>> {
        let db = &mut self.reader().await?;
        let select =
            Statement::new("SELECT slug, name, vendor, facts, confirmed FROM hardware WHERE slug = ");
        db.read_optional(push_resolved(select, slug)).await
    }

    /// A text that changes when the timings of a hardware change. It is the same on another server with the same
    /// timings. `None` for unknown hardware.
    pub async fn hardware_state(&self, slug: &HardwareSlug) -> StoreResult<Option<String>> {
        self.reader().await?.hardware_state(slug).await
    }

    /// A number that grows with each change of the hardware's entries. `None` for unknown hardware.
    pub async fn hardware_revision(&self, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
        self.reader().await?.hardware_revision(slug).await
    }
}

impl Connection {
    /// A hardware, or the hardware that it was merged into; `None` if it is unknown.
    pub(crate) async fn find_hardware(&mut self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
        let select = Statement::new("SELECT slug, name, vendor, facts FROM hardware WHERE slug = ");
        self.read_optional(push_resolved(select, slug)).await
    }

    /// Confirms the facts of a hardware. If `facts` is `None`, confirms the stored facts. `false` if the hardware is
    /// unknown or has no facts. Everything that was computed from facts is then stale.
    pub(crate) async fn confirm_facts(
        &mut self,
        slug: &HardwareSlug,
        given: Option<&Facts>,
    ) -> StoreResult<bool> {
        let Some(known) = self.lock_hardware(slug).await? else { return Ok(false) };
        let Some(facts) = given.copied().or(known.facts) else { return Ok(false) };
        let update =
            Statement::new("UPDATE hardware SET facts = $1, confirmed = 1, conflicts = 0 WHERE slug = $2")
                .bind(json("hardware facts", &facts)?)
                .bind(slug.as_str());
        self.execute(update).await?;
        self.mark_all_stale(slug).await?;
        self.note_hardware_change(slug, "confirmed").await?;
        Ok(true)
    }

    /// Finds a hardware and locks it. Other transactions that change what belongs to it wait until this one ends.
    pub(crate) async fn lock_hardware(&mut self, slug: &HardwareSlug) -> StoreResult<Option<Hardware>> {
        self.claim(Lockable::Hardware(slug)).await?;
        let select = Statement::new("SELECT slug, name, vendor, facts FROM hardware WHERE slug = $1")
            .bind(slug.as_str())
            .push(self.lock_row());
        self.read_optional(select).await
    }

    /// Locks several kinds of hardware, in an order that all transactions share. Otherwise two transactions could
    /// deadlock.
    pub(crate) async fn lock_all_hardware(&mut self, slugs: &BTreeSet<HardwareSlug>) -> StoreResult<()> {
        for slug in slugs {
            self.lock_hardware(slug).await?;
        }
        Ok(())
    }

    /// Adds the hardware and locks it. The lock comes before anything refers to the hardware: if two transactions
    /// referred to it first, neither could lock it afterwards.
    pub(crate) async fn insert_locked_hardware(&mut self, hardware: &Hardware) -> StoreResult<()> {
        self.claim(Lockable::Hardware(&hardware.slug)).await?;
        self.insert_hardware(hardware).await?;
        self.lock_hardware(&hardware.slug).await?;
        Ok(())
    }

    /// Raises the hardware's revision, which grows with each change of its entries. Comes after these changes.
    pub(crate) async fn bump_revision(&mut self, slug: &HardwareSlug) -> StoreResult<()> {
        let update = Statement::new("UPDATE hardware SET revision = revision + 1 WHERE slug = $1");
        self.execute(update.bind(slug.as_str())).await?;
        self.date_entries(slug).await
    }

    /// Notes at which revision the entries that this transaction has written changed: only now no other transaction can
    /// commit an earlier one.
    pub(crate) async fn date_entries(&mut self, slug: &HardwareSlug) -> StoreResult<()> {
        let update = Statement::new(
            "UPDATE entries SET changed = (SELECT revision FROM hardware WHERE slug = $1) \
             WHERE hardware = $1 AND changed = 0",
        );
        self.execute(update.bind(slug.as_str())).await?;
        Ok(())
    }

    pub(crate) async fn hardware_revision(&mut self, slug: &HardwareSlug) -> StoreResult<Option<i64>> {
        let select = Statement::new("SELECT revision FROM hardware WHERE slug = $1").bind(slug.as_str());
        let row: Option<(i64,)> = self.fetch_optional(select).await?;
        Ok(row.map(|(revision,)| revision))
    }

    /// How often solutions of the hardware have started or stopped counting.
    pub(crate) async fn hardware_losses(&mut self, slug: &HardwareSlug) -> StoreResult<u64> {
        let select = Statement::new("SELECT losses FROM hardware WHERE slug = $1").bind(slug.as_str());
        let row: Option<(i64,)> = self.fetch_optional(select).await?;
        Ok(row.map_or(Ok(0), |(losses,)| unsigned("number of losses", losses))?)
    }

    /// A text that stays the same as long as no upload changes the hardware's timings. `None` if the hardware is
    /// unknown.
    pub(crate) async fn hardware_state(&mut self, slug: &HardwareSlug) -> StoreResult<Option<String>> {
        let select = Statement::new("SELECT state FROM hardware WHERE slug = $1").bind(slug.as_str());
        let row: Option<(String,)> = self.fetch_optional(select).await?;
        Ok(row.map(|(state,)| state))
    }

    /// Stores that the set of solutions that count has changed. `what` distinguishes this change from others.
    pub(crate) async fn note_hardware_change(&mut self, slug: &HardwareSlug, what: &str) -> StoreResult<()> {
        let before = self.hardware_state(slug).await?.unwrap_or_default();
        let after = Digest::of(format!("{before}\n{what}").as_bytes());
        let update = Statement::new(
            "UPDATE hardware SET state = $1, revision = revision + 1, losses = losses + 1 WHERE slug = $2",
        );
        self.execute(update.bind(after.as_str()).bind(slug.as_str())).await?;
        Ok(())
    }

    pub(crate) async fn insert_hardware(&mut self, hardware: &Hardware) -> StoreResult<()> {
        let insert = Statement::new(
            "INSERT INTO hardware (slug, name, vendor, facts, entry_version) VALUES ($1, $2, $3, $4, $5) \
             ON CONFLICT DO NOTHING",
        )
        .bind(hardware.slug.as_str())
        .bind(hardware.name.as_str())
        .bind(hardware.vendor.as_str())
        .bind(facts_json(hardware)?)
        .bind(ENTRY_VERSION);
        self.execute(insert).await?;
        Ok(())
    }

    /// How many jobs about a hardware have not ended.
    async fn open_jobs_of(&mut self, slug: &HardwareSlug) -> StoreResult<u64> {
        // The request is JSON. JSON and LIKE write all characters of a slug unchanged.
        let count = Statement::new(
            "SELECT COUNT(*) FROM jobs WHERE state IN ('queued', 'running') AND request LIKE $1",
        )
        .bind(format!("%\"hardware\":\"{slug}\"%"));
        let (jobs,): (i64,) = self.fetch_one(count).await?;
        Ok(unsigned("job count", jobs)?)
    }

    /// The name of an upload's library begins with the hardware, so it changes with the merge.
    async fn rename_library(&mut self, from: &HardwareSlug, into: &HardwareSlug) -> StoreResult<()> {
        let name = |slug: &HardwareSlug| format!("{slug}@");
        let update = Statement::new(
            "UPDATE uploads SET library = $1 || SUBSTR(library, CAST($2 AS INTEGER)) WHERE library LIKE $3",
        )
        .bind(name(into))
        .bind(i64::try_from(name(from).len() + 1).map_err(|error| Damaged::new("slug", error))?)
        .bind(format!("{}%", name(from)));
        self.execute(update).await?;
        Ok(())
    }
}

/// Adds the slug of the hardware that this one was merged into. If there is none, adds `slug`.
pub(crate) fn push_resolved(statement: Statement, slug: &HardwareSlug) -> Statement {
    statement
        .push("COALESCE((SELECT merged_into FROM hardware WHERE slug = ")
        .push_bind(slug.as_str())
        .push("), ")
        .push_bind(slug.as_str())
        .push(")")
}

pub(crate) fn facts_json(hardware: &Hardware) -> Result<Option<String>, Damaged> {
    hardware.facts.map(|facts| json("hardware facts", &facts)).transpose()
}
