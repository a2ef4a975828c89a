//! Reads models: files of this project, checkpoints of torch-diode, or models by name.

use std::path::Path;

use anyhow::{Context as _, bail};
use diode_compat::{AnyModel, PredecessorModel};
use diode_core::hardware::{Hardware, catalogue, find};
use diode_core::ids::ModelId;
use diode_formats::FileKind;
use diode_formats::limits::MAX_CHECKPOINT;
use diode_model::{Model, Predictor as _};

use crate::failure::Usage;
use crate::node::gpus;

/// Reads a model from a file of this project or a checkpoint of torch-diode. A name such as `h100` or
/// `NVIDIA-H100-matmul` gives a model that comes with the program.
pub(crate) fn read_model(path: &Path) -> anyhow::Result<AnyModel> {
    let name = path.to_str().filter(|_| !path.exists());
    if let Some(hardware) = name.and_then(|name| named_hardware(name).or_else(|| find(name))) {
        return Ok(AnyModel::Ranking(Box::new(shipped_for(&hardware)?)));
    }
    let means_no_file = |name: &&str| name.ends_with(SHIPPED_ENDING) || !name.contains(['.', '/', '\\']);
    if let Some(name) = name.filter(means_no_file) {
        bail!(
            "{name}: No such file, and no model of that name comes with diode; expected a file or one of {}",
            shipped_names()
        );
    }
    let bytes = model_bytes(path)?;
    let context = || format!("model {}", path.display());
    match diode_formats::recognise(&bytes) {
        Some(FileKind::TorchCheckpoint) => {}
        Some(FileKind::Model) | None => return AnyModel::from_bytes(&bytes).with_context(context),
        Some(other) => bail!("{}: got {other}, expected a model", path.display()),
    }
    let checkpoint = diode_compat::decode_checkpoint(&bytes).with_context(context)?;
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
    Ok(AnyModel::Ranking(Box::new(shipped_for(&wanted)?)))
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

/// The identity of the model that a command uses: of this file, or of the model that came with the program.
pub(crate) fn file_id(path: Option<&Path>, model: &AnyModel) -> anyhow::Result<ModelId> {
    match path {
        Some(path) => model_id(path, model),
        None => Ok(ModelId::of(&model.to_bytes()?)),
    }
}

/// The end of a model's name, as in torch-diode: `NVIDIA-H100-matmul`.
const SHIPPED_ENDING: &str = "-matmul";

struct Shipped {
    hardware: &'static str,
    bytes: &'static [u8],
    /// The sizes of the training problems, which the file does not state.
    sizes: &'static [u8],
}

/// The first model stands in for hardware that has no model of its own.
const SHIPPED: [Shipped; 2] = [
    Shipped {
        hardware: "nvidia-h200",
        bytes: include_bytes!("../../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"),
        sizes: include_bytes!("../../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.sizes"),
    },
    Shipped {
        hardware: "nvidia-h100",
        bytes: include_bytes!("../../../trained_models/matmul/nvidia-h100/matmul-nvidia-h100.safetensors"),
        sizes: include_bytes!("../../../trained_models/matmul/nvidia-h100/matmul-nvidia-h100.sizes"),
    },
];

/// The sizes of the problems that a model was trained on, as [`mark_of_size`](diode_core::mark_of_size), in order. Empty
/// if nobody knows them.
pub(crate) fn training_sizes(model: &AnyModel) -> anyhow::Result<Vec<u32>> {
    let Some(training) = model.training().filter(|training| training.sizes.is_empty()) else {
        return Ok(model.training().map(|training| training.sizes.clone()).unwrap_or_default());
    };
    for Shipped { bytes, sizes, .. } in SHIPPED {
        if Model::from_bytes(bytes)?.metadata().training.data_digest == training.data_digest {
            return Ok(sizes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect());
        }
    }
    Ok(Vec::new())
}

/// The hardware in a model's name. `None` if the text is not the name of a model.
fn named_hardware(name: &str) -> Option<Hardware> {
    find(name.strip_suffix(SHIPPED_ENDING)?)
}

/// Every name that stands for a model.
fn shipped_names() -> String {
    let names: Vec<String> =
        catalogue().map(|hardware| format!("{}{SHIPPED_ENDING}", hardware.slug)).collect();
    names.join(", ")
}

/// The model for some hardware. If there is none, another model stands in, with the facts of the asked
/// hardware and without figures of quality. Its predictions say so.
pub(crate) fn shipped_for(wanted: &Hardware) -> anyhow::Result<Model> {
    let trained = |shipped: &&Shipped| shipped.hardware == wanted.slug.as_str();
    if let Some(shipped) = SHIPPED.iter().find(trained) {
        return Ok(Model::from_bytes(shipped.bytes)?);
    }
    let [Shipped { bytes, .. }, ..] = SHIPPED;
    if wanted.facts.is_none() {
        bail!(
            "{}: no model comes with diode, and its facts are not known, so none can stand in",
            wanted.name
        );
    }
    let model = Model::from_bytes(bytes)?;
    Ok(model.standing_in_for(wanted.clone())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_lead_to_a_model() {
        let hardware = |name: &str| named_hardware(name).map(|hardware| hardware.slug.to_string());
        assert_eq!(hardware("NVIDIA-H100-matmul").as_deref(), Some("nvidia-h100"));
        assert_eq!(hardware("nvidia-h200-matmul").as_deref(), Some("nvidia-h200"));
        assert_eq!(hardware("model.safetensors"), None);
        assert_eq!(hardware("NVIDIA-X9-matmul"), None);
    }

    #[test]
    fn a_stand_in_states_the_hardware_asked_for_and_has_no_figures() {
        for name in ["nvidia-h100-pcie", "amd-mi300x"] {
            let wanted = find(name).unwrap();
            let model = shipped_for(&wanted).unwrap();
            assert_eq!(model.metadata().hardware, wanted);
            assert_eq!(model.metadata().evaluation, None, "{name}");
            assert_eq!(
                model.metadata().stands_in_from.as_ref().map(|slug| slug.as_str()),
                Some("nvidia-h200")
            );
        }
        for shipped in &SHIPPED {
            let wanted = find(shipped.hardware).unwrap();
            let own = shipped_for(&wanted).unwrap();
            assert_eq!(own.metadata().hardware.slug, wanted.slug);
            assert_eq!(own.metadata().stands_in_from, None);
            assert!(own.metadata().evaluation.is_some());
        }
    }
}
