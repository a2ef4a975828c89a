//! What the rest of the server may ask of the store about contributed models.

use diode_api::{ContributionState, Job, Licence, ModelDescription, ModelSummary, Review};
use diode_core::ids::AccountId;

use super::types::Queued;

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
