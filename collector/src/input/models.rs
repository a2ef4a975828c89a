//! Reads models: files of this project, checkpoints of torch-diode, or models by name.

use std::path::Path;

use anyhow::{Context as _, bail};
use diode_core::hardware::{Hardware, catalogue, find};
use diode_core::ids::ModelId;
use diode_formats::FileKind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::AnyModel;
use diode_model::predecessor::PredecessorModel;

use super::shipped;
use crate::failure::Usage;
use crate::node::gpus;

/// Reads a model from a file of this project or a checkpoint of torch-diode. A name such as
/// `NVIDIA-H100-matmul` gives a model that comes with the program.
pub(crate) fn read_model(path: &Path) -> anyhow::Result<AnyModel> {
    let name = path.to_str().filter(|_| !path.exists());
    if let Some(hardware) = name.and_then(shipped::named_hardware) {
        return Ok(AnyModel::Ranking(Box::new(shipped::for_hardware(&hardware)?)));
    }
    let means_no_file = |name: &&str| name.ends_with(shipped::ENDING) || !name.contains(['.', '/', '\\']);
    if let Some(name) = name.filter(means_no_file) {
        bail!(
            "{name}: No such file, and no model of that name comes with diode; expected a file or one of {}",
            shipped::names()
        );
    }
    let bytes = model_bytes(path)?;
    let context = || format!("model {}", path.display());
    match diode_formats::recognise(&bytes) {
        Some(FileKind::TorchCheckpoint) => {}
        Some(FileKind::Model) | None => return AnyModel::from_bytes(&bytes).with_context(context),
        Some(other) => bail!("{}: got {other}, expected a model", path.display()),
    }
    let checkpoint = diode_formats::decode_checkpoint(&bytes).with_context(context)?;
    let model = PredecessorModel::from_checkpoint(checkpoint).with_context(context)?;
    Ok(AnyModel::Predecessor(Box::new(model)))
}

/// The model that comes with the program for the named hardware, or else for this node's GPU.
pub(crate) fn shipped_model(hardware: Option<&str>) -> anyhow::Result<AnyModel> {
    let wanted = match hardware {
        Some(name) => find(name).ok_or_else(|| {
            let known: Vec<String> = catalogue().map(|hardware| hardware.slug.to_string()).collect();
            Usage::new(format!("--hardware: got `{name}`, expected one of {}", known.join(", ")))
        })?,
        None => this_gpu()?,
    };
    Ok(AnyModel::Ranking(Box::new(shipped::for_hardware(&wanted)?)))
}

/// The hardware of this node's first GPU.
pub(crate) fn this_gpu() -> anyhow::Result<Hardware> {
    let gpu = gpus()?.into_iter().next().map(|gpu| gpu.hardware);
    Ok(gpu
        .ok_or_else(|| Usage::new("this node has no GPU: say which with --hardware, such as nvidia-h100"))?)
}

fn model_bytes(path: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(diode_formats::read_bounded(path, MAX_CHECKPOINT as u64)?)
}

/// The identity of a model that was read: the identity of its file, or else of the file that it would
/// be written to.
pub(crate) fn model_id(path: &Path, model: &AnyModel) -> anyhow::Result<ModelId> {
    let bytes = if path.exists() { model_bytes(path)? } else { model.to_bytes()? };
    Ok(ModelId::of(&bytes))
}
