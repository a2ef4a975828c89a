use diode_core::api::ModelSummary;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId};

use super::connection::Connection;
use super::fields::{from_json, json};
use super::hardware;
use super::statement::Statement;
use crate::solutions::Damaged;
use crate::store::error::StoreResult;

pub(super) async fn add(
    db: &mut impl Connection,
    model: &ModelSummary,
    hardware: &Hardware,
) -> StoreResult<bool> {
    hardware::insert(db, hardware).await?;
    let insert = Statement::new(
        "INSERT INTO models (id, heuristic, hardware, summary) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING",
    )
    .bind(model.id.as_str())
    .bind(model.heuristic.as_str())
    .bind(model.hardware.as_str())
    .bind(json("model summary", model)?);
    Ok(db.execute(insert).await? == 1)
}

pub(super) async fn list(
    db: &mut impl Connection,
    hardware: Option<&HardwareSlug>,
) -> StoreResult<Vec<ModelSummary>> {
    let mut select = Statement::new("SELECT summary FROM models");
    if let Some(slug) = hardware {
        select = select.push(" WHERE hardware = ").push_bind(slug.as_str());
    }
    let rows: Vec<(String,)> = db.fetch_all(select.push(" ORDER BY position DESC")).await?;
    Ok(rows.into_iter().map(model).collect::<Result<_, _>>()?)
}

pub(super) async fn find(db: &mut impl Connection, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
    let select = Statement::new("SELECT summary FROM models WHERE id = $1").bind(id.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    Ok(row.map(model).transpose()?)
}

fn model((summary,): (String,)) -> Result<ModelSummary, Damaged> {
    from_json("model summary", &summary)
}
