//! What the rest of the server may ask of the store about published models, and about trainings that the server
//! asks for by itself.

use diode_core::ids::ModelId;

use super::types::Now;

/// How a new model compares with the published model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ComparedWithPublished {
    /// The published model that the new model was compared with.
    pub beside: Option<ModelId>,
    /// Whether the new model is no worse.
    pub publish: bool,
    pub why: String,
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

/// When a training is due. All three conditions must hold.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Due {
    /// How many problems must be new since a training was last asked for.
    pub problems: u64,
    /// How many problems must be new, divided by the number of problems at that time.
    pub share: f64,
    /// How many milliseconds must have passed since then.
    pub pause: i64,
}

impl Due {
    /// Whether a training is due now. The last training was asked for at `asked`, when there were `before`
    /// problems. Now there are `there`.
    pub(super) fn is_due(&self, before: u64, there: u64, asked: Option<i64>, now: Now) -> bool {
        let new = there.saturating_sub(before);
        new >= self.problems.max(1)
            && new as f64 >= self.share * before as f64
            && asked.is_none_or(|asked| now.millis() - asked >= self.pause)
    }
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
