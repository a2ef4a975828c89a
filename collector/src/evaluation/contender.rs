//! A model that is judged.

use std::path::Path;

use anyhow::Context as _;
use diode_model::{AnyModel, Predictor as _};
use diode_train::{Evaluation, Judged, TrainingSet};
use serde::Serialize;

/// A model and what its evaluation found.
#[derive(Serialize)]
pub(crate) struct Contender {
    /// The name of the model's file.
    pub(crate) model: String,
    /// `ranking`, or a kind of torch-diode's models: `v1`, `base`, `deep`.
    pub(crate) kind: &'static str,
    /// How `v1` got its inputs: `right`, or `as the plug-in did`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) fed: Option<&'static str>,
    pub(crate) parameters: u64,
    #[serde(flatten)]
    pub(crate) evaluation: Evaluation,
}

impl Contender {
    pub(crate) fn of(
        path: &Path,
        model: &AnyModel,
        set: &TrainingSet,
    ) -> anyhow::Result<(Self, Vec<Judged>)> {
        let (evaluation, judged) = Evaluation::of(model, set).with_context(|| path.display().to_string())?;
        let fed = matches!(model, AnyModel::Predecessor(model) if model.as_the_plug_in_fed_it().is_some());
        Ok((Self::new(path, model, fed.then_some("right"), evaluation), judged))
    }

    /// Judges torch-diode's `v1` once more, with the inputs that torch-diode's plug-in gave it.
    /// Empty for all other models.
    pub(crate) fn fed_otherwise(
        path: &Path,
        model: &AnyModel,
        set: &TrainingSet,
    ) -> anyhow::Result<Vec<Self>> {
        let AnyModel::Predecessor(predecessor) = model else { return Ok(Vec::new()) };
        let Some(raw) = predecessor.as_the_plug_in_fed_it() else { return Ok(Vec::new()) };
        let (evaluation, _) = Evaluation::of(&raw, set)?;
        Ok(vec![Self::new(path, model, Some("as the plug-in did"), evaluation)])
    }

    fn new(path: &Path, model: &AnyModel, fed: Option<&'static str>, evaluation: Evaluation) -> Self {
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        Self { model: name, kind: model.kind(), fed, parameters: model.parameters(), evaluation }
    }

    pub(crate) fn name(&self) -> String {
        match self.fed {
            Some("right") | None => self.model.clone(),
            Some(fed) => format!("{}, fed {fed}", self.model),
        }
    }
}
