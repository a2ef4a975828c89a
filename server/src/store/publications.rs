//! Which models are published, in domain words, and trainings that the server asks for by itself.

use async_trait::async_trait;
use diode_core::Heuristic;
use diode_core::api::{Job, ModelState, ModelSummary, NewPublication, Publication};
use diode_core::hardware::Hardware;
use diode_core::ids::{HardwareSlug, ModelId, UploadId};

use super::error::StoreResult;
use super::types::Now;

/// How a new model compares with the published one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedWithPublished {
    /// The published model that it was compared with.
    pub beside: Option<ModelId>,
    /// Whether it is no worse.
    pub publish: bool,
    pub why: String,
}

/// Why nothing happens to a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refused {
    /// There is none by this id.
    Unknown,
    /// It is the published one already.
    Published,
    /// It is not the published one.
    NotPublished,
    /// None was published before it.
    First,
    /// It is of a type that is never published.
    ForComparison,
    /// Only the server does this.
    OnlyTheServer,
}

impl Refused {
    /// In words for whoever asked.
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

/// When a training is due.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// So many problems must have been measured since a training was last asked for, …
    pub problems: u64,
    /// … and so many for each that had been by then, …
    pub share: f64,
    /// … and so many milliseconds must have passed.
    pub pause: i64,
}

impl Due {
    /// Whether a training is due now, if there were so many problems before and the last one was asked for then.
    pub(super) fn is_due(&self, before: u64, there: u64, asked: Option<i64>, now: Now) -> bool {
        let new = there.saturating_sub(before);
        new >= self.problems.max(1)
            && new as f64 >= self.share * before as f64
            && asked.is_none_or(|asked| now.millis() - asked >= self.pause)
    }
}

/// What the server remembers of publications. Every method is one transaction.
#[async_trait]
pub trait PublicationStore: Send + Sync {
    /// The published model of a hardware; `None` if there is none.
    async fn published(
        &self,
        hardware: &HardwareSlug,
        heuristic: Heuristic,
    ) -> StoreResult<Option<ModelSummary>>;

    /// Makes a model known that was trained on these uploads, and publishes it if it was judged to be no worse
    /// than the published one and that is not pinned. `None` if another one is published by now: then it must
    /// be judged again.
    ///
    /// Keeps the models of its cross-validation beside it, the file of [`diode_model::UnseenModels`], if there are
    /// any. Those of the hardware's other models that are not published are removed then.
    async fn add_judged_model(
        &self,
        model: &ModelSummary,
        hardware: &Hardware,
        uploads: &[UploadId],
        unseen_models: Option<&[u8]>,
        judged: &ComparedWithPublished,
        now: Now,
    ) -> StoreResult<Option<ModelState>>;

    /// The models of a model's cross-validation, as they were added with it; `None` if there are none any more.
    async fn unseen_models(&self, model: &ModelId) -> StoreResult<Option<Vec<u8>>>;

    /// Does what an administrator asks for, and writes it down. Returns the model that is published then.
    async fn publish(
        &self,
        request: &NewPublication,
        who: &str,
        now: Now,
    ) -> StoreResult<Result<ModelSummary, Refused>>;

    /// The newest steps in the history of a hardware's models, newest first.
    async fn publications(&self, hardware: &HardwareSlug, limit: u32) -> StoreResult<Vec<Publication>>;

    /// Queues a training if enough has been measured since one was last asked for. However many processes
    /// call this at once, one job is queued. `false` if none was.
    async fn queue_training(&self, job: &Job, due: &Due, now: Now) -> StoreResult<bool>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_training_needs_news_and_time() {
        let now = Now::read();
        let due = Due { problems: 50, share: 0.1, pause: 1000 };
        assert!(due.is_due(0, 50, None, now) && !due.is_due(0, 49, None, now));
        assert!(due.is_due(1000, 1100, None, now) && !due.is_due(1000, 1099, None, now));
        assert!(!due.is_due(100, 40, None, now), "what was taken away is no news");
        assert!(!due.is_due(0, 50, Some(now.millis() - 999), now));
        assert!(due.is_due(0, 50, Some(now.millis() - 1000), now));
        let always = Due { problems: 0, share: 0.0, pause: 0 };
        assert!(!always.is_due(7, 7, None, now), "nothing new is never enough");
    }
}
