//! Models that people contribute, in domain words.

use async_trait::async_trait;
use diode_core::api::{
    ContributionState, Job, Licence, ModelDescription, ModelFigures, ModelSummary, Review,
};
use diode_core::ids::{AccountId, Digest, JobId, ModelId};

use super::error::StoreResult;
use super::types::{Now, Queued};

/// Models of one account that wait for an administrator at most: each costs one time.
pub const MAX_WAITING_MODELS: u32 = 5;

/// A model on its way into the store, checked.
#[derive(Debug, Clone)]
pub struct NewContribution {
    pub model: ModelSummary,
    pub account: AccountId,
    pub description: ModelDescription,
    pub licence: Licence,
    /// Whether its file says that it has not learnt the kept problems.
    pub without_kept: bool,
    /// What judges it.
    pub job: Job,
}

/// What became of a model that was sent.
#[derive(Debug, Clone, PartialEq)]
pub enum TakenModel {
    New(Box<ModelSummary>),
    /// The same account has sent these very bytes before.
    There(Box<ModelSummary>),
    /// Another account has.
    OfAnother,
    /// It is one of the server's models, which nobody has contributed.
    Known,
    /// The account has [`MAX_WAITING_MODELS`].
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

/// Why a review changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReviewRefused {
    /// Nobody has contributed a model of this id.
    Unknown,
    /// In this state it cannot be done.
    NotNow(ContributionState),
    /// The job that judges it has not ended yet.
    BeingJudged,
    /// The job could not be queued.
    NoJob(Queued),
}

impl ReviewRefused {
    /// In words for whoever asked.
    pub(crate) fn explain(self, review: &Review) -> String {
        let (action, model) = (review.action, &review.model);
        match self {
            Self::Unknown => {
                format!("nobody has contributed a model `{model}`; /api/v1/reviews lists what there is")
            }
            Self::NotNow(ContributionState::Waiting) => {
                format!(
                    "model `{model}` has not been judged yet, so `{action}` is not possible; see its job, and ask for \
                     `evaluate` if that was cancelled or has failed"
                )
            }
            Self::NotNow(state) => format!("model `{model}` is {state}, so `{action}` is not possible"),
            Self::BeingJudged => format!("the job that judges model `{model}` has not ended yet"),
            Self::NoJob(Queued::Full) => "too many jobs wait already; try again later".to_owned(),
            Self::NoJob(_) => "the job could not be queued; try again later".to_owned(),
        }
    }
}

/// What the server remembers of models that people contribute. Every method is one transaction.
#[async_trait]
pub trait ContributionStore: Send + Sync {
    /// Adds a model that waits to be judged, and queues the job that does so: both or neither. The same bytes
    /// are added once.
    async fn contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel>;

    /// What [`contribute`](Self::contribute) would return now. Adds nothing.
    async fn may_contribute(&self, new: &NewContribution, now: Now) -> StoreResult<TakenModel>;

    /// A contributed model in whichever state; `None` if there is none by this id.
    async fn contribution(&self, id: &ModelId) -> StoreResult<Option<ModelSummary>>;

    /// The newest contributed models that a filter leaves, newest first.
    async fn contributions(&self, filter: &ContributionFilter, limit: u32) -> StoreResult<Vec<ModelSummary>>;

    /// The model that waits for a job to judge it; `None` if it is gone.
    async fn contribution_of_job(&self, job: &JobId) -> StoreResult<Option<ModelSummary>>;

    /// Keeps what a job has found of a model. `false` if none waits for it any more.
    async fn note_figures(&self, job: &JobId, figures: &ModelFigures) -> StoreResult<bool>;

    /// Does what an administrator asks for, and writes it down. `job` judges the model anew, if that is asked
    /// for. Returns the model as it is then.
    async fn review(
        &self,
        review: &Review,
        job: Option<&Job>,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, ReviewRefused>>;

    /// Whether a model of the server, or one that was contributed, has this file.
    async fn names_model_file(&self, digest: &Digest) -> StoreResult<bool>;
}
