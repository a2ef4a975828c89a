//! The steps in the history of a hardware's models. The hardware is locked during each step.

use diode_api::{ModelSource, ModelState, ModelSummary, ModelType, Publication, PublicationAction, Reason};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};
use diode_core::{Config, Method, Problem};
use serde::{Deserialize, Serialize};

use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::in_transaction;
use crate::store::fields::{from_json, json, named, parse, readable_row};
use crate::store::statement::Statement;
use crate::store::{Now, StoreResult};

/// How a new model compares with the published model.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedWithPublished {
    /// The published model that the new model was compared with.
    pub beside: Option<ModelId>,
    /// Whether the new model is no worse.
    pub publish: bool,
    pub why: String,
    /// The first picks that would change, if an administrator must see them.
    pub changes: Vec<PickChange>,
}

/// A problem for which another config would be picked first. The times are measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PickChange {
    pub problem: Problem,
    pub method: Method,
    pub before: Config,
    pub before_us: f64,
    pub after: Config,
    pub after_us: f64,
}

/// What an administrator asks to happen to a model. It is written down with the reason.
#[derive(Debug, Clone)]
pub struct NewPublication {
    pub action: PublicationAction,
    pub model: ModelId,
    pub reason: Reason,
}

/// Why a publication changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is no model with this id.
    Unknown,
    /// The model is already published.
    Published,
    /// The model is not the published model.
    NotPublished,
    /// No model was published before this one.
    First,
    /// The model has a type that is never published.
    ForComparison,
    /// Only the server itself takes the step `refuse`.
    OnlyTheServer,
}

impl Refused {
    /// The reason in words, for the caller.
    pub(crate) fn explain(self, model: &ModelId) -> String {
        match self {
            Self::Unknown => format!("no model `{model}`; /api/v1/models lists what there is"),
            Self::Published => format!("model `{model}` is published already"),
            Self::NotPublished => format!("model `{model}` is not the published one, expected that one"),
            Self::First => {
                format!("nothing was published before model `{model}`; publish another one by its id")
            }
            Self::ForComparison => format!(
                "model `{model}` is of a type that is kept for comparison only; expected a `ranking` model"
            ),
            Self::OnlyTheServer => {
                "action: got `refuse`, which only the server does, expected publish, roll-back, pin or unpin"
                    .to_owned()
            }
        }
    }
}

/// The name under which the history keeps the server's own steps.
const SERVER: &str = "server";

struct Step<'a> {
    action: PublicationAction,
    who: &'a str,
    why: String,
}

readable_row!(Publication { at, hardware, heuristic: String, model, action: String, who, why } => Publication {
    at,
    hardware: parse("hardware slug", hardware)?,
    heuristic: named("heuristic", &heuristic)?,
    model: parse("model id", model)?,
    action: named("action", &action)?,
    who,
    why,
});

