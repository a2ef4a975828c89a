//! Whether uploads and their solutions count. If several uploads have the same solution, it belongs to the
//! first of those that count. An upload whose times are too far from those of other contributors is fenced.

use std::collections::{BTreeMap, BTreeSet};

use diode_api::Standing;
use diode_core::ids::{HardwareSlug, UploadId};
use diode_core::stats::median;

use crate::boards::consensus::{Deviation, is_off};
use crate::boards::entry_store::View;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::fields::{parse, unsigned};
use crate::store::statement::{ROWS_PER_STATEMENT, Statement};
use crate::store::upkeep::CheckedUploads;
use crate::store::{StoreError, StoreResult};
use crate::uploads::solution_store::{SOLUTIONS, wanted_views};
use crate::uploads::solutions::Damaged;

enum Checked {
    Right,
    Waits,
    Wrong(String),
}

/// The time of an upload's arrival, its id, and its account.
type Arrived = (String, String, String);

/// How many uploads one transaction judges at most. Uploads for the same hardware wait until it commits.
const UPLOADS_PER_ROUND: i64 = 16;

/// The right standing of a solution: the best standing of the uploads that sent it.
pub(crate) const BEST_STANDING: &str = "(SELECT MIN(u.standing) FROM sent s JOIN uploads u ON u.id = \
                                        s.upload \
                                        WHERE s.solution = solutions.id)";

/// The right owner of a solution: the account of the first upload among the uploads with the best standing.
pub(crate) const FIRST_SENDER: &str = "(SELECT u.account FROM sent s JOIN uploads u ON u.id = s.upload \
                                       WHERE s.solution = solutions.id ORDER BY u.standing, u.received_at, \
                                       u.id LIMIT 1)";

/// Whether the operator vouches for an upload that sent a solution and is not quarantined. A fence changes nothing of it:
/// deviations depend on it, and a fence follows from them, so judging would not come to an end.
pub(crate) const VOUCHED: &str = "(SELECT COALESCE(MAX(u.vouched), 0) FROM sent s JOIN uploads u ON u.id = s.upload \
                                  WHERE s.solution = solutions.id AND u.standing < 2)";

impl Store {
    /// The stored deviations of a view, by the number of the solution.
    pub async fn deviations(&self, view: &View) -> StoreResult<BTreeMap<i64, f64>> {
        let db = &mut self.reader().await?;
        db.deviations_of(&[view]).await
    }

    /// Judges every upload anew and computes the owners of its solutions, but changes nothing.
    pub async fn check_uploads(&self) -> StoreResult<CheckedUploads> {
        let db = &mut self.read_transaction().await?;
        let mut checked = CheckedUploads::default();
        let ids: Vec<(String,)> = db.fetch_all(Statement::new("SELECT id FROM uploads ORDER BY id")).await?;
        for (id,) in ids {
            checked.uploads += 1;
            match db.check_upload(&id).await {
                Ok(Checked::Right) => {}
                Ok(Checked::Waits) => checked.to_judge += 1,
                Ok(Checked::Wrong(words)) => checked.misjudged.push(format!("upload {id}: {words}")),
                Err(StoreError::Damaged(damaged)) => checked.damaged.push(format!("upload {id}: {damaged}")),
                Err(error) => return Err(error),
            }
        }
        checked.misjudged.extend(db.misstated_solutions().await?);
        Ok(checked)
    }
}

impl Connection {
    async fn check_upload(&mut self, id: &str) -> StoreResult<Checked> {
        let id: UploadId = parse("upload id", id.to_owned())?;
        // Fails if a part of the row cannot be read.
        self.receipt(&id).await?;
        let select =
            Statement::new("SELECT judged, standing, log_ratio, compared FROM uploads WHERE id = $1");
        let row: (i64, i64, Option<f64>, i64) = self.fetch_one(select.bind(id.as_str())).await?;
        let (judged, stored, log_ratio, compared) = row;
        if judged == 0 {
            return Ok(Checked::Waits);
        }
        let stored = (read_standing(stored)?, log_ratio, unsigned("problem count", compared)?);
        let mut ratios = self.own_deviations(&id).await?;
        let (log_ratio, standing) = verdict(stored.0, &mut ratios);
        let computed: (Standing, Option<f64>, u64) = (standing, log_ratio, ratios.len() as u64);
        if stored == computed {
            return Ok(Checked::Right);
        }
        Ok(Checked::Wrong(format!(
            "stored {stored:?}, computed {computed:?} (standing, log-ratio, problems)"
        )))
    }

