//! The layers of torch-diode's networks, in order and with the names of their tensors.

use diode_core::{Invalid, Setting, TorchCheckpoint};
use serde::{Deserialize, Serialize};

use super::features::PredecessorFeatures;
use crate::ModelError;

/// No network was ever wider. The limit also bounds the work of a prediction.
const MAX_WIDTH: usize = 1024;
/// The most hidden layers or blocks. The deepest network that torch-diode's commands make by
/// default has 10 blocks.
const MAX_LAYERS: usize = 64;

/// A network of one of torch-diode's three types.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Architecture {
    /// The type that torch-diode shipped. Its output is a time in addition to `kernel_overhead` ms.
    V1 {
        widths: Vec<usize>,
        kernel_overhead: f64,
    },
    Base {
        widths: Vec<usize>,
    },
    /// Blocks of two layers each. A block's input is added to its output.
    Deep {
        width: usize,
        blocks: usize,
    },
}

impl Architecture {
    /// Width and number of the blocks of `deep` by default.
    pub const DEEP: (usize, usize) = (128, 10);
}

/// One step of the forward pass.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Part {
    Dense {
        name: String,
        inputs: usize,
        outputs: usize,
    },
    /// Batch normalisation.
    Norm {
        name: String,
        width: usize,
    },
    Relu,
    /// Changes nothing outside of training.
    Dropout,
    /// Keeps a copy of the values.
    Keep,
    /// Adds the copy that the last `Keep` has made.
    AddKept,
}

impl Architecture {
    /// The `base` network with torch-diode's default widths.
    pub fn base() -> Self {
        Self::Base { widths: vec![256, 512, 256, 128, 64] }
    }

    pub const fn deep(width: usize, blocks: usize) -> Self {
        Self::Deep { width, blocks }
    }

