use diode_api::{EvaluationReport, KeptReport, ModelSource, ModelState, ModelSummary, ModelType};
use diode_compat::{Architecture, PredecessorMetadata};
use diode_core::hardware::Hardware;
use diode_core::ids::{Digest, JobId, ModelId};
use diode_core::{DType, Heuristic, Op};
use diode_model::{Metadata, Model, Training};

/// What the file of every type of model states.
pub(super) struct About<'a> {
    pub(super) model_type: ModelType,
    heuristic: Heuristic,
    pub(super) hardware: &'a Hardware,
    ops: &'a [Op],
    dtypes: &'a [DType],
    feature_set: &'a str,
    training: &'a Training,
    evaluation: Option<&'a EvaluationReport>,
}

impl<'a> From<&'a Metadata> for About<'a> {
    fn from(metadata: &'a Metadata) -> Self {
        Self {
            model_type: ModelType::Ranking,
            heuristic: metadata.heuristic,
            hardware: &metadata.hardware,
            ops: &metadata.ops,
            dtypes: &metadata.dtypes,
            feature_set: &metadata.feature_set,
            training: &metadata.training,
            evaluation: metadata.evaluation.as_ref(),
        }
    }
}

impl<'a> From<&'a PredecessorMetadata> for About<'a> {
    fn from(metadata: &'a PredecessorMetadata) -> Self {
        let model_type = match metadata.architecture {
            Architecture::Deep { .. } => ModelType::Deep,
            Architecture::Base { .. } | Architecture::V1 { .. } => ModelType::Base,
        };
        Self {
            model_type,
            heuristic: metadata.heuristic,
            hardware: &metadata.hardware,
            ops: &metadata.ops,
            dtypes: &metadata.dtypes,
            feature_set: &metadata.feature_set,
            training: &metadata.training,
            evaluation: metadata.evaluation.as_ref(),
        }
    }
}

/// The summary of a model that no job of this server has trained.
pub(crate) fn summarise(model: &Model, bytes: &[u8]) -> ModelSummary {
    summary(&model.metadata().into(), model.parameters(), bytes, None)
}

/// The summary of a model, from its file and from the results of the job that trained it.
pub(super) fn summary(
    about: &About<'_>,
    parameters: u64,
    bytes: &[u8],
    trained: Option<(&JobId, Option<KeptReport>)>,
) -> ModelSummary {
    let id = ModelId::of(bytes);
    let (job, kept) = trained.map_or((None, None), |(job, kept)| (Some(job), kept));
    let slug = &about.hardware.slug;
    let of_type = match about.model_type {
        ModelType::Ranking => String::new(),
        other => format!("-{other}"),
    };
    ModelSummary {
        file_name: format!("{}{of_type}-{slug}-{id}.safetensors", about.heuristic),
        id,
        heuristic: about.heuristic,
        model_type: about.model_type,
        hardware: slug.clone(),
        ops: about.ops.to_vec(),
        dtypes: about.dtypes.to_vec(),
        feature_set: about.feature_set.to_owned(),
        parameters,
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
        source: if job.is_some() { ModelSource::Trained } else { ModelSource::Shipped },
        job: job.cloned(),
        created_at: about.training.created_at.clone(),
        data_digest: about.training.data_digest.clone(),
        training_problems: about.training.problems,
        training_timings: about.training.timings,
        evaluation: about.evaluation.cloned(),
        kept,
        withdrawn_uploads: 0,
        unseen_models: false,
        state: ModelState::Unpublished,
        reason: String::new(),
        pinned: false,
        contribution: None,
    }
}
