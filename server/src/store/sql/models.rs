use diode_api::ModelSummary;
use diode_core::Heuristic;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};

use super::contribution_row::{self, ContributionRow};
use super::hardware;
use super::inserts::ROWS_PER_STATEMENT;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{from_json, json, named, parse, unsigned};
use crate::store::from_row::from_row;
use crate::store::statement::Statement;

/// A model's summary, how many of the uploads that it was trained on no longer count, and whether the networks of its
/// cross-validation are stored. A contributed model that was not accepted has no row in `models`.
const COLUMNS: &str = "SELECT COALESCE(m.summary, c.summary) AS summary, \
    COALESCE(m.state, 'unpublished') AS state, COALESCE(m.reason, '') AS reason, COALESCE(m.pinned, 0) AS pinned, \
    (SELECT COUNT(*) FROM model_uploads n LEFT JOIN uploads u ON u.id = n.upload \
     WHERE n.model = m.id AND (u.id IS NULL OR u.standing > 0)) AS withdrawn, \
    (SELECT COUNT(*) FROM unseen_models v WHERE v.model = m.id) AS unseen_models, ";

/// The server's models with their contributors. A model has a contributor here only if the server got it by accepting
/// a contribution. If somebody sent a file that the server had already, no contributor is shown.
fn select() -> Statement {
    columns().push(
        " FROM models m LEFT JOIN contributed_models c ON c.id = m.id AND c.state = 'accepted' \
         LEFT JOIN accounts a ON a.id = c.account",
    )
}

/// The columns of a [`ModelRow`]: from `models m`, `contributed_models c` and `accounts a`.
pub(super) fn columns() -> Statement {
    Statement::new(COLUMNS).push(contribution_row::COLUMNS)
}

pub(super) struct ModelRow {
    summary: String,
    state: String,
    reason: String,
    pinned: i64,
    withdrawn: i64,
    unseen_models: i64,
    contribution: ContributionRow,
}

from_row!(ModelRow { summary, state, reason, pinned, withdrawn, unseen_models, ..contribution });

impl ModelRow {
    pub(super) fn model(self) -> Result<ModelSummary, Damaged> {
        let summary: ModelSummary = from_json("model summary", &self.summary)?;
        let contribution = self.contribution.contribution()?;
        let judged =
            contribution.as_ref().and_then(|contribution| contribution.figures.as_ref()?.kept.clone());
        Ok(ModelSummary {
            withdrawn_uploads: unsigned("upload count", self.withdrawn)?,
            unseen_models: self.unseen_models > 0,
            state: named("model state", &self.state)?,
            reason: self.reason,
            pinned: self.pinned != 0,
            kept: judged.or(summary.kept),
            contribution,
            ..summary
        })
    }
}

/// Adds an unpublished model; `false` if it exists already.
pub(super) async fn add(
    db: &mut Connection,
    model: &ModelSummary,
    hardware: &Hardware,
    uploads: &[UploadId],
) -> StoreResult<bool> {
    hardware::insert(db, hardware).await?;
    let insert = Statement::new(
        "INSERT INTO models (id, heuristic, hardware, summary, state) VALUES ($1, $2, $3, $4, 'unpublished') \
         ON CONFLICT DO NOTHING",
    )
    .bind(model.id.as_str())
    .bind(model.heuristic.as_str())
    .bind(model.hardware.as_str())
    .bind(json("model summary", model)?);
    if db.execute(insert).await? == 0 {
        return Ok(false);
    }
    for chunk in uploads.chunks(ROWS_PER_STATEMENT) {
        let rows = chunk.iter().map(|upload| [model.id.as_str().into(), upload.as_str().into()]);
        let insert = Statement::new("INSERT INTO model_uploads (model, upload)").push_rows(rows);
        db.execute(insert).await?;
    }
    Ok(true)
}

