//! The SQL of publications.

mod steps;
mod trainings;
mod unseen_models;

use async_trait::async_trait;
use diode_api::{Job, ModelState, ModelSummary, NewPublication, Publication};
use diode_core::Heuristic;
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};
use sqlx::Database;

use super::connection::Connection;
use super::{SqlStore, models, reader, snapshot};
use crate::store::error::StoreResult;
use crate::store::publications::{ComparedWithPublished, Due, PublicationStore, Refused};
use crate::store::types::Now;

pub(super) use steps::{add_shipped, take_away};

#[async_trait]
impl<DB: Database<Connection: Connection>> PublicationStore for SqlStore<DB> {
    async fn published(
        &self,
        hardware: &HardwareSlug,
        heuristic: Heuristic,
    ) -> StoreResult<Option<ModelSummary>> {
        models::published(&mut *reader(self).await?, hardware, heuristic).await
    }

    async fn add_judged_model(
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

    async fn unseen_models(&self, model: &ModelId) -> StoreResult<Option<Vec<u8>>> {
        unseen_models::find(&mut *reader(self).await?, model).await
    }

    async fn publish(
        &self,
        request: &NewPublication,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, Refused>> {
        in_transaction!(self, tx => steps::publish(tx, request, who, now), if Ok(_))
    }

    async fn publications(&self, hardware: &HardwareSlug, limit: u32) -> StoreResult<Vec<Publication>> {
        steps::list(&mut *reader(self).await?, hardware, limit).await
    }

    async fn queue_training(&self, job: &Job, due: &Due, now: Now) -> StoreResult<bool> {
        // A check without a lock comes first, because most of the time no training is due.
        if !trainings::is_due(&mut *snapshot(self).await?, &job.request, due, now).await? {
            return Ok(false);
        }
        in_transaction!(self, tx => trainings::queue(tx, job, due, now))
    }
}