impl Store {
    /// Adds a model that was trained on these uploads. Publishes it if it was judged to be no worse than the
    /// published model and the published model is not pinned. `None` if another model has been published
    /// meanwhile: then the new model must be judged again.
    ///
    /// Also stores the models of the new model's cross-validation (see [`diode_model::UnseenModels`]), if there
    /// are any. Then removes the cross-validation's models of all other unpublished models of the hardware.
    pub async fn add_judged_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        unseen_models: Option<&[u8]>,
        judged: &ComparedWithPublished,
        now: Now,
    ) -> StoreResult<Option<ModelState>> {
        let described = hardware;
        in_transaction!(self, async |db| {
    db.insert_locked_hardware(described).await?;
    if !db.add_model(model, described, uploads).await? {
        return Ok(db.find_model(&model.id).await?.map(|model| model.state));
    }
    let published = db.published_model(&model.hardware, model.heuristic).await?;
    if published.as_ref().map(|published| &published.id) != judged.beside.as_ref() {
        return Ok(None);
    }
    db.set_pick_changes(&model.id, &judged.changes).await?;
    let state = db.publish_or_refuse(model, published, judged, now).await?;
    if let Some(file) = unseen_models {
        db.add_unseen_models(model, file).await?;
    }
    Ok(Some(state))
}, if Some(_))
    }

    /// The first picks that a model would change.
    pub async fn pick_changes(&self, model: &ModelId) -> StoreResult<Vec<PickChange>> {
        let select = Statement::new("SELECT changes FROM models WHERE id = $1").bind(model.as_str());
        let row: Option<(Option<String>,)> = self.reader().await?.fetch_optional(select).await?;
        let changes = row.and_then(|(changes,)| changes).map(|text| from_json("changes of picks", &text));
        Ok(changes.transpose()?.unwrap_or_default())
    }

    /// Carries out an administrator's request, and writes it to the log. Returns the model that is then published.
    pub async fn publish(
        &self,
        request: &NewPublication,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, Refused>> {
        in_transaction!(self, async |db| {
    let done = db.take_publication_step(request, who, now).await?;
    if done.is_ok() {
        let what = match request.action {
            PublicationAction::RollBack => format!("roll back model {}", request.model),
            action => format!("{action} model {}", request.model),
        };
        db.write_down(&what, &request.reason, who, now).await?;
    }
    Ok(done)
}, if Ok(_))
    }

    /// The newest steps in the history of a hardware's models, the newest first.
    pub async fn publications(&self, hardware: &HardwareSlug, limit: u32) -> StoreResult<Vec<Publication>> {
        let slug = hardware;
        let db = &mut self.reader().await?;
        let select = Statement::new(
            "SELECT at, hardware, heuristic, model, action, who, why FROM publications WHERE hardware = $1 \
             ORDER BY position DESC LIMIT $2",
        );
        db.read_all(select.bind(slug.as_str()).bind(i64::from(limit))).await
    }

    /// Adds a model that is released with Diode. Publishes it unless the published model was trained on this server
    /// or is pinned. `false` if the model existed already.
    ///
    /// Keeps the models of its cross-validation, as [`Self::add_judged_model`] does. If the model
    /// existed and is published, adds the models of its cross-validation where they are missing.
    pub async fn add_shipped_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        unseen_models: Option<&[u8]>,
        now: Now,
    ) -> StoreResult<bool> {
        let described = hardware;
        in_transaction!(self, async |db| {
            db.insert_locked_hardware(described).await?;
            let is_new = db.add_model(model, described, uploads).await?;
            let published = db.published_model(&model.hardware, model.heuristic).await?;
            if !is_new {
                let is_published = published.is_some_and(|published| published.id == model.id);
                if let Some(file) = unseen_models.filter(|_| is_published) {
                    db.add_unseen_models(model, file).await?;
                }
                return Ok(false);
            }
            let step = match published {
                Some(other) if other.pinned || other.source != ModelSource::Shipped => {
                    let why =
                        format!("{} is published, which was not released with Diode or is pinned", other.id);
                    db.set_model_reason(&model.id, &why).await?;
                    Step { action: PublicationAction::Refuse, who: SERVER, why }
                }
                _ => {
                    db.set_published(model).await?;
                    Step {
                        action: PublicationAction::Publish,
                        who: SERVER,
                        why: "released with Diode".to_owned(),
                    }
                }
            };
            db.note_publication(model, step, now).await?;
            if let Some(file) = unseen_models {
                db.add_unseen_models(model, file).await?;
            }
            // The data of a release must not cause a training.
            db.mark_training(&model.hardware, model.heuristic, now).await?;
            Ok(true)
        })
    }
}

impl Connection {
    async fn publish_or_refuse(
        &mut self,
        model: &ModelSummary,
        published: Option<ModelSummary>,
        judged: &ComparedWithPublished,
        now: Now,
    ) -> StoreResult<ModelState> {
        let pinned = published.filter(|published| published.pinned);
        // An upload may have been removed while the model was trained on it.
        let removed = self.removed_upload_of(&model.id).await?;
        if judged.publish && pinned.is_none() && removed.is_none() {
            self.set_published(model).await?;
            let step = Step { action: PublicationAction::Publish, who: SERVER, why: judged.why.clone() };
            self.note_publication(model, step, now).await?;
            return Ok(ModelState::Published);
        }
        let pinned = pinned.map_or(String::new(), |pinned| format!("; {} is pinned", pinned.id));
        let removed = removed.map_or(String::new(), |upload| format!("; upload {upload} was removed"));
        let why = format!("{}{pinned}{removed}", judged.why);
        self.set_model_reason(&model.id, &why).await?;
        self.note_publication(model, Step { action: PublicationAction::Refuse, who: SERVER, why }, now)
            .await?;
        Ok(ModelState::Unpublished)
    }

    async fn set_pick_changes(&mut self, model: &ModelId, changes: &[PickChange]) -> StoreResult<()> {
        let changes = if changes.is_empty() { None } else { Some(json("changes of picks", &changes)?) };
        let update = Statement::new("UPDATE models SET changes = $1 WHERE id = $2");
        self.execute(update.bind(changes).bind(model.as_str())).await?;
        Ok(())
    }

    /// An upload that a model has learnt from and that is deleted or quarantined.
    async fn removed_upload_of(&mut self, model: &ModelId) -> StoreResult<Option<String>> {
        let select = Statement::new(
            "SELECT n.upload FROM model_uploads n LEFT JOIN uploads u ON u.id = n.upload \
             WHERE n.model = $1 AND (u.id IS NULL OR u.standing = 2) ORDER BY n.upload LIMIT 1",
        );
        let row: Option<(String,)> = self.fetch_optional(select.bind(model.as_str())).await?;
        Ok(row.map(|(upload,)| upload))
    }

