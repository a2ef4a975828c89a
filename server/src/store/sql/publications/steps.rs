//! The steps in the history of a hardware's models. The hardware is locked during each step.

use diode_api::{
    ModelSource, ModelState, ModelSummary, ModelType, NewPublication, Publication, PublicationAction,
};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};

use super::unseen_models;
use crate::solutions::Damaged;
use crate::store::connection::Connection;
use crate::store::error::StoreResult;
use crate::store::fields::{named, parse};
use crate::store::from_row::from_row;
use crate::store::publications::{ComparedWithPublished, Refused};
use crate::store::sql::log::write_down;
use crate::store::sql::{hardware, models, training_marks};
use crate::store::statement::Statement;
use crate::store::types::Now;

/// The name under which the history keeps the server's own steps.
const SERVER: &str = "server";

/// Adds a model that is released with Diode. It may replace another released model, but never a model that was
/// trained on this server. `false` if it exists already.
pub(in crate::store::sql) async fn add_shipped(
    db: &mut Connection,
    model: &ModelSummary,
    described: &Hardware,
    uploads: &[UploadId],
    unseen_models: Option<&[u8]>,
    now: Now,
) -> StoreResult<bool> {
    hardware::insert_locked(db, described).await?;
    let is_new = models::add(db, model, described, uploads).await?;
    let published = models::published(db, &model.hardware, model.heuristic).await?;
    if !is_new {
        let is_published = published.is_some_and(|published| published.id == model.id);
        if let Some(file) = unseen_models.filter(|_| is_published) {
            unseen_models::add(db, model, file).await?;
        }
        return Ok(false);
    }
    let step = match published {
        Some(other) if other.pinned || other.source != ModelSource::Shipped => {
            let why = format!("{} is published, which was not released with Diode or is pinned", other.id);
            models::set_reason(db, &model.id, &why).await?;
            Step { action: PublicationAction::Refuse, who: SERVER, why }
        }
        _ => {
            models::set_published(db, model).await?;
            Step { action: PublicationAction::Publish, who: SERVER, why: "released with Diode".to_owned() }
        }
    };
    note(db, model, step, now).await?;
    if let Some(file) = unseen_models {
        unseen_models::add(db, model, file).await?;
    }
    // The data of a release must not cause a training.
    training_marks::mark(db, &model.hardware, model.heuristic, now).await?;
    Ok(true)
}

pub(super) async fn add_judged(
    db: &mut Connection,
    model: &ModelSummary,
    described: &Hardware,
    uploads: &[UploadId],
    unseen_models: Option<&[u8]>,
    judged: &ComparedWithPublished,
    now: Now,
) -> StoreResult<Option<ModelState>> {
    hardware::insert_locked(db, described).await?;
    if !models::add(db, model, described, uploads).await? {
        return Ok(models::find(db, &model.id).await?.map(|model| model.state));
    }
    let published = models::published(db, &model.hardware, model.heuristic).await?;
    if published.as_ref().map(|published| &published.id) != judged.beside.as_ref() {
        return Ok(None);
    }
    let state = publish_or_refuse(db, model, published, judged, now).await?;
    if let Some(file) = unseen_models {
        unseen_models::add(db, model, file).await?;
    }
    Ok(Some(state))
}

async fn publish_or_refuse(
    db: &mut Connection,
    model: &ModelSummary,
    published: Option<ModelSummary>,
    judged: &ComparedWithPublished,
    now: Now,
) -> StoreResult<ModelState> {
    let pinned = published.filter(|published| published.pinned);
    if judged.publish && pinned.is_none() {
        models::set_published(db, model).await?;
        let step = Step { action: PublicationAction::Publish, who: SERVER, why: judged.why.clone() };
        note(db, model, step, now).await?;
        return Ok(ModelState::Published);
    }
    let pinned = pinned.map_or(String::new(), |pinned| format!("; {} is pinned", pinned.id));
    let why = format!("{}{pinned}", judged.why);
    models::set_reason(db, &model.id, &why).await?;
    note(db, model, Step { action: PublicationAction::Refuse, who: SERVER, why }, now).await?;
    Ok(ModelState::Unpublished)
}

/// Takes the step that an administrator asks for, and writes it to the log.
pub(super) async fn publish(
    db: &mut Connection,
    request: &NewPublication,
    who: &str,
    now: Now,
) -> StoreResult<Result<ModelSummary, Refused>> {
    let done = act(db, request, who, now).await?;
    if done.is_ok() {
        let what = match request.action {
            PublicationAction::RollBack => format!("roll back model {}", request.model),
            action => format!("{action} model {}", request.model),
        };
        write_down(db, &what, &request.reason, who, now).await?;
    }
    Ok(done)
}

