use std::collections::BTreeSet;

use diode_api::{LibraryOn, Receipt, Standing};
use diode_core::hardware::Hardware;
use diode_core::ids::{AccountId, UploadId};

use super::inserts::{self, ROWS_PER_STATEMENT};
use super::licences::LicenceRow;
use super::{agents, board_entries, fencing, hardware, problems, senders, stale_entries, standing};
use crate::blobs::BlobKind;
use crate::consensus::fence_reason;
use crate::solutions::Damaged;
use crate::store::connection::{Connection, Lockable};
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, optional, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::moderation::UploadFilter;
use crate::store::statement::Statement;
use crate::store::types::{NewUpload, View};

/// An upload recomputes entries with as many timings as it brings, plus this number. So small uploads show at once,
/// and the cost of an upload does not grow with what is stored.
const FREE_TIMINGS: u64 = 100_000;

const SELECT: &str = "SELECT u.id, u.digest, u.bytes, u.format, u.received_at, u.hardware, u.new_solutions, \
    u.duplicate_solutions, a.name AS contributor, u.standing, u.reason, u.log_ratio, u.compared, \
    u.licence, u.licence_basis, u.terms \
    FROM uploads u LEFT JOIN accounts a ON a.id = u.account";

struct UploadRow {
    id: String,
    digest: String,
    bytes: i64,
    format: String,
    received_at: String,
    hardware: String,
    new_solutions: i64,
    duplicate_solutions: i64,
    contributor: Option<String>,
    standing: i64,
    reason: Option<String>,
    log_ratio: Option<f64>,
    compared: i64,
    licence: LicenceRow,
}

from_row!(UploadRow {
    id,
    digest,
    bytes,
    format,
    received_at,
    hardware,
    new_solutions,
    duplicate_solutions,
    contributor,
    standing,
    reason,
    log_ratio,
    compared,
    ..licence
});

impl UploadRow {
    /// The receipt of a stored upload.
    fn receipt(self) -> Result<Receipt, Damaged> {
        let compared = unsigned("problem count", self.compared)?;
        let standing = standing::read(self.standing)?;
        let fenced = self.log_ratio.filter(|_| standing == Standing::Fenced);
        Ok(Receipt {
            id: parse("upload id", self.id)?,
            digest: parse("upload digest", self.digest)?,
            bytes: unsigned("upload size", self.bytes)?,
            format: self.format,
            received_at: self.received_at,
            hardware: from_json("upload's hardware", &self.hardware)?,
            new_solutions: unsigned("solution count", self.new_solutions)?,
            duplicate_solutions: unsigned("solution count", self.duplicate_solutions)?,
            already_stored: true,
            contributor: optional("account name", self.contributor)?,
            standing,
            reason: self.reason.or(fenced.map(|log_ratio| fence_reason(log_ratio, compared))),
            log_ratio: self.log_ratio,
            compared_problems: compared,
            licence: self.licence.licence()?,
        })
    }
}

pub(super) async fn receipt(db: &mut Connection, upload: &UploadId) -> StoreResult<Option<Receipt>> {
    let select = Statement::new(SELECT).push(" WHERE u.id = ").push_bind(upload.as_str());
    let row: Option<UploadRow> = db.fetch_optional(select).await?;
    Ok(row.map(UploadRow::receipt).transpose()?)
}

/// The newest uploads that pass a filter.
pub(super) async fn list(
    db: &mut Connection,
    filter: &UploadFilter,
    limit: u32,
) -> StoreResult<Vec<Receipt>> {
    let mut select = Statement::new(SELECT).push(" WHERE 1 = 1");
    if let Some(name) = &filter.contributor {
        select = select.push(" AND a.name = ").push_bind(name.as_str());
    }
    if let Some(standing) = filter.standing {
        select = select.push(" AND u.standing = ").push_bind(standing::number(standing));
    }
    let select = select.push(" ORDER BY u.received_at DESC, u.id DESC LIMIT ").push_bind(i64::from(limit));
    let rows: Vec<UploadRow> = db.fetch_all(select).await?;
    Ok(rows.into_iter().map(UploadRow::receipt).collect::<Result<_, _>>()?)
}