/// Publishes a model instead of the one that is published now.
pub(super) async fn set_published(db: &mut Connection, model: &ModelSummary) -> StoreResult<()> {
    let update = Statement::new(
        "UPDATE models SET state = 'earlier', pinned = 0 \
         WHERE hardware = $1 AND heuristic = $2 AND state = 'published'",
    );
    db.execute(update.bind(model.hardware.as_str()).bind(model.heuristic.as_str())).await?;
    let update = Statement::new("UPDATE models SET state = 'published', reason = '' WHERE id = $1");
    db.execute(update.bind(model.id.as_str())).await?;
    Ok(())
}

pub(super) async fn set_reason(db: &mut Connection, id: &ModelId, reason: &str) -> StoreResult<()> {
    let update = Statement::new("UPDATE models SET reason = $1 WHERE id = $2");
    db.execute(update.bind(reason).bind(id.as_str())).await?;
    Ok(())
}

pub(super) async fn set_pinned(db: &mut Connection, id: &ModelId, pinned: bool) -> StoreResult<()> {
    let update = Statement::new("UPDATE models SET pinned = $1 WHERE id = $2");
    db.execute(update.bind(i64::from(pinned)).bind(id.as_str())).await?;
    Ok(())
}

pub(super) async fn remove(db: &mut Connection, id: &ModelId) -> StoreResult<()> {
    let delete = Statement::new("DELETE FROM models WHERE id = $1").bind(id.as_str());
    db.execute(delete).await?;
    Ok(())
}

/// The uploads that count and have solutions of a hardware.
pub(super) async fn uploads_behind(db: &mut Connection, slug: &HardwareSlug) -> StoreResult<Vec<UploadId>> {
    let select = Statement::new(
        "SELECT DISTINCT n.upload FROM solutions s JOIN sent n ON n.solution = s.id \
         JOIN uploads u ON u.id = n.upload WHERE s.hardware = $1 AND u.standing = 0",
    );
    let rows: Vec<(String,)> = db.fetch_all(select.bind(slug.as_str())).await?;
    Ok(rows.into_iter().map(|(id,)| parse("upload id", id)).collect::<Result<_, _>>()?)
}

/// The newest models, and all published models.
pub(super) async fn list(
    db: &mut Connection,
    hardware: Option<&HardwareSlug>,
    newest: u32,
) -> StoreResult<Vec<ModelSummary>> {
    let of_hardware = |select: Statement, column| match hardware {
        Some(slug) => select.push(" WHERE ").push(column).push(" = ").push_bind(slug.as_str()),
        None => select.push(" WHERE 1 = 1"),
    };
    let select = of_hardware(select(), "m.hardware")
        .push(" AND (m.state = 'published' OR m.id IN (SELECT newest.id FROM models newest");
    let select = of_hardware(select, "newest.hardware")
        .push(" ORDER BY newest.position DESC LIMIT ")
        .push_bind(i64::from(newest))
        .push("))");
    let rows: Vec<ModelRow> = db.fetch_all(select.push(" ORDER BY m.position DESC")).await?;
    Ok(rows.into_iter().map(ModelRow::model).collect::<Result<_, _>>()?)
}

pub(super) async fn find(db: &mut Connection, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
    let select = select().push(" WHERE m.id = ").push_bind(id.as_str());
    let row: Option<ModelRow> = db.fetch_optional(select).await?;
    Ok(row.map(ModelRow::model).transpose()?)
}

pub(super) async fn published(
    db: &mut Connection,
    hardware: &HardwareSlug,
    heuristic: Heuristic,
) -> StoreResult<Option<ModelSummary>> {
    let select = select()
        .push(" WHERE m.state = 'published' AND m.hardware = ")
        .push_bind(hardware.as_str())
        .push(" AND m.heuristic = ")
        .push_bind(heuristic.as_str());
    let row: Option<ModelRow> = db.fetch_optional(select).await?;
    Ok(row.map(ModelRow::model).transpose()?)
}
