use std::collections::BTreeSet;

use diode_core::api::Receipt;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, UploadId};
use sqlx::{SqliteConnection, SqlitePool};

use super::super::batches::{self, ROWS_PER_STATEMENT};
use super::super::config_lists::ConfigLists;
use super::super::rows::{HardwareRow, UploadRow, count, json};
use super::super::{NewUpload, StoreError, StoreResult, View};
use super::{BEGIN_WRITE, problems};
use crate::consensus::Consensus;

pub(super) async fn receipt(db: &mut SqliteConnection, upload: &UploadId) -> StoreResult<Option<Receipt>> {
    let row: Option<UploadRow> = sqlx::query_as(
        "SELECT id, digest, bytes, format, received_at, hardware, new_solutions, duplicate_solutions \
         FROM uploads WHERE id = $1",
    )
    .bind(upload.as_str())
    .fetch_optional(db)
    .await?;
    row.map(UploadRow::receipt).transpose()
}

pub(super) async fn store(pool: &SqlitePool, upload: &NewUpload) -> StoreResult<Receipt> {
    let mut tx = pool.begin_with(BEGIN_WRITE).await?;
    if !insert_upload(&mut tx, upload).await? {
        let stored = receipt(&mut tx, &upload.id).await?;
        return stored.ok_or_else(|| StoreError::damaged("upload")(format!("{} vanished", upload.id)));
    }
    let mut touched = BTreeSet::new();
    for hardware in &upload.hardware {
        if upsert_hardware(&mut tx, hardware, &upload.received_at).await? {
            touched.extend(problems::hardware_views(&mut tx, &hardware.slug).await?);
        }
    }
    let lists: Vec<_> = upload.config_lists.iter().collect();
    for chunk in lists.chunks(ROWS_PER_STATEMENT) {
        batches::config_lists(chunk).build().execute(&mut *tx).await?;
    }
    let problems: Vec<_> = upload.problems.iter().collect();
    for chunk in problems.chunks(ROWS_PER_STATEMENT) {
        batches::problems(chunk)?.build().execute(&mut *tx).await?;
    }
    let mut new = BTreeSet::new();
    for chunk in upload.solutions.chunks(ROWS_PER_STATEMENT) {
        let mut insert = batches::solutions(&upload.id, chunk);
        new.extend(insert.build_query_scalar::<String>().fetch_all(&mut *tx).await?);
    }
    touched.extend(upload.touched(&new));
    refresh(&mut tx, &touched).await?;
    let receipt = upload.receipt(new.len() as u64);
    sqlx::query("UPDATE uploads SET new_solutions = $1, duplicate_solutions = $2 WHERE id = $3")
        .bind(count(receipt.new_solutions))
        .bind(count(receipt.duplicate_solutions))
        .bind(upload.id.as_str())
        .execute(&mut *tx)
        .await?;
    tx.commit().await?;
    Ok(receipt)
}

/// `false` if the upload is stored already.
async fn insert_upload(db: &mut SqliteConnection, upload: &NewUpload) -> StoreResult<bool> {
    let inserted = sqlx::query(
        "INSERT INTO uploads (id, digest, bytes, format, received_at, hardware, new_solutions, \
         duplicate_solutions) VALUES ($1, $2, $3, $4, $5, $6, 0, 0) ON CONFLICT DO NOTHING",
    )
    .bind(upload.id.as_str())
    .bind(upload.digest.as_str())
    .bind(count(upload.bytes))
    .bind(&upload.format)
    .bind(&upload.received_at)
    .bind(json("upload's hardware", &upload.receipts)?)
    .execute(db)
    .await?;
    Ok(inserted.rows_affected() == 1)
}

/// Makes the hardware known. `true` if it was known without facts and now has
/// some: then everything computed from them is out of date.
pub(super) async fn upsert_hardware(
    db: &mut SqliteConnection,
    hardware: &Hardware,
    updated_at: &str,
) -> StoreResult<bool> {
    insert_hardware(db, hardware).await?;
    let stored = find_hardware(db, &hardware.slug).await?;
    let facts = hardware.facts.map(|facts| json("hardware facts", &facts)).transpose()?;
    sqlx::query("UPDATE hardware SET updated_at = $1, facts = COALESCE(facts, $2) WHERE slug = $3")
        .bind(updated_at)
        .bind(facts)
        .bind(hardware.slug.as_str())
        .execute(db)
        .await?;
    Ok(stored.facts.is_none() && hardware.facts.is_some())
}

pub(super) async fn insert_hardware(db: &mut SqliteConnection, hardware: &Hardware) -> StoreResult<()> {
    let facts = hardware.facts.map(|facts| json("hardware facts", &facts)).transpose()?;
    sqlx::query(
        "INSERT INTO hardware (slug, name, vendor, facts) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(hardware.slug.as_str())
    .bind(&hardware.name)
    .bind(hardware.vendor.as_str())
    .bind(facts)
    .execute(db)
    .await?;
    Ok(())
}

async fn find_hardware(db: &mut SqliteConnection, slug: &HardwareSlug) -> StoreResult<Hardware> {
    let row: HardwareRow = sqlx::query_as("SELECT slug, name, vendor, facts FROM hardware WHERE slug = $1")
        .bind(slug.as_str())
        .fetch_one(db)
        .await?;
    row.hardware()
}

/// Brings the entries of some views up to date with their solutions.
async fn refresh(db: &mut SqliteConnection, touched: &BTreeSet<View>) -> StoreResult<()> {
    let mut lists = ConfigLists::default();
    let mut entries = Vec::new();
    for view in touched {
        let packed = problems::load_view(db, view).await?;
        lists.add(&packed.config_lists)?;
        let measured: StoreResult<Vec<_>> = packed.solutions.iter().map(|s| lists.unpack(s)).collect();
        let hardware = find_hardware(db, &view.hardware).await?;
        if let Some(problem) = packed.problems.get(&view.problem)
            && let Some(entry) = Consensus::of(&measured?).entry(problem, &hardware)
        {
            entries.push((view.clone(), entry));
        }
    }
    for chunk in entries.chunks(ROWS_PER_STATEMENT) {
        batches::entries(chunk)?.build().execute(&mut *db).await?;
    }
    Ok(())
}