    /// Solutions whose standing or owner does not follow from their uploads.
    async fn misstated_solutions(&mut self) -> StoreResult<Vec<String>> {
        let select = Statement::new("SELECT id FROM solutions WHERE ")
            .push("standing IS DISTINCT FROM ")
            .push(BEST_STANDING)
            .push(" OR contributor IS DISTINCT FROM ")
            .push(FIRST_SENDER)
            .push(" OR vouched IS DISTINCT FROM ")
            .push(VOUCHED)
            .push(" ORDER BY id");
        let rows: Vec<(i64,)> = self.fetch_all(select).await?;
        let words = |(number,): (i64,)| format!("solution {number}: counts otherwise than its uploads say");
        Ok(rows.into_iter().map(words).collect())
    }

    /// Returns which of `solutions` would belong to another account even if the upload counted. A solution belongs to
    /// the account of the first upload that sent it and counts.
    ///
    /// Takes several steps, each of which reads rows by their keys. For a single query, Postgres may read all uploads
    /// for each solution, or all rows of all uploads. Then the cost of an upload would grow with the number of uploads.
    pub(crate) async fn copies_of_others(
        &mut self,
        upload: &UploadId,
        solutions: &[i64],
    ) -> StoreResult<BTreeSet<i64>> {
        let mut sent: Vec<(i64, String)> = Vec::with_capacity(solutions.len());
        for chunk in solutions.chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new("SELECT solution, upload FROM sent WHERE solution IN (");
            sent.extend(
                self.fetch_all::<(i64, String)>(select.push_list(chunk.iter().copied()).push(")")).await?,
            );
        }
        let senders: BTreeSet<&str> = sent.iter().map(|(_, by)| by.as_str()).collect();
        if senders.iter().all(|by| *by == upload.as_str()) {
            return Ok(BTreeSet::new());
        }
        let mut arrived: BTreeMap<String, Arrived> = BTreeMap::new();
        for chunk in senders.into_iter().collect::<Vec<_>>().chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new(
                "SELECT received_at, id, COALESCE(account, '') FROM uploads WHERE (standing = 0 OR id = ",
            );
            let select = select.push_bind(upload.as_str()).push(") AND id IN (");
            let rows: Vec<Arrived> =
                self.fetch_all(select.push_list(chunk.iter().copied()).push(")")).await?;
            arrived.extend(rows.into_iter().map(|row| (row.1.clone(), row)));
        }
        let own = arrived.get(upload.as_str()).map(|(_, _, account)| account.clone());
        let mut first: BTreeMap<i64, &Arrived> = BTreeMap::new();
        for (solution, by) in &sent {
            let Some(by) = arrived.get(by) else { continue };
            let earliest = first.entry(*solution).or_insert(by);
            *earliest = by.min(earliest);
        }
        let of_others = first.into_iter().filter(|(_, (_, _, account))| Some(account) != own.as_ref());
        Ok(of_others.map(|(solution, _)| solution).collect())
    }

    /// Replaces the deviations of the solutions of some views. Returns the uploads whose deviations have changed.
    /// These uploads must be judged anew ([`Self::mark_to_judge`]).
    pub(crate) async fn replace_deviations(
        &mut self,
        views: &[&View],
        computed: &[Deviation],
    ) -> StoreResult<Vec<String>> {
        let stored = self.deviations_of(views).await?;
        let computed: BTreeMap<i64, f64> = computed.iter().map(|one| (one.number, one.log_ratio)).collect();
        let changed: Vec<(i64, f64)> = computed
            .iter()
            .filter(|(number, ratio)| stored.get(number) != Some(ratio))
            .map(|(number, ratio)| (*number, *ratio))
            .collect();
        let gone: Vec<i64> = stored.into_keys().filter(|number| !computed.contains_key(number)).collect();
        for chunk in changed.chunks(ROWS_PER_STATEMENT) {
            let rows = chunk.iter().map(|(number, ratio)| [(*number).into(), (*ratio).into()]);
            let insert = Statement::new("INSERT INTO deviations (solution, log_ratio)").push_rows(rows);
            let update = " ON CONFLICT (solution) DO UPDATE SET log_ratio = excluded.log_ratio";
            self.execute(insert.push(update)).await?;
        }
        for chunk in gone.chunks(ROWS_PER_STATEMENT) {
            let delete = Statement::new("DELETE FROM deviations WHERE solution IN (");
            self.execute(delete.push_list(chunk.iter().copied()).push(")")).await?;
        }
        let numbers: Vec<i64> = changed.into_iter().map(|(number, _)| number).chain(gone).collect();
        let mut uploads = Vec::new();
        for chunk in numbers.chunks(ROWS_PER_STATEMENT) {
            let select = Statement::new("SELECT DISTINCT upload FROM sent WHERE solution IN (");
            let rows: Vec<(String,)> =
                self.fetch_all(select.push_list(chunk.iter().copied()).push(")")).await?;
            uploads.extend(rows.into_iter().map(|(upload,)| upload));
        }
        Ok(uploads)
    }

    async fn deviations_of(&mut self, views: &[&View]) -> StoreResult<BTreeMap<i64, f64>> {
        let mut found = BTreeMap::new();
        for chunk in views.chunks(ROWS_PER_STATEMENT) {
            // Each solution is looked up by itself. In a join, Postgres may read all deviations.
            let select = wanted_views(chunk)
                .push(" SELECT s.id, (SELECT d.log_ratio FROM deviations d WHERE d.solution = s.id)")
                .push(SOLUTIONS);
            let rows: Vec<(i64, Option<f64>)> = self.fetch_all(select).await?;
            found.extend(rows.into_iter().filter_map(|(solution, ratio)| Some((solution, ratio?))));
        }
        Ok(found)
    }

    /// Judges some of the uploads that wait to be judged. Returns how many; 0 if there were none.
    pub(crate) async fn judge_some_uploads(&mut self) -> StoreResult<usize> {
        let select = Statement::new("SELECT id FROM uploads WHERE judged = 0 ORDER BY id LIMIT $1");
        let rows: Vec<(String,)> = self.fetch_all(select.bind(UPLOADS_PER_ROUND)).await?;
        let uploads: Vec<UploadId> =
            rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, Damaged>>()?;
        // Deviations change only while the hardware is locked.
        self.lock_hardware_of(&uploads).await?;
        for upload in &uploads {
            self.judge_upload(upload).await?;
        }
        Ok(uploads.len())
    }

    /// Judges an upload that waits to be judged. Its hardware must be locked. `true` if its standing has changed;
    /// the views of its solutions are then stale.
    pub(crate) async fn judge_upload(&mut self, upload: &UploadId) -> StoreResult<bool> {
        let select = Statement::new("SELECT standing FROM uploads WHERE id = $1 AND judged = 0");
        let row: Option<(i64,)> = self.fetch_optional(select.bind(upload.as_str())).await?;
        let Some((before,)) = row else { return Ok(false) };
        let before = read_standing(before)?;
        let mut ratios = self.own_deviations(upload).await?;
        let (log_ratio, after) = verdict(before, &mut ratios);
        if after != before {
            self.set_standing(upload, after).await?;
        }
        let update =
            Statement::new("UPDATE uploads SET log_ratio = $1, compared = $2, judged = 1 WHERE id = $3")
                .bind(log_ratio)
                .bind(ratios.len() as u64)
                .bind(upload.as_str());
        self.execute(update).await?;
        Ok(after != before)
    }

    /// The deviations of the solutions that would belong to the account if the upload counted. Copies of another
    /// account's solutions are left out, so that they cannot hide wrong times. Which solutions count as copies
    /// depends only on earlier uploads, so judging comes to an end.
    pub(crate) async fn own_deviations(&mut self, upload: &UploadId) -> StoreResult<Vec<f64>> {
        // Each solution is looked up by itself. In a join, Postgres may read all deviations.
        let select = Statement::new(
            "SELECT solution, (SELECT log_ratio FROM deviations d WHERE d.solution = sent.solution) FROM \
             sent \
             WHERE upload = $1",
        );
        let rows: Vec<(i64, Option<f64>)> = self.fetch_all(select.bind(upload.as_str())).await?;
        let mut ratios: BTreeMap<i64, f64> =
            rows.into_iter().filter_map(|(solution, ratio)| Some((solution, ratio?))).collect();
        let solutions: Vec<i64> = ratios.keys().copied().collect();
        for copy in self.copies_of_others(upload, &solutions).await? {
            ratios.remove(&copy);
        }
        Ok(ratios.into_values().collect())
    }

    /// Locks the hardware of some uploads, in the order in which uploads lock it.
    pub(crate) async fn lock_hardware_of(&mut self, uploads: &[UploadId]) -> StoreResult<()> {
        let slugs = self.hardware_of_all(uploads).await?;
        self.lock_all_hardware(&slugs).await
    }

    /// The hardware of some uploads.
    pub(crate) async fn hardware_of_all(
        &mut self,
        uploads: &[UploadId],
    ) -> StoreResult<BTreeSet<HardwareSlug>> {
        let mut slugs = BTreeSet::new();
        for upload in uploads {
            slugs.extend(self.hardware_of(upload).await?);
        }
        Ok(slugs)
    }

    async fn hardware_of(&mut self, upload: &UploadId) -> StoreResult<Vec<HardwareSlug>> {
        let select = Statement::new(
            "SELECT DISTINCT hardware FROM solutions WHERE id IN (SELECT solution FROM sent WHERE upload = \
             $1)",
        );
        let rows: Vec<(String,)> = self.fetch_all(select.bind(upload.as_str())).await?;
        Ok(rows.into_iter().map(|(slug,)| parse("hardware slug", slug)).collect::<Result<_, _>>()?)
    }

    /// Changes the standing of an upload and of its solutions. The hardware must be locked. The views of these
    /// solutions become stale. All uploads that sent them must be judged again, since the solutions may belong to
    /// another account now.
    pub(crate) async fn set_standing(&mut self, upload: &UploadId, standing: Standing) -> StoreResult<()> {
        let update = Statement::new("UPDATE uploads SET standing = $1 WHERE id = $2");
        self.execute(update.bind(standing_number(standing)).bind(upload.as_str())).await?;
        self.restate_solutions(upload).await?;
        let select = Statement::new(
            "SELECT DISTINCT o.upload FROM sent s JOIN sent o ON o.solution = s.solution WHERE s.upload = $1",
        );
        let rows: Vec<(String,)> = self.fetch_all(select.bind(upload.as_str())).await?;
        self.mark_to_judge(&rows.into_iter().map(|(upload,)| upload).collect()).await?;
        if standing == Standing::Fenced {
            self.reopen_work_for_others(upload).await?;
        }
        self.mark_stale_by_upload(upload).await?;
        self.note_upload_change(upload, &standing.to_string()).await
    }

    /// Stores that an upload has changed which solutions count. `what` distinguishes this change from others.
    pub(crate) async fn note_upload_change(&mut self, upload: &UploadId, what: &str) -> StoreResult<()> {
        for slug in self.hardware_of(upload).await? {
            self.note_hardware_change(&slug, &format!("{upload} {what}")).await?;
        }
        Ok(())
    }

    /// If a new upload has quarantined solutions of the same account, quarantines it for the same reason, and
    /// returns `true`. Solutions that count because of another upload are not quarantined.
    pub(crate) async fn inherit_quarantine(&mut self, upload: &UploadId) -> StoreResult<bool> {
        let select = Statement::new(
            "SELECT q.reason FROM uploads u JOIN sent s ON s.upload = u.id \
             JOIN solutions x ON x.id = s.solution JOIN sent o ON o.solution = s.solution \
             JOIN uploads q ON q.id = o.upload WHERE u.id = $1 AND x.standing > 0 AND q.standing = 2 \
             AND (COALESCE(q.account, '') = COALESCE(u.account, '') \
             OR u.account IN (SELECT account FROM senders WHERE upload = q.id)) \
             ORDER BY q.received_at, q.id LIMIT 1",
        );
        let found: Option<(Option<String>,)> = self.fetch_optional(select.bind(upload.as_str())).await?;
        let Some((reason,)) = found else { return Ok(false) };
        let update = Statement::new("UPDATE uploads SET standing = $1, reason = $2 WHERE id = $3");
        let update = update.bind(standing_number(Standing::Quarantined)).bind(reason).bind(upload.as_str());
        self.execute(update).await?;
        self.restate_solutions(upload).await?;
        Ok(true)
    }

    /// Computes anew which account owns each solution of an upload, and whether it counts. The upload with the best
    /// standing decides. Among uploads of equal standing, the first one decides, because a copy is no second
    /// measurement.
    pub(crate) async fn restate_solutions(&mut self, upload: &UploadId) -> StoreResult<()> {
        let update = Statement::new("UPDATE solutions SET standing = ")
            .push(BEST_STANDING)
            .push(", contributor = ")
            .push(FIRST_SENDER)
            .push(", vouched = ")
            .push(VOUCHED)
            .push(" WHERE id IN (SELECT solution FROM sent WHERE upload = $1)");
        self.execute(update.bind(upload.as_str())).await?;
        Ok(())
    }

    /// Marks uploads by their ids, in order. So two transactions that mark the same uploads cannot deadlock.
    pub(crate) async fn mark_to_judge(&mut self, uploads: &BTreeSet<String>) -> StoreResult<()> {
        let uploads: Vec<&str> = uploads.iter().map(String::as_str).collect();
        for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
            let lock = Statement::new("SELECT id FROM uploads WHERE judged <> 0 AND id IN (")
                .push_list(chunk.iter().copied())
                .push(") ORDER BY id")
                .push(self.change_row());
            let locked: Vec<(String,)> = self.fetch_all(lock).await?;
            if !locked.is_empty() {
                let update = Statement::new("UPDATE uploads SET judged = 0 WHERE id IN (");
                self.execute(update.push_list(locked.into_iter().map(|(id,)| id)).push(")")).await?;
            }
        }
        Ok(())
    }
}

/// The result of judging an upload by its deviations: their median, and the standing that follows.
pub(crate) fn verdict(before: Standing, ratios: &mut [f64]) -> (Option<f64>, Standing) {
    let log_ratio = median(ratios);
    let after = match before {
        Standing::Quarantined => Standing::Quarantined,
        Standing::Counts | Standing::Fenced if log_ratio.is_some_and(is_off) => Standing::Fenced,
        Standing::Counts | Standing::Fenced => Standing::Counts,
    };
    (log_ratio, after)
}

/// The number that stands for a standing in the database. The smallest number is the best standing.
pub(crate) fn standing_number(standing: Standing) -> i64 {
    match standing {
        Standing::Counts => 0,
        Standing::Fenced => 1,
        Standing::Quarantined => 2,
    }
}

pub(crate) fn read_standing(number: i64) -> Result<Standing, Damaged> {
    match number {
        0 => Ok(Standing::Counts),
        1 => Ok(Standing::Fenced),
        2 => Ok(Standing::Quarantined),
        other => Err(Damaged::new("standing", format_args!("{other}"))),
    }
}
