use std::collections::BTreeSet;

use diode_core::api::Receipt;
use diode_core::ids::{AccountId, UploadId};

use super::connection::Connection;
use super::fields::{from_json, json, parse, unsigned};
use super::from_row::from_row;
use super::inserts::{self, ROWS_PER_STATEMENT};
use super::statement::Statement;
use super::{board_entries, hardware, stale_entries};
use crate::solutions::Damaged;
use crate::store::error::StoreResult;
use crate::store::types::NewUpload;

/// An upload recomputes entries of so many timings, beyond as many as it brings. So small uploads show at
/// once, and what an upload costs does not grow with what is there.
const FREE_TIMINGS: u64 = 100_000;

struct UploadRow {
    id: String,
    digest: String,
    bytes: i64,
    format: String,
    received_at: String,
    hardware: String,
    new_solutions: i64,
    duplicate_solutions: i64,
}

from_row!(UploadRow { id, digest, bytes, format, received_at, hardware, new_solutions, duplicate_solutions });

impl UploadRow {
    /// The receipt of an upload that is stored already.
    fn receipt(self) -> Result<Receipt, Damaged> {
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
        })
    }
}

pub(super) async fn receipt(db: &mut impl Connection, upload: &UploadId) -> StoreResult<Option<Receipt>> {
    let select = Statement::new(
        "SELECT id, digest, bytes, format, received_at, hardware, new_solutions, duplicate_solutions \
         FROM uploads WHERE id = $1",
    );
    let row: Option<UploadRow> = db.fetch_optional(select.bind(upload.as_str())).await?;
    Ok(row.map(UploadRow::receipt).transpose()?)
}

pub(super) async fn store(db: &mut impl Connection, upload: &NewUpload) -> StoreResult<Receipt> {
    // A racing upload of the same bytes waits here until the first has committed.
    if !insert_upload(db, upload).await? {
        let stored = receipt(db, &upload.id).await?;
        return Ok(stored.ok_or_else(|| Damaged::new("upload", format_args!("{} vanished", upload.id)))?);
    }
    let mut known = Vec::with_capacity(upload.hardware.len());
    for given in &upload.hardware {
        let (hardware, has_new_facts) = hardware::upsert(db, given, upload).await?;
        if has_new_facts {
            stale_entries::add_all(db, &hardware.slug).await?;
        }
        known.push(hardware);
    }
    let lists: Vec<_> = upload.config_lists.iter().collect();
    for chunk in lists.chunks(ROWS_PER_STATEMENT) {
        db.execute(inserts::config_lists(chunk)).await?;
    }
    let problems: Vec<_> = upload.problems.iter().collect();
    for chunk in problems.chunks(ROWS_PER_STATEMENT) {
        db.execute(inserts::problems(chunk)?).await?;
    }
    let mut new = BTreeSet::new();
    for chunk in upload.solutions.chunks(ROWS_PER_STATEMENT) {
        let digests: Vec<(String,)> = db.fetch_all(inserts::solutions(&upload.id, chunk)).await?;
        new.extend(digests.into_iter().map(|(digest,)| digest));
    }
    let touched: BTreeSet<_> = upload.touched(&new).collect();
    let own: u64 = upload.solutions.iter().map(|solution| solution.timings).sum();
    let left = board_entries::refresh(db, &known, &touched, own + FREE_TIMINGS).await?;
    stale_entries::add(db, &left.into_iter().collect::<Vec<_>>()).await?;
    let receipt = upload.receipt(new.len() as u64);
    let update =
        Statement::new("UPDATE uploads SET new_solutions = $1, duplicate_solutions = $2 WHERE id = $3")
            .bind(receipt.new_solutions)
            .bind(receipt.duplicate_solutions)
            .bind(upload.id.as_str());
    db.execute(update).await?;
    Ok(receipt)
}

/// `false` if the upload is stored already.
async fn insert_upload(db: &mut impl Connection, upload: &NewUpload) -> StoreResult<bool> {
    let insert = Statement::new(
        "INSERT INTO uploads (id, digest, bytes, format, received_at, hardware, new_solutions, \
         duplicate_solutions, account) VALUES ($1, $2, $3, $4, $5, $6, 0, 0, $7) ON CONFLICT DO NOTHING",
    )
    .bind(upload.id.as_str())
    .bind(upload.digest.as_str())
    .bind(upload.bytes)
    .bind(upload.format.as_str())
    .bind(upload.received_at.as_str())
    .bind(json("upload's hardware", &upload.receipts)?)
    .bind(upload.account.as_ref().map(AccountId::as_str));
    Ok(db.execute(insert).await? == 1)
}
