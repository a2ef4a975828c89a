//! The SQL of publications.

mod steps;
mod trainings;
mod unseen_models;

use diode_api::{Job, ModelState, ModelSummary, NewPublication, Publication};
use diode_core::Heuristic;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};

use super::models;
use crate::store::Store;
use crate::store::connection::in_transaction;
use crate::store::error::StoreResult;
use crate::store::publications::{ComparedWithPublished, Due, Refused};
use crate::store::types::Now;

pub(super) use steps::{add_shipped, take_away};

impl Store {
    /// The published model of a hardware; `None` if there is none.
    pub async fn published(
        &self,
        hardware: &HardwareSlug,
        heuristic: Heuristic,
    ) -> StoreResult<Option<ModelSummary>> {
        models::published(&mut self.reader().await?, hardware, heuristic).await
    }

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
        in_transaction!(
            self,
            tx => steps::add_judged(tx, model, hardware, uploads, unseen_models, judged, now),
            if Some(_)
        )
    }

    /// The models of a model's cross-validation; `None` if they were removed or never existed.
    pub async fn unseen_models(&self, model: &ModelId) -> StoreResult<Option<Vec<u8>>> {
        unseen_models::find(&mut self.reader().await?, model).await
    }

    /// Carries out an administrator's request, and writes it to the log. Returns the model that is then published.
    pub async fn publish(
        &self,
        request: &NewPublication,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, Refused>> {
        in_transaction!(self, tx => steps::publish(tx, request, who, now), if Ok(_))
    }

    /// The newest steps in the history of a hardware's models, the newest first.
    pub async fn publications(&self, hardware: &HardwareSlug, limit: u32) -> StoreResult<Vec<Publication>> {
        steps::list(&mut self.reader().await?, hardware, limit).await
    }

    /// Queues a training if enough has been measured since a training was last asked for. If several processes
    /// call this at once, only one job is queued. `false` if this call queued none.
    pub async fn queue_training(&self, job: &Job, due: &Due, now: Now) -> StoreResult<bool> {
        // A check without a lock comes first, because most of the time no training is due.
        if !trainings::is_due(&mut self.read_transaction().await?, &job.request, due, now).await? {
            return Ok(false);
        }
        in_transaction!(self, tx => trainings::queue(tx, job, due, now))
    }
}
