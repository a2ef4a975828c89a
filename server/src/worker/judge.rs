//! Whether a new model is published.

use diode_core::api::ModelSummary;
use diode_model::Model;
use diode_train::{FirstPicks, TrainingSet};

use crate::store::Judged;

/// A model whose first picks take so much longer, as a share, is no worse: timings near the best vary by more
/// from launch to launch.
const MARGIN: f64 = 0.005;

/// On fewer problems one of them would decide.
const LEAST_PROBLEMS: usize = 5;

/// A new model's first picks, and the problems that they are for.
pub(super) struct OnKept {
    pub(super) problems: TrainingSet,
    pub(super) picks: FirstPicks,
}

impl OnKept {
    /// Compares a new model with the published one and its file, if there is one. Long work, for large sets.
    pub(super) fn judge(&self, published: Option<(&ModelSummary, Option<&[u8]>)>) -> Judged {
        let Some((published, file)) = published else {
            return Judged {
                beside: None,
                publish: true,
                why: "the first model of its kind here".to_owned(),
            };
        };
        let id = &published.id;
        let (publish, why) = match file.map(Model::from_bytes) {
            None => (true, format!("the file of {id} is missing")),
            Some(Err(error)) => (true, format!("{id} cannot be used any more: {error}")),
            Some(Ok(model)) => self.compare(published, &model),
        };
        Judged { beside: Some(id.clone()), publish, why }
    }

    fn compare(&self, published: &ModelSummary, model: &Model) -> (bool, String) {
        let (id, problems) = (&published.id, self.problems.problems());
        if problems < LEAST_PROBLEMS {
            let why = format!(
                "{problems} problems that are kept for judging have been measured, too few to compare it with {id}: \
                 expected at least {LEAST_PROBLEMS}"
            );
            return (false, why);
        }
        let others = match FirstPicks::of(model, &self.problems) {
            Ok(others) => others,
            Err(error) => return (true, format!("{id} cannot be judged: {error}")),
        };
        let speed = self.picks.beside(&others);
        let seen = if model.metadata().training.without_kept { "" } else { ", which may have learnt them" };
        let why = format!(
            "on {problems} kept problems its first picks are {:.4} times as fast as those of {id}{seen}; {} or more is \
             no worse",
            speed,
            1.0 - MARGIN
        );
        (speed >= 1.0 - MARGIN, why)
    }
}