async fn act(
    db: &mut Connection,
    request: &NewPublication,
    who: &str,
    now: Now,
) -> StoreResult<Result<ModelSummary, Refused>> {
    let Some(found) = models::find(db, &request.model).await? else { return Ok(Err(Refused::Unknown)) };
    hardware::lock(db, &found.hardware).await?;
    // The model is read again: another administrator may have been first.
    let Some(model) = models::find(db, &request.model).await? else { return Ok(Err(Refused::Unknown)) };
    let is_published = model.state == ModelState::Published;
    match request.action {
        PublicationAction::Refuse => return Ok(Err(Refused::OnlyTheServer)),
        PublicationAction::Publish if is_published => return Ok(Err(Refused::Published)),
        PublicationAction::Publish if model.model_type != ModelType::Ranking => {
            return Ok(Err(Refused::ForComparison));
        }
        PublicationAction::Publish => models::set_published(db, &model).await?,
        _ if !is_published => return Ok(Err(Refused::NotPublished)),
        PublicationAction::Pin => models::set_pinned(db, &model.id, true).await?,
        PublicationAction::Unpin => models::set_pinned(db, &model.id, false).await?,
        PublicationAction::RollBack => {
            let Some(before) = before(db, &model).await? else { return Ok(Err(Refused::First)) };
            models::set_published(db, &before).await?;
        }
    }
    let step = Step { action: request.action, who, why: request.reason.as_str().to_owned() };
    note(db, &model, step, now).await?;
    let published = models::published(db, &model.hardware, model.heuristic).await?;
    Ok(published.ok_or(Refused::Unknown))
}

/// Removes a model for good. Its hardware must be locked. If it is published, the model that was published
/// before it is published again.
pub(in crate::store::sql) async fn take_away(
    db: &mut Connection,
    model: &ModelSummary,
    why: &str,
    now: Now,
) -> StoreResult<()> {
    if model.state == ModelState::Published
        && let Some(before) = before(db, model).await?
    {
        models::set_published(db, &before).await?;
        let why = format!("{} is gone: {why}", model.id);
        note(db, &before, Step { action: PublicationAction::Publish, who: SERVER, why }, now).await?;
    }
    models::remove(db, &model.id).await
}

/// The model that was published before this one. Models that were rolled back since are skipped.
async fn before(db: &mut Connection, model: &ModelSummary) -> StoreResult<Option<ModelSummary>> {
    let select = Statement::new(
        "SELECT p.model FROM publications p WHERE p.hardware = $1 AND p.heuristic = $2 \
         AND p.action = 'publish' AND p.model <> $3 AND p.position < \
             (SELECT MAX(position) FROM publications WHERE model = $3 AND action = 'publish') \
         AND NOT EXISTS (SELECT 1 FROM publications r WHERE r.model = p.model \
             AND r.action = 'roll-back' AND r.position > p.position) \
         ORDER BY p.position DESC LIMIT 1",
    )
    .bind(model.hardware.as_str())
    .bind(model.heuristic.as_str())
    .bind(model.id.as_str());
    let row: Option<(String,)> = db.fetch_optional(select).await?;
    match row {
        Some((id,)) => {
            let id: ModelId = parse("model id", id)?;
            models::find(db, &id).await
        }
        None => Ok(None),
    }
}

struct Step<'a> {
    action: PublicationAction,
    who: &'a str,
    why: String,
}

async fn note(db: &mut Connection, model: &ModelSummary, step: Step<'_>, now: Now) -> StoreResult<()> {
    let insert = Statement::new(
        "INSERT INTO publications (at, hardware, heuristic, model, action, who, why) \
         VALUES ($1, $2, $3, $4, $5, $6, $7)",
    )
    .bind(now.rfc3339())
    .bind(model.hardware.as_str())
    .bind(model.heuristic.as_str())
    .bind(model.id.as_str())
    .bind(step.action.as_str())
    .bind(step.who)
    .bind(step.why);
    db.execute(insert).await?;
    Ok(())
}

struct PublicationRow {
    at: String,
    hardware: String,
    heuristic: String,
    model: String,
    action: String,
    who: String,
    why: String,
}

from_row!(PublicationRow { at, hardware, heuristic, model, action, who, why });

pub(super) async fn list(
    db: &mut Connection,
    slug: &HardwareSlug,
    limit: u32,
) -> StoreResult<Vec<Publication>> {
    let select = Statement::new(
        "SELECT at, hardware, heuristic, model, action, who, why FROM publications WHERE hardware = $1 \
         ORDER BY position DESC LIMIT $2",
    );
    let rows: Vec<PublicationRow> = db.fetch_all(select.bind(slug.as_str()).bind(i64::from(limit))).await?;
    let publication = |row: PublicationRow| {
        Ok(Publication {
            at: row.at,
            hardware: parse("hardware slug", row.hardware)?,
            heuristic: named("heuristic", &row.heuristic)?,
            model: parse("model id", row.model)?,
            action: named("action", &row.action)?,
            who: row.who,
            why: row.why,
        })
    };
    Ok(rows.into_iter().map(publication).collect::<Result<_, Damaged>>()?)
}
