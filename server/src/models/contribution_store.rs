//! Models that people contribute, and the reviews that decide about them.

use std::collections::BTreeSet;

use diode_api::{
    Contribution, ContributionState, Job, Licence, ModelDescription, ModelFigures, ModelSource, ModelSummary,
    Reason, Uploads,
};
use diode_core::ids::{AccountId, Digest, HardwareSlug, JobId, ModelId};

use crate::blobs::{BlobKey, BlobKind};
use crate::jobs::job_store::Queued;
use crate::models::model_store::model_columns;
use crate::store::Store;
use crate::store::connection::Connection;
use crate::store::connection::{Exclusive, Lockable, in_transaction};
use crate::store::fields::{Readable, from_json, json, named, optional, parse, readable_row};
use crate::store::statement::Statement;
use crate::store::upkeep::CheckedRows;
use crate::store::{Now, StoreResult};

/// How many models of one account may wait for an administrator. There is a limit because each takes an
/// administrator's time.
pub const MAX_WAITING_MODELS: u32 = 5;

/// A new contributed model that has passed the checks.
#[derive(Debug, Clone)]
pub struct NewContribution {
    pub model: ModelSummary,
    pub account: AccountId,
    pub description: ModelDescription,
    pub licence: Licence,
    /// Whether the model's file says that the model was trained without the kept problems.
    pub without_kept: bool,
    /// The job that judges the model.
    pub job: Job,
}

/// The result of sending a model.
#[derive(Debug, Clone, PartialEq)]
pub enum TakenModel {
    New(Box<ModelSummary>),
    /// The same account has sent the same bytes before.
    There(Box<ModelSummary>),
    /// Another account has sent the same bytes.
    OfAnother,
    /// The file is one of the server's own models.
    Known,
    /// The account already has [`MAX_WAITING_MODELS`].
    TooMany,
    /// The job could not be queued.
    NoJob(Queued),
}

/// Which contributed models are listed.
#[derive(Debug, Clone, Default)]
pub struct ContributionFilter {
    pub account: Option<AccountId>,
    pub state: Option<ContributionState>,
}

/// What an administrator decides about a contributed model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewAction {
    /// It becomes one of the server's models, but is not published yet.
    Accept,
    /// It is not wanted, or no longer one of the server's models.
    Decline,
    /// The server judges it again, because there are new timings or its job has failed.
    Judge,
}

impl std::fmt::Display for ReviewAction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Judge => "judge",
        })
    }
}

/// What an administrator does with a contributed model. It is written down with the reason.
#[derive(Debug, Clone)]
pub struct Review {
    pub action: ReviewAction,
    pub model: ModelId,
    /// Its contributor can read it; of an accepted model, everybody can.
    pub reason: Reason,
}

/// Why a review changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewRefused {
    /// Nobody has contributed a model with this id.
    Unknown,
    /// The model is in a state that does not allow this.
    NotNow(ContributionState),
    /// The job that judges the model has not ended yet.
    BeingJudged,
    /// The job could not be queued.
    NoJob(Queued),
}

impl ReviewRefused {
    /// The reason in words, for the caller.
    pub(crate) fn explain(self, review: &Review) -> String {
        let (action, model) = (review.action, &review.model);
        match self {
            Self::Unknown => {
                format!("nobody has contributed a model `{model}`; /account/models lists what there is")
            }
            Self::NotNow(ContributionState::Waiting) => {
                format!(
                    "model `{model}` has not been judged yet, so `{action}` is not possible; see its job, and ask for \
                     `judge` if that was cancelled or has failed"
                )
            }
            Self::NotNow(state) => format!("model `{model}` is {state}, so `{action}` is not possible"),
            Self::BeingJudged => format!("the job that judges model `{model}` has not ended yet"),
            Self::NoJob(Queued::Full) => "too many jobs wait already; try again later".to_owned(),
            Self::NoJob(_) => "the job could not be queued; try again later".to_owned(),
        }
    }
}

/// The columns, from `contributed_models c` and `accounts a`. All are NULL for a model that nobody has
/// contributed.
pub(crate) const CONTRIBUTION_COLUMNS: &str = "c.state AS contributed, a.name AS by_name, c.sent_at, c.description, c.licence, \
    c.without_kept, c.figures, c.reason AS said, c.job";

