//! The models that come with the program, by name.

use anyhow::bail;
use diode_core::hardware::{Hardware, catalogue, find};
use diode_model::Model;

/// The end of a model's name, as in torch-diode: `NVIDIA-H100-matmul`.
pub(super) const ENDING: &str = "-matmul";

struct Shipped {
    hardware: &'static str,
    bytes: &'static [u8],
}

/// The first model stands in for hardware that has no model of its own.
const SHIPPED: [Shipped; 2] = [
    Shipped {
        hardware: "nvidia-h200",
        bytes: include_bytes!("../../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"),
    },
    Shipped {
        hardware: "nvidia-h100",
        bytes: include_bytes!("../../../trained_models/matmul/nvidia-h100/matmul-nvidia-h100.safetensors"),
    },
];

/// The hardware in a model's name. `None` if the text is not the name of a model.
pub(super) fn named_hardware(name: &str) -> Option<Hardware> {
    find(name.strip_suffix(ENDING)?)
}

/// Every name that stands for a model.
pub(super) fn names() -> String {
    let names: Vec<String> = catalogue().map(|hardware| format!("{}{ENDING}", hardware.slug)).collect();
    names.join(", ")
}

/// The model for some hardware. If there is none, another model stands in, with the facts of the asked
/// hardware and without figures of quality. Its predictions say so.
pub(crate) fn for_hardware(wanted: &Hardware) -> anyhow::Result<Model> {
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
            let model = for_hardware(&wanted).unwrap();
            assert_eq!(model.metadata().hardware, wanted);
            assert_eq!(model.metadata().evaluation, None, "{name}");
            assert_eq!(
                model.metadata().stands_in_from.as_ref().map(|slug| slug.as_str()),
                Some("nvidia-h200")
            );
        }
        for shipped in &SHIPPED {
            let wanted = find(shipped.hardware).unwrap();
            let own = for_hardware(&wanted).unwrap();
            assert_eq!(own.metadata().hardware.slug, wanted.slug);
            assert_eq!(own.metadata().stands_in_from, None);
            assert!(own.metadata().evaluation.is_some());
        }
    }
}