    /// The name of this type in torch-diode's commands.
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::V1 { .. } => "v1",
            Self::Base { .. } => "base",
            Self::Deep { .. } => "deep",
        }
    }

    /// The features that the network takes.
    pub const fn features(&self) -> PredecessorFeatures {
        match self {
            Self::V1 { .. } => PredecessorFeatures::Twelve,
            Self::Base { .. } | Self::Deep { .. } => PredecessorFeatures::ThirtySix,
        }
    }

    /// Recognises the type by the settings beside the weights, as torch-diode did.
    pub fn of(checkpoint: &TorchCheckpoint) -> Result<Self, ModelError> {
        let settings = Settings(checkpoint);
        let has = |key: &str| checkpoint.settings.contains_key(key);
        let architecture = if has("hidden_layer_widths") && has("kernel_overhead") {
            Self::V1 {
                widths: settings.sizes("hidden_layer_widths")?,
                kernel_overhead: settings.real("kernel_overhead")?,
            }
        } else if has("hidden_dims") {
            Self::Base { widths: settings.sizes("hidden_dims")? }
        } else if has("hidden_dim") {
            Self::Deep { width: settings.size("hidden_dim")?, blocks: settings.size("num_layers")? }
        } else {
            let found: Vec<&str> = checkpoint.settings.keys().map(String::as_str).collect();
            let expected = "hidden_layer_widths (v1), hidden_dims (base) or hidden_dim (deep)";
            return Err(Invalid::new("checkpoint", found.join(", "), expected).into());
        };
        let (problem, config) = architecture.features().counts();
        for (key, expected) in [("problem_feature_dim", problem), ("config_feature_dim", config)] {
            let given = settings.size(key)?;
            if given != expected {
                let expected = format!("{expected}, the features that {} takes", architecture.kind());
                return Err(Invalid::new(key, given, expected).into());
            }
        }
        architecture.validate()?;
        Ok(architecture)
    }

    /// Checks an architecture that came from outside.
    pub fn validate(&self) -> Result<(), ModelError> {
        let (what, widths) = match self {
            Self::V1 { widths, kernel_overhead } => {
                if !(kernel_overhead.is_finite() && *kernel_overhead > 0.0) {
                    let expected = "a time in ms above 0";
                    return Err(Invalid::new("kernel_overhead", kernel_overhead, expected).into());
                }
                ("hidden_layer_widths", widths.clone())
            }
            Self::Base { widths } => ("hidden_dims", widths.clone()),
            Self::Deep { width, blocks } => {
                if *blocks > MAX_LAYERS {
                    return Err(Invalid::new("num_layers", blocks, format!("at most {MAX_LAYERS}")).into());
                }
                ("hidden_dim", vec![*width])
            }
        };
        if widths.is_empty() || widths.len() > MAX_LAYERS {
            return Err(Invalid::new(what, widths.len(), format!("1 to {MAX_LAYERS} layers")).into());
        }
        match widths.iter().find(|&&width| width == 0 || width > MAX_WIDTH) {
            Some(width) => Err(Invalid::new(what, width, format!("widths from 1 to {MAX_WIDTH}")).into()),
            None => Ok(()),
        }
    }

    /// All steps of the network, from features to one output.
    pub fn parts(&self) -> Vec<Part> {
        let mut parts = Vec::new();
        let mut inputs = self.features().count();
        match self {
            Self::V1 { widths, .. } => {
                for (index, &outputs) in widths.iter().enumerate() {
                    let name = |offset: usize| format!("linear_relu_stack.{}", 3 * index + offset);
                    parts.push(Part::Dense { name: name(0), inputs, outputs });
                    parts.push(Part::Norm { name: name(1), width: outputs });
                    parts.push(Part::Relu);
                    inputs = outputs;
                }
                let name = format!("linear_relu_stack.{}", 3 * widths.len());
                parts.push(Part::Dense { name, inputs, outputs: 1 });
            }
            Self::Base { widths } => {
                for (index, &outputs) in widths.iter().enumerate() {
                    let name = |offset: usize| format!("model.{}", 4 * index + offset);
                    parts.push(Part::Dense { name: name(0), inputs, outputs });
                    parts.push(Part::Relu);
                    parts.push(Part::Norm { name: name(2), width: outputs });
                    parts.push(Part::Dropout);
                    inputs = outputs;
                }
                parts.push(Part::Dense { name: format!("model.{}", 4 * widths.len()), inputs, outputs: 1 });
            }
            &Self::Deep { width, blocks } => {
                let dense = |name: String, inputs| Part::Dense { name, inputs, outputs: width };
                parts.push(dense("input_layer.0".to_owned(), inputs));
                parts.push(Part::Relu);
                parts.push(Part::Norm { name: "input_layer.2".to_owned(), width });
                parts.push(Part::Dropout);
                for block in 0..blocks {
                    let name = |part: usize| format!("hidden_layers.{block}.block.{part}");
                    parts.push(Part::Keep);
                    parts.push(dense(name(0), width));
                    parts.push(Part::Relu);
                    parts.push(Part::Norm { name: name(2), width });
                    parts.push(Part::Dropout);
                    parts.push(dense(name(4), width));
                    parts.push(Part::Norm { name: name(5), width });
                    parts.push(Part::AddKept);
                    parts.push(Part::Relu);
                }
                parts.push(Part::Dense { name: "output_layer".to_owned(), inputs: width, outputs: 1 });
            }
        }
        parts
    }
}

/// The settings beside the weights. Each is read as the type that it must have.
struct Settings<'a>(&'a TorchCheckpoint);

impl Settings<'_> {
    fn size(&self, key: &'static str) -> Result<usize, ModelError> {
        match self.0.settings.get(key) {
            Some(&Setting::Whole(number)) => size(key, number),
            other => Err(wrong(key, other, "a whole number")),
        }
    }

    fn sizes(&self, key: &'static str) -> Result<Vec<usize>, ModelError> {
        match self.0.settings.get(key) {
            Some(Setting::Wholes(numbers)) => numbers.iter().map(|&number| size(key, number)).collect(),
            other => Err(wrong(key, other, "a list of whole numbers")),
        }
    }

    fn real(&self, key: &'static str) -> Result<f64, ModelError> {
        match self.0.settings.get(key) {
            Some(&Setting::Real(number)) => Ok(number),
            other => Err(wrong(key, other, "a number")),
        }
    }
}

fn size(key: &'static str, number: i64) -> Result<usize, ModelError> {
    usize::try_from(number).map_err(|_| Invalid::new(key, number, "sizes of 0 or more").into())
}

fn wrong(key: &'static str, given: Option<&Setting>, expected: &'static str) -> ModelError {
    let given = given.map_or("nothing".to_owned(), |given| format!("{given:?}"));
    Invalid::new(key, given, expected).into()
}
