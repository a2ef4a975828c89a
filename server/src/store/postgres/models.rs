use diode_core::api::ModelSummary;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId};
use sqlx::PgPool;

use super::super::StoreResult;
use super::super::rows::{ModelRow, json};
use super::uploads;

pub(super) async fn add(pool: &PgPool, model: &ModelSummary, hardware: &Hardware) -> StoreResult<bool> {
    let mut tx = pool.begin().await?;
    uploads::insert_hardware(&mut tx, hardware).await?;
    let inserted = sqlx::query(
        "INSERT INTO models (id, heuristic, hardware, summary) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(model.id.as_str())
    .bind(model.heuristic.as_str())
    .bind(model.hardware.as_str())
    .bind(json("model summary", model)?)
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(inserted.rows_affected() == 1)
}

pub(super) async fn list(pool: &PgPool, hardware: Option<&HardwareSlug>) -> StoreResult<Vec<ModelSummary>> {
    let rows: Vec<ModelRow> = sqlx::query_as(
        "SELECT summary FROM models WHERE $1::TEXT IS NULL OR hardware = $1 ORDER BY position DESC",
    )
    .bind(hardware.map(HardwareSlug::as_str))
    .fetch_all(pool)
    .await?;
    rows.into_iter().map(ModelRow::model).collect()
}

pub(super) async fn find(pool: &PgPool, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
    let row: Option<ModelRow> = sqlx::query_as("SELECT summary FROM models WHERE id = $1")
        .bind(id.as_str())
        .fetch_optional(pool)
        .await?;
    row.map(ModelRow::model).transpose()
}
