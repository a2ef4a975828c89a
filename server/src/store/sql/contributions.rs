//! The SQL of models that people contribute.

mod add;
mod read;
mod remove;
mod review;

use async_trait::async_trait;
use diode_api::{Job, ModelFigures, ModelSummary, Review};
use diode_core::ids::{Digest, JobId, ModelId};
use sqlx::Database;

pub(super) use read::{check, unaccepted_files};
pub(super) use remove::{hardware_of_account, remove_of_account};

use super::connection::{Connection, Lockable};
use super::fields::json;
use super::log::write_down;
use super::statement::Statement;
use super::{SqlStore, reader, writer};
use crate::blobs::BlobKind;
use crate::store::contributions::{
    ContributionFilter, ContributionStore, NewContribution, ReviewRefused, TakenModel,
};
use crate::store::error::StoreResult;
use crate::store::types::Now;

#[async_trait]
impl<DB: Database<Connection: Connection>> ContributionStore for SqlStore<DB> {
    async fn contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
        let mut tx = writer(self).await?;
        tx.keep(Lockable::File(BlobKind::Model, &new.model.digest)).await?;
        let taken = add::add(&mut *tx, new, now).await?;
        if matches!(taken, TakenModel::New(_)) {
            tx.commit().await?;
        }
        Ok(taken)
    }

    async fn may_contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
        // The transaction is dropped without a commit.
        add::add(&mut *writer(self).await?, new, now).await
    }

    async fn contribution(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        read::find(&mut *reader(self).await?, id).await
    }

    async fn contributions(&self, filter: &ContributionFilter, limit: u32) -> StoreResult<Vec<ModelSummary>> {
        read::list(&mut *reader(self).await?, filter, limit).await
    }

    async fn contribution_of_job(&self, job: &JobId) -> StoreResult<Option<ModelSummary>> {
        read::waiting_for(&mut *reader(self).await?, job).await
    }

    async fn note_figures(&self, job: &JobId, figures: &ModelFigures) -> StoreResult<bool> {
        let figures = json("figures", figures)?;
        let update = || {
            Statement::new(
                "UPDATE contributed_models SET state = 'evaluated', figures = $1 \
                 WHERE job = $2 AND state = 'waiting'",
            )
            .bind(figures.as_str())
            .bind(job.as_str())
        };
        in_transaction!(self, tx => tx.execute(update())).map(|changed| changed > 0)
    }

    async fn review(
        &self,
        review: &Review,
        job: Option<&Job>,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, ReviewRefused>> {
        let mut tx = writer(self).await?;
        let done = review::act(&mut *tx, review, job, now).await?;
        if let Ok(model) = &done {
            let by = model.contribution.as_ref().and_then(|contribution| contribution.by.as_ref());
            let by = by.map_or(String::new(), |by| format!(" of {by}"));
            let what = format!("{} contributed model {}{by}", review.action, review.model);
            write_down(&mut *tx, &what, &review.reason, who, now).await?;
            tx.commit().await?;
        }
        Ok(done)
    }

    async fn names_model_file(&self, digest: &Digest) -> StoreResult<bool> {
        let id = ModelId::of_digest(digest);
        let select = Statement::new(
            "SELECT id FROM models WHERE id = $1 UNION SELECT id FROM contributed_models WHERE id = $1",
        );
        let row: Option<(String,)> = reader(self).await?.fetch_optional(select.bind(id.as_str())).await?;
        Ok(row.is_some())
    }
}