/// Uploads of different problems run side by side, even for one hardware. All uploads lock in this order: the file, the
/// account, the upload itself, new config lists and problems, the hardware, its problems, the lease and its work. The
/// row with the counts of the hardware comes last, because every upload changes it. Only fencing comes later.
pub(super) async fn store(db: &mut Connection, upload: &NewUpload) -> StoreResult<Receipt> {
    db.keep(Lockable::File(BlobKind::Upload, &upload.digest)).await?;
    if let Some(account) = &upload.account {
        db.keep(Lockable::Account(account)).await?;
    }
    // A second upload of the same bytes waits here until the first has committed.
    if !insert_upload(db, upload).await? {
        senders::add(db, &upload.id, upload.account.as_ref(), &upload.licence).await?;
        return stored(db, &upload.id).await;
    }
    // Config lists and problems have the same rows for every upload, and these rows are never removed.
    let lists: Vec<_> = upload.config_lists.iter().collect();
    for chunk in lists.chunks(ROWS_PER_STATEMENT) {
        db.execute(inserts::config_lists(chunk)).await?;
    }
    let problems: Vec<_> = upload.problems.iter().collect();
    for chunk in problems.chunks(ROWS_PER_STATEMENT) {
        db.execute(inserts::problems(chunk)?).await?;
    }
    let mut known = Vec::with_capacity(upload.hardware.len());
    for given in &upload.hardware {
        known.push(hardware::keep(db, given).await?);
    }
    problems::lock(db, upload.problems.keys()).await?;
    let mut new = BTreeSet::new();
    for chunk in upload.solutions.chunks(ROWS_PER_STATEMENT) {
        let contributor = upload.account.as_ref();
        let digests: Vec<(String,)> = db.fetch_all(inserts::solutions(contributor, chunk)).await?;
        new.extend(digests.into_iter().map(|(digest,)| digest));
        db.execute(inserts::sent(&upload.id, chunk)).await?;
    }
    let mut touched: BTreeSet<_> = upload.touched(&new).collect();
    let is_quarantined = standing::inherit_quarantine(db, &upload.id).await?;
    if !is_quarantined {
        touched.extend(revive(db, &upload.id).await?);
    }
    let own: u64 = upload.solutions.iter().map(|solution| solution.timings).sum();
    let left = board_entries::refresh(db, &known, &touched, own + FREE_TIMINGS).await?;
    stale_entries::add(db, &left.into_iter().collect::<Vec<_>>()).await?;
    let is_fenced = fencing::judge(db, &upload.id).await?;
    if is_fenced {
        refresh_again(db, &known, &touched, own + FREE_TIMINGS).await?;
    }
    agents::settle(db, upload, !is_quarantined && !is_fenced).await?;
    let new = new.len() as u64;
    let update =
        Statement::new("UPDATE uploads SET new_solutions = $1, duplicate_solutions = $2 WHERE id = $3")
            .bind(new)
            .bind(upload.solutions.len() as u64 - new)
            .bind(upload.id.as_str());
    db.execute(update).await?;
    let receipt = stored(db, &upload.id).await?;
    for (given, used) in upload.hardware.iter().zip(&known) {
        if !hardware::note_upload(db, given, used, upload).await? {
            let of_it = |view: &&View| view.hardware == used.slug;
            stale_entries::add(db, &touched.iter().filter(of_it).collect::<Vec<_>>()).await?;
        }
    }
    Ok(Receipt { already_stored: false, ..receipt })
}

/// For an upload that was fenced: computes the entries again, without the upload, before anybody sees them.
async fn refresh_again(
    db: &mut Connection,
    known: &[Hardware],
    touched: &BTreeSet<View>,
    budget: u64,
) -> StoreResult<()> {
    let left = board_entries::refresh(db, known, touched, budget).await?;
    for view in touched.iter().filter(|view| !left.contains(view)) {
        stale_entries::remove(db, view).await?;
    }
    stale_entries::add(db, &left.into_iter().collect::<Vec<_>>()).await
}

/// Computes anew whether solutions of this upload count that did not count before. Returns their views.
async fn revive(db: &mut Connection, upload: &UploadId) -> StoreResult<Vec<View>> {
    let select = Statement::new(
        "SELECT DISTINCT hardware, problem, method FROM solutions \
         WHERE standing > 0 AND id IN (SELECT solution FROM sent WHERE upload = $1)",
    );
    let views = board_entries::fetch_views(db, select.bind(upload.as_str())).await?;
    if !views.is_empty() {
        standing::restate(db, upload).await?;
    }
    Ok(views)
}

/// The receipt of an upload that must exist.
async fn stored(db: &mut Connection, upload: &UploadId) -> StoreResult<Receipt> {
    let found = receipt(db, upload).await?;
    Ok(found.ok_or_else(|| Damaged::new("upload", format_args!("{upload} vanished")))?)
}

/// The library with which an upload was measured, and for how many problems. `None` for an upload of several kinds of
/// hardware, whose solutions do not name their library.
fn library_of(upload: &NewUpload) -> Option<(LibraryOn, u64)> {
    let [receipt] = upload.receipts.as_slice() else { return None };
    let library = receipt.library.clone()?;
    Some((LibraryOn { hardware: receipt.slug.clone(), library }, receipt.problems))
}

/// `false` if the upload is stored already.
async fn insert_upload(db: &mut Connection, upload: &NewUpload) -> StoreResult<bool> {
    let library = library_of(upload);
    let insert = Statement::new(
        "INSERT INTO uploads (id, digest, bytes, format, received_at, hardware, new_solutions, \
         duplicate_solutions, account, judged, licence, licence_basis, terms, library, library_problems) \
         VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7, 0, $8, $9, $10, $11, $12) \
         ON CONFLICT DO NOTHING",
    )
    .bind(upload.id.as_str())
    .bind(upload.digest.as_str())
    .bind(upload.bytes)
    .bind(upload.format.as_str())
    .bind(upload.received_at.as_str())
    .bind(json("upload's hardware", &upload.receipts)?)
    .bind(upload.account.as_ref().map(AccountId::as_str))
    .bind(upload.licence.spdx.as_str())
    .bind(upload.licence.basis.as_str())
    .bind(upload.licence.terms.map(i64::from))
    .bind(library.as_ref().map(|(library, _)| library.to_string()))
    .bind(library.as_ref().map(|(_, problems)| problems.cast_signed()));
    Ok(db.execute(insert).await? == 1)
}
