use diode_core::api::{KeptReport, ModelSource, ModelState, ModelSummary};
use diode_core::ids::{Digest, JobId, ModelId};
use diode_model::Model;

/// The summary of a model, from its own file and from what the job found that trained it.
pub(crate) fn summarise(
    model: &Model,
    bytes: &[u8],
    trained: Option<(&JobId, Option<KeptReport>)>,
) -> ModelSummary {
    let about = model.metadata();
    let id = ModelId::of(bytes);
    let (job, kept) = trained.map_or((None, None), |(job, kept)| (Some(job), kept));
    ModelSummary {
        file_name: format!("{}-{}-{id}.safetensors", about.heuristic, about.hardware.slug),
        id,
        heuristic: about.heuristic,
        hardware: about.hardware.slug.clone(),
        ops: about.ops.clone(),
        dtypes: about.dtypes.clone(),
        feature_set: about.feature_set.clone(),
        parameters: model.parameters(),
        digest: Digest::of(bytes),
        bytes: bytes.len() as u64,
        source: if job.is_some() { ModelSource::Trained } else { ModelSource::Shipped },
        job: job.cloned(),
        created_at: about.training.created_at.clone(),
        data_digest: about.training.data_digest.clone(),
        training_problems: about.training.problems,
        training_timings: about.training.timings,
        evaluation: about.evaluation.clone(),
        kept,
        withdrawn_uploads: 0,
        state: ModelState::Unpublished,
        reason: String::new(),
        pinned: false,
        contribution: None,
    }
}
