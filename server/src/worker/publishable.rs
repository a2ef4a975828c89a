//! Decides whether a new model is published.

use diode_api::{ModelSummary, ModelType};
use diode_core::ids::ModelId;
use diode_model::Model;
use diode_train::{FirstPicks, TrainingSet};

use crate::store::ComparedWithPublished;

/// A new model counts as no worse if its first picks take at most this share longer than those of the published
/// model. Timings near the best vary more than that from launch to launch.
const MARGIN: f64 = 0.005;

/// With fewer problems than this, a single problem would decide.
const LEAST_PROBLEMS: usize = 5;

/// A model's first picks, and their problems.
pub(super) struct OnKept {
    pub(super) problems: TrainingSet,
    pub(super) picks: FirstPicks,
}

/// The result of comparing a model with the published one.
pub(super) struct Compared {
    /// The published model, and its first picks. `None` if there is no published model that can be judged.
    pub(super) beside: Option<ModelId>,
    pub(super) others: Option<FirstPicks>,
    /// See [`FirstPicks::beside`].
    pub(super) speed: Option<f64>,
    pub(super) no_worse: bool,
    pub(super) why: String,
}

impl Compared {
    /// The result for a model of this type. Only models that programs take by themselves are published.
    pub(super) fn of_type(self, model_type: ModelType) -> Self {
        if model_type == ModelType::Ranking {
            return self;
        }
        let found = match (&self.beside, self.speed) {
            (Some(id), Some(speed)) => {
                format!(
                    ": its first picks are {speed:.4} times as fast as those of {id} on the kept problems"
                )
            }
            _ => String::new(),
        };
        Self {
            no_worse: false,
            why: format!("`{model_type}` is for comparison and never published{found}"),
            ..self
        }
    }
}

impl From<Compared> for ComparedWithPublished {
    fn from(Compared { beside, no_worse, why, .. }: Compared) -> Self {
        Self { beside, publish: no_worse, why }
    }
}

impl OnKept {
    /// Compares a model with the published one and its file, if there is one. With large sets this takes long. The
    /// result has no meaning once `goes_on` returns false.
    pub(super) fn judge(
        &self,
        published: Option<(&ModelSummary, Option<&[u8]>)>,
        goes_on: &dyn Fn() -> bool,
    ) -> Compared {
        let told = |beside, no_worse, why| Compared { beside, others: None, speed: None, no_worse, why };
        let Some((published, file)) = published else {
            return told(None, true, "the first model of its kind here".to_owned());
        };
        let (id, beside) = (&published.id, Some(published.id.clone()));
        match file.map(Model::from_bytes) {
            None => told(beside, true, format!("the file of {id} is missing")),
            Some(Err(error)) => told(beside, true, format!("{id} cannot be used any more: {error}")),
            Some(Ok(model)) => match self.compare(id, &model, goes_on) {
                Ok(compared) => Compared { beside, ..compared },
                Err((no_worse, why)) => told(beside, no_worse, why),
            },
        }
    }

    /// If nothing can be compared, the error has the decision and the reason.
    fn compare(
        &self,
        id: &ModelId,
        model: &Model,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Compared, (bool, String)> {
        let problems = self.problems.problems();
        if problems < LEAST_PROBLEMS {
            let why = format!(
                "of the problems that are kept for judging, {problems} measured: too few to compare it with {id}, \
                 expected at least {LEAST_PROBLEMS}"
            );
            return Err((false, why));
        }
        let others = FirstPicks::of_while(model, &self.problems, goes_on)
            .map_err(|error| (true, format!("{id} cannot be judged: {error}")))?;
        let speed = self.picks.beside(&others);
        let seen = if model.metadata().training.without_kept { "" } else { ", which may have learnt them" };
        let why = format!(
            "on {problems} kept problems its first picks are {:.4} times as fast as those of {id}{seen}; {} or more is \
             no worse",
            speed,
            1.0 - MARGIN
        );
        let no_worse = speed >= 1.0 - MARGIN;
        Ok(Compared { beside: None, others: Some(others), speed: Some(speed), no_worse, why })
    }
}
