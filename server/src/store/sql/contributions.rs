//! The SQL of models that people contribute.

mod add;
mod read;
mod remove;
mod review;

use diode_api::{Job, ModelFigures, ModelSummary, Review};
use diode_core::ids::{Digest, JobId, ModelId};

pub(super) use read::{check, unaccepted_files};
pub(super) use remove::{hardware_of_account, remove_of_account};

use super::log::write_down;
use crate::blobs::BlobKind;
use crate::store::Store;
use crate::store::connection::{Lockable, in_transaction};
use crate::store::contributions::{ContributionFilter, NewContribution, ReviewRefused, TakenModel};
use crate::store::error::StoreResult;
use crate::store::fields::json;
use crate::store::statement::Statement;
use crate::store::types::Now;

impl Store {
    /// Adds a model that waits to be judged, and queues the job that judges it: both or neither. The same
    /// bytes are added once.
    pub async fn contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
        let mut tx = self.writer().await?;
        tx.keep(Lockable::File(BlobKind::Model, &new.model.digest)).await?;
        let taken = add::add(&mut tx, new, now).await?;
        if matches!(taken, TakenModel::New(_)) {
            tx.commit().await?;
        }
        Ok(taken)
    }

    /// What [`contribute`](Self::contribute) would return now. Adds nothing.
    pub async fn may_contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
        // The transaction is dropped without a commit.
        add::add(&mut self.writer().await?, new, now).await
    }

    /// A contributed model in any state; `None` if there is none with this id.
    pub async fn contribution(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        read::find(&mut self.reader().await?, id).await
    }

    /// The newest contributed models that pass a filter, the newest first.
    pub async fn contributions(
        &self,
        filter: &ContributionFilter,
        limit: u32,
    ) -> StoreResult<Vec<ModelSummary>> {
        read::list(&mut self.reader().await?, filter, limit).await
    }

    /// The model that a job will judge; `None` if the model no longer exists.
    pub async fn contribution_of_job(&self, job: &JobId) -> StoreResult<Option<ModelSummary>> {
        read::waiting_for(&mut self.reader().await?, job).await
    }

    /// Stores the figures that a job has computed. `false` if no model waits for the job any more.
    pub async fn note_figures(&self, job: &JobId, figures: &ModelFigures) -> StoreResult<bool> {
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

    /// Carries out an administrator's review, and writes it to the log. `job` judges the model anew, if the
    /// review asks for that. Returns the changed model.
    pub async fn review(
        &self,
        review: &Review,
        job: Option<&Job>,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, ReviewRefused>> {
        let mut tx = self.writer().await?;
        let done = review::act(&mut tx, review, job, now).await?;
        if let Ok(model) = &done {
            let by = model.contribution.as_ref().and_then(|contribution| contribution.by.as_ref());
            let by = by.map_or(String::new(), |by| format!(" of {by}"));
            let what = format!("{} contributed model {}{by}", review.action, review.model);
            write_down(&mut tx, &what, &review.reason, who, now).await?;
            tx.commit().await?;
        }
        Ok(done)
    }

    /// Whether a model of the server, or a contributed model, has this file.
    pub async fn names_model_file(&self, digest: &Digest) -> StoreResult<bool> {
        let id = ModelId::of_digest(digest);
        let select = Statement::new(
            "SELECT id FROM models WHERE id = $1 UNION SELECT id FROM contributed_models WHERE id = $1",
        );
        let row: Option<(String,)> = self.reader().await?.fetch_optional(select.bind(id.as_str())).await?;
        Ok(row.is_some())
    }
}