    async fn take_publication_step(
        &mut self,
        request: &NewPublication,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, Refused>> {
        let Some(found) = self.find_model(&request.model).await? else { return Ok(Err(Refused::Unknown)) };
        self.lock_hardware(&found.hardware).await?;
        // The model is read again: another administrator may have been first.
        let Some(model) = self.find_model(&request.model).await? else { return Ok(Err(Refused::Unknown)) };
        let is_published = model.state == ModelState::Published;
        match request.action {
            PublicationAction::Refuse => return Ok(Err(Refused::OnlyTheServer)),
            PublicationAction::Publish if is_published => return Ok(Err(Refused::Published)),
            PublicationAction::Publish if model.model_type != ModelType::Ranking => {
                return Ok(Err(Refused::ForComparison));
            }
            PublicationAction::Publish => self.set_published(&model).await?,
            _ if !is_published => return Ok(Err(Refused::NotPublished)),
            PublicationAction::Pin => self.set_pinned(&model.id, true).await?,
            PublicationAction::Unpin => self.set_pinned(&model.id, false).await?,
            PublicationAction::RollBack => {
                let Some(before) = self.model_before(&model).await? else { return Ok(Err(Refused::First)) };
                self.set_published(&before).await?;
            }
        }
        let step = Step { action: request.action, who, why: request.reason.as_str().to_owned() };
        self.note_publication(&model, step, now).await?;
        let published = self.published_model(&model.hardware, model.heuristic).await?;
        Ok(published.ok_or(Refused::Unknown))
    }

    /// Takes back the models that are or were published and have learnt from uploads that were removed. In place of the
    /// published one, the newest that was published before and has learnt from no such upload is published again. Their
    /// hardware must be locked.
    ///
    /// A fence takes no model back: contributors who agree with each other could otherwise do it without an
    /// administrator.
    pub(crate) async fn take_back_models_of(&mut self, uploads: &[UploadId], now: Now) -> StoreResult<()> {
        for upload in uploads {
            let select = Statement::new(
                "SELECT m.id FROM models m JOIN model_uploads u ON u.model = m.id \
                 WHERE u.upload = $1 AND m.state IN ('published', 'earlier') ORDER BY m.id",
            );
            let rows: Vec<(String,)> = self.fetch_all(select.bind(upload.as_str())).await?;
            for (id,) in rows {
                let Some(model) = self.find_model(&parse("model id", id)?).await? else { continue };
                let why = format!("it has learnt from upload {upload}, which was removed");
                let step = Step { action: PublicationAction::RollBack, who: SERVER, why: why.clone() };
                self.note_publication(&model, step, now).await?;
                let is_published = model.state == ModelState::Published;
                let mut before = if is_published { self.model_before(&model).await? } else { None };
                while let Some(tainted) = before.take_if(|before| before.withdrawn_uploads > 0) {
                    before = self.model_before(&tainted).await?;
                }
                let update = Statement::new(
                    "UPDATE models SET state = 'unpublished', pinned = 0, reason = $1 WHERE id = $2",
                );
                self.execute(update.bind(why.as_str()).bind(model.id.as_str())).await?;
                if let Some(before) = before {
                    self.set_published(&before).await?;
                    let why = format!("{} is taken back: {why}", model.id);
                    let step = Step { action: PublicationAction::Publish, who: SERVER, why };
                    self.note_publication(&before, step, now).await?;
                }
            }
        }
        Ok(())
    }

    /// Removes a model for good. Its hardware must be locked. If it is published, the model that was published
    /// before it is published again.
    pub(crate) async fn take_away_model(
        &mut self,
        model: &ModelSummary,
        why: &str,
        now: Now,
    ) -> StoreResult<()> {
        if model.state == ModelState::Published
            && let Some(before) = self.model_before(model).await?
        {
            self.set_published(&before).await?;
            let why = format!("{} is gone: {why}", model.id);
            self.note_publication(
                &before,
                Step { action: PublicationAction::Publish, who: SERVER, why },
                now,
            )
            .await?;
        }
        self.remove_model(&model.id).await
    }

    /// The model that was published before this one. Models that were rolled back since are skipped.
    async fn model_before(&mut self, model: &ModelSummary) -> StoreResult<Option<ModelSummary>> {
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
        let row: Option<(String,)> = self.fetch_optional(select).await?;
        match row {
            Some((id,)) => {
                let id: ModelId = parse("model id", id)?;
                self.find_model(&id).await
            }
            None => Ok(None),
        }
    }

    async fn note_publication(&mut self, model: &ModelSummary, step: Step<'_>, now: Now) -> StoreResult<()> {
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
        self.execute(insert).await?;
        Ok(())
    }
}