readable_row!(Option<Contribution> {
    contributed: Option<String>, by_name, sent_at: Option<String>, description: Option<String>,
    licence: Option<String>, without_kept: Option<i64>, figures: Option<String>, said: Option<String>,
    job: Option<String>
} => match contributed {
    None => None,
    Some(state) => Some(Contribution {
        state: named("state of a contributed model", &state)?,
        by: optional("account name", by_name)?,
        sent_at: sent_at.unwrap_or_default(),
        description: parse("description", description.unwrap_or_default())?,
        licence: parse("licence", licence.unwrap_or_default())?,
        without_kept: without_kept == Some(1),
        figures: figures.map(|figures| from_json("figures", &figures)).transpose()?,
        reason: said.unwrap_or_default(),
        job: parse("job id", job.unwrap_or_default())?,
    }),
});

impl Store {
    /// Adds a model that waits to be judged, and queues the job that judges it: both or neither. The same
    /// bytes are added once.
    pub async fn contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
        let mut tx = self.writer().await?;
        tx.keep(Lockable::File(BlobKind::Model, &new.model.digest)).await?;
        let taken = tx.add_contribution(new, now).await?;
        if matches!(taken, TakenModel::New(_)) {
            tx.commit().await?;
        }
        Ok(taken)
    }

    /// What [`contribute`](Self::contribute) would return now. Adds nothing.
    pub async fn may_contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel> {
        // The transaction is dropped without a commit.
        self.writer().await?.add_contribution(new, now).await
    }

    /// A contributed model in any state; `None` if there is none with this id.
    pub async fn contribution(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        self.reader().await?.find_contribution(id).await
    }

    /// The newest contributed models that pass a filter, the newest first.
    pub async fn contributions(
        &self,
        filter: &ContributionFilter,
        limit: u32,
    ) -> StoreResult<Vec<ModelSummary>> {
        self.reader().await?.list_contributions(filter, limit).await
    }

    /// The model that a job will judge; `None` if the model no longer exists.
    pub async fn contribution_of_job(&self, job: &JobId) -> StoreResult<Option<ModelSummary>> {
        let db = &mut self.reader().await?;
        let waiting = ContributionState::Waiting.as_str();
        let select = select_contributions().push(" WHERE c.job = ").push_bind(job.as_str());
        db.one_contribution(select.push(" AND c.state = ").push_bind(waiting)).await
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
        in_transaction!(self, async |db| { db.execute(update()).await }).map(|changed| changed > 0)
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
        let done = tx.review_contribution(review, job, now).await?;
        if let Ok(model) = &done {
            let by = model.contribution.as_ref().and_then(|contribution| contribution.by.as_ref());
            let by = by.map_or(String::new(), |by| format!(" of {by}"));
            let what = format!("{} contributed model {}{by}", review.action, review.model);
            tx.write_down(&what, &review.reason, who, now).await?;
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

impl Connection {
    /// The caller must commit only if this returns [`TakenModel::New`].
    pub(crate) async fn add_contribution(
        &mut self,
        new: &NewContribution,
        now: Now,
    ) -> StoreResult<TakenModel> {
        // One transaction at a time. Otherwise two could together exceed the limit.
        self.turn(Exclusive::Queue).await?;
        let id = &new.model.id;
        let sender = Statement::new("SELECT account FROM contributed_models WHERE id = $1").bind(id.as_str());
        let sender: Option<(Option<String>,)> = self.fetch_optional(sender).await?;
        match (sender, self.find_contribution(id).await?) {
            (Some((Some(sender),)), Some(found)) if sender == new.account.as_str() => {
                return Ok(TakenModel::There(Box::new(found)));
            }
            (Some(_), _) => return Ok(TakenModel::OfAnother),
            (None, _) if self.find_model(id).await?.is_some() => return Ok(TakenModel::Known),
            (None, _) => {}
        }
        let count = Statement::new(
            "SELECT COUNT(*) FROM contributed_models WHERE account = $1 AND state IN ('waiting', \
             'evaluated')",
        );
        let (waiting,): (i64,) = self.fetch_one(count.bind(new.account.as_str())).await?;
        if waiting >= i64::from(MAX_WAITING_MODELS) {
            return Ok(TakenModel::TooMany);
        }
        match self.enqueue(&new.job, Some(&new.account), now).await? {
            Queued::Yes => {}
            refused => return Ok(TakenModel::NoJob(refused)),
        }
        let insert = Statement::new(
            "INSERT INTO contributed_models (id, account, hardware, state, sent_at, description, licence, \
             without_kept, summary, job, bytes) VALUES ($1, $2, $3, 'waiting', $4, $5, $6, $7, $8, $9, $10)",
        )
        .bind(id.as_str())
        .bind(new.account.as_str())
        .bind(new.model.hardware.as_str())
        .bind(now.rfc3339())
        .bind(new.description.as_str())
        .bind(new.licence.as_str())
        .bind(i64::from(new.without_kept))
        .bind(json("model summary", &new.model)?)
        .bind(new.job.id.as_str())
        .bind(new.model.bytes);
        self.execute(insert).await?;
        let added = self.find_contribution(id).await?.ok_or(sqlx::Error::RowNotFound)?;
        Ok(TakenModel::New(Box::new(added)))
    }

    pub(crate) async fn find_contribution(&mut self, id: &ModelId) -> StoreResult<Option<ModelSummary>> {
        self.one_contribution(select_contributions().push(" WHERE c.id = ").push_bind(id.as_str())).await
    }

    async fn one_contribution(&mut self, select: Statement) -> StoreResult<Option<ModelSummary>> {
        self.read_optional(select).await
    }

    pub(crate) async fn list_contributions(
        &mut self,
        filter: &ContributionFilter,
        limit: u32,
    ) -> StoreResult<Vec<ModelSummary>> {
        let mut select = select_contributions().push(" WHERE 1 = 1");
        if let Some(account) = &filter.account {
            select = select.push(" AND c.account = ").push_bind(account.as_str());
        }
        if let Some(state) = filter.state {
            select = select.push(" AND c.state = ").push_bind(state.as_str());
        }
        let select = select.push(" ORDER BY c.position DESC LIMIT ").push_bind(i64::from(limit));
        self.read_all(select).await
    }

    /// Reads every contributed model.
    pub(crate) async fn check_contributions(&mut self, checked: &mut CheckedRows) -> StoreResult<()> {
        let ids: Vec<(String,)> =
            self.fetch_all(Statement::new("SELECT id FROM contributed_models ORDER BY position")).await?;
        let rows: Vec<Readable<ModelSummary>> =
            self.fetch_all(select_contributions().push(" ORDER BY c.position")).await?;
        for ((id,), Readable(model)) in ids.iter().zip(rows) {
            checked.note("contributed model", id, model.map(drop));
        }
        Ok(())
    }

    /// The id and the summary of contributed models that are not among the server's models.
    pub(crate) async fn unaccepted_files(&mut self) -> StoreResult<Vec<(String, String)>> {
        let select = "SELECT id, summary FROM contributed_models WHERE id NOT IN (SELECT id FROM models)";
        self.fetch_all(Statement::new(select)).await
    }

    /// The hardware of the models that an account has contributed.
    pub(crate) async fn hardware_of_contributions(
        &mut self,
        account: &AccountId,
    ) -> StoreResult<BTreeSet<HardwareSlug>> {
        Ok(self.contributions_of(account).await?.into_iter().map(|model| model.hardware).collect())
    }

    async fn contributions_of(&mut self, account: &AccountId) -> StoreResult<Vec<ModelSummary>> {
        let filter = ContributionFilter { account: Some(account.clone()), state: None };
        self.list_contributions(&filter, u32::MAX).await
    }

    /// Removes the models that an account has contributed. Accepted models stay if the account's uploads stay. The
    /// hardware must be locked. Returns the files.
    pub(crate) async fn remove_contributions_of(
        &mut self,
        account: &AccountId,
        uploads: Uploads,
        now: Now,
    ) -> StoreResult<Vec<BlobKey>> {
        let mut files = Vec::new();
        for model in self.contributions_of(account).await? {
            let state = model.contribution.as_ref().map(|contribution| contribution.state);
            let is_accepted = state == Some(ContributionState::Accepted);
            if is_accepted && uploads == Uploads::Keep {
                continue;
            }
            if is_accepted && model.source == ModelSource::Contributed {
                self.take_away_model(&model, "its contributor has deleted it", now).await?;
            }
            let delete =
                Statement::new("DELETE FROM contributed_models WHERE id = $1").bind(model.id.as_str());
            self.execute(delete).await?;
            files.push((BlobKind::Model, model.digest));
        }
        Ok(files)
    }

    /// The caller must commit only if nothing is refused.
    pub(crate) async fn review_contribution(
        &mut self,
        review: &Review,
        job: Option<&Job>,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, ReviewRefused>> {
        self.turn(Exclusive::Queue).await?;
        let Some(found) = self.find_contribution(&review.model).await? else {
            return Ok(Err(ReviewRefused::Unknown));
        };
        let Some(described) = self.lock_hardware(&found.hardware).await? else {
            return Ok(Err(ReviewRefused::Unknown));
        };
        // The model is read again, because another administrator may have been first, or the account was deleted.
        let Some(model) = self.find_contribution(&review.model).await? else {
            return Ok(Err(ReviewRefused::Unknown));
        };
        let Some(contribution) = model.contribution.clone() else { return Ok(Err(ReviewRefused::Unknown)) };
        if !allows(&contribution, review) {
            return Ok(Err(ReviewRefused::NotNow(contribution.state)));
        }
        let becomes = match (review.action, job) {
            (ReviewAction::Accept, _) => {
                let bare = ModelSummary { contribution: None, kept: None, ..model };
                // Adds nothing if the server has trained the same model since.
                if self.add_model(&bare, &described, &[]).await? {
                    let why = contribution.figures.map_or(String::new(), |figures| figures.why);
                    self.set_model_reason(&review.model, &why).await?;
                }
                ContributionState::Accepted
            }
            (ReviewAction::Decline, _) => {
                if contribution.state == ContributionState::Accepted
                    && model.source == ModelSource::Contributed
                {
                    self.take_away_model(&model, review.reason.as_str(), now).await?;
                }
                ContributionState::Declined
            }
            (ReviewAction::Judge, None) => return Ok(Err(ReviewRefused::NotNow(contribution.state))),
            (ReviewAction::Judge, Some(job)) => {
                if let Some(refused) = self.judge_anew(&contribution, review, job, now).await? {
                    return Ok(Err(refused));
                }
                ContributionState::Waiting
            }
        };
        let update = Statement::new("UPDATE contributed_models SET state = $1, reason = $2 WHERE id = $3")
            .bind(becomes.as_str())
            .bind(if becomes == ContributionState::Waiting { "" } else { review.reason.as_str() })
            .bind(review.model.as_str());
        self.execute(update).await?;
        Ok(self.find_contribution(&review.model).await?.ok_or(ReviewRefused::Unknown))
    }

    async fn judge_anew(
        &mut self,
        contribution: &Contribution,
        review: &Review,
        job: &Job,
        now: Now,
    ) -> StoreResult<Option<ReviewRefused>> {
        let before = self.find_job(&contribution.job).await?;
        if before.is_some_and(|before| !before.state.is_final()) {
            return Ok(Some(ReviewRefused::BeingJudged));
        }
        match self.enqueue(job, None, now).await? {
            Queued::Yes => {}
            refused => return Ok(Some(ReviewRefused::NoJob(refused))),
        }
        let update = Statement::new("UPDATE contributed_models SET job = $1 WHERE id = $2");
        self.execute(update.bind(job.id.as_str()).bind(review.model.as_str())).await?;
        Ok(None)
    }

    /// If the job should have judged a contributed model, stores why the model still waits. Otherwise does nothing.
    pub(crate) async fn note_unjudged(&mut self, job: &JobId, why: &str) -> StoreResult<()> {
        let update =
            Statement::new("UPDATE contributed_models SET reason = $1 WHERE job = $2 AND state = $3")
                .bind(why)
                .bind(job.as_str())
                .bind(ContributionState::Waiting.as_str());
        self.execute(update).await?;
        Ok(())
    }
}

/// Contributed models. Accepted models also have the columns of the server's own list.
fn select_contributions() -> Statement {
    model_columns().push(
        " FROM contributed_models c LEFT JOIN models m ON m.id = c.id LEFT JOIN accounts a ON a.id = c.account",
    )
}

/// Whether a model's state allows this review.
fn allows(contribution: &Contribution, review: &Review) -> bool {
    use ContributionState as State;
    let state = contribution.state;
    match review.action {
        ReviewAction::Accept => {
            contribution.figures.is_some() && !matches!(state, State::Waiting | State::Accepted)
        }
        ReviewAction::Decline => state != State::Declined,
        ReviewAction::Judge => state != State::Accepted,
    }
}
