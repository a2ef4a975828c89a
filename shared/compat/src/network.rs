//! torch-diode's networks: their layers, in order and with the names of their tensors, and the forward pass, eight rows
//! at once.

use diode_core::Invalid;
use diode_model::{Misfit, ModelError};
use serde::{Deserialize, Serialize};
use wide::f32x8;

use crate::checkpoint::{SavedValues, Setting, TorchCheckpoint};
use crate::features::PredecessorFeatures;

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

/// How many configs are computed at once.
pub(super) const LANES: usize = 8;
/// What torch adds to every variance.
const EPSILON: f64 = 1e-5;

/// A network that is ready to run.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Network {
    steps: Vec<Step>,
}

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Dense(Dense),
    /// Batch normalisation after training: a factor and a summand per column.
    Affine(Vec<(f32, f32)>),
    Relu,
    Keep,
    AddKept,
}

/// Intermediate values. They are kept from block to block, so that they are allocated once.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    front: Vec<f32x8>,
    back: Vec<f32x8>,
    kept: Vec<f32x8>,
}

impl Network {
    /// Takes the tensors that the architecture names, and refuses any others.
    pub(super) fn new(architecture: &Architecture, checkpoint: &TorchCheckpoint) -> Result<Self, ModelError> {
        let mut tensors = Tensors { checkpoint, taken: 0 };
        let mut steps = Vec::new();
        for part in architecture.parts() {
            steps.push(match part {
                Part::Dense { name, inputs, outputs } => {
                    let weights = tensors.floats(&format!("{name}.weight"), &[outputs, inputs])?;
                    Step::Dense(Dense::new(
                        inputs,
                        weights,
                        tensors.floats(&format!("{name}.bias"), &[outputs])?,
                    ))
                }
                Part::Norm { name, width } => Step::Affine(affine(&mut tensors, &name, width)?),
                Part::Relu => Step::Relu,
                Part::Keep => Step::Keep,
                Part::AddKept => Step::AddKept,
                Part::Dropout => continue,
            });
        }
        let counters = |name: &&String| name.ends_with(".num_batches_tracked");
        let others = checkpoint.tensors.len() - checkpoint.tensors.keys().filter(counters).count();
        if others != tensors.taken {
            let kind = architecture.kind();
            return Err(refuse(
                "model_state_dict",
                format!("{others} tensors"),
                format!("the {} of a {kind} network with these settings", tensors.taken),
            ));
        }
        Ok(Self { steps })
    }

    /// The outputs for eight rows of features, given column by column.
    pub(super) fn forward(&self, columns: &[[f32; LANES]], scratch: &mut Scratch) -> [f32; LANES] {
        let Scratch { front, back, kept } = scratch;
        front.clear();
        front.extend(columns.iter().map(|column| f32x8::from(*column)));
        for step in &self.steps {
            match step {
                Step::Dense(dense) => {
                    dense.apply(front, back);
                    std::mem::swap(front, back);
                }
                Step::Affine(columns) => {
                    for (value, &(factor, summand)) in front.iter_mut().zip(columns) {
                        *value = *value * f32x8::splat(factor) + f32x8::splat(summand);
                    }
                }
                Step::Relu => front.iter_mut().for_each(|value| *value = value.fast_max(f32x8::splat(0.0))),
                Step::Keep => kept.clone_from(front),
                Step::AddKept => front.iter_mut().zip(&*kept).for_each(|(value, kept)| *value += *kept),
            }
        }
        front.first().map_or([f32::NAN; LANES], |outputs| outputs.to_array())
    }
}

fn affine(tensors: &mut Tensors<'_>, name: &str, width: usize) -> Result<Vec<(f32, f32)>, ModelError> {
    let mut column = |part: &str| tensors.floats(&format!("{name}.{part}"), &[width]);
    let [weight, bias] = [column("weight")?, column("bias")?];
    let [mean, variance] = [column("running_mean")?, column("running_var")?];
    if let Some(negative) = variance.iter().find(|&&variance| variance < 0.0) {
        let name = format!("{name}.running_var");
        return Err(refuse(&name, negative.to_string(), "no variance below 0".to_owned()));
    }
    Ok((0..width)
        .map(|i| {
            let factor = f64::from(weight[i]) / (f64::from(variance[i]) + EPSILON).sqrt();
            (factor as f32, (f64::from(bias[i]) - f64::from(mean[i]) * factor) as f32)
        })
        .collect())
}

struct Tensors<'a> {
    checkpoint: &'a TorchCheckpoint,
    taken: usize,
}

impl<'a> Tensors<'a> {
    fn floats(&mut self, name: &str, shape: &[usize]) -> Result<&'a [f32], ModelError> {
        let Some(tensor) = self.checkpoint.tensors.get(name) else {
            return Err(refuse(name, "nothing".to_owned(), format!("shape {shape:?}")));
        };
        let SavedValues::Float32(values) = &tensor.values else {
            return Err(refuse(name, "whole numbers".to_owned(), "32-bit floats".to_owned()));
        };
        if tensor.shape != shape || values.len() != shape.iter().product::<usize>() {
            return Err(refuse(name, format!("shape {:?}", tensor.shape), format!("{shape:?}")));
        }
        if let Some(value) = values.iter().find(|value| !value.is_finite()) {
            return Err(refuse(name, value.to_string(), "only finite numbers".to_owned()));
        }
        self.taken += 1;
        Ok(values)
    }
}

fn refuse(name: &str, given: String, expected: String) -> ModelError {
    Misfit { name: name.to_owned(), given, expected }.into()
}

/// Outputs that are computed together. A loaded input is used for all of them.
const UNROLL: usize = 4;

/// Weights in the order of the forward pass: groups of [`UNROLL`] outputs, input by input.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Dense {
    inputs: usize,
    outputs: usize,
    bias: Vec<[f32; UNROLL]>,
    weights: Vec<[f32; UNROLL]>,
}

impl Dense {
    /// Takes weights that are ordered by output.
    pub(super) fn new(inputs: usize, weights: &[f32], bias: &[f32]) -> Self {
        let groups = bias.len().div_ceil(UNROLL);
        let mut grouped = Self {
            inputs,
            outputs: bias.len(),
            bias: vec![[0.0; UNROLL]; groups],
            weights: vec![[0.0; UNROLL]; groups * inputs],
        };
        for (output, (&bias, row)) in bias.iter().zip(weights.chunks(inputs)).enumerate() {
            let (group, member) = (output / UNROLL, output % UNROLL);
            grouped.bias[group][member] = bias;
            for (input, &weight) in row.iter().enumerate() {
                grouped.weights[group * inputs + input][member] = weight;
            }
        }
        grouped
    }

    pub(super) fn apply(&self, input: &[f32x8], output: &mut Vec<f32x8>) {
        output.clear();
        for (bias, weights) in self.bias.iter().zip(self.weights.chunks_exact(self.inputs)) {
            let [mut first, mut second, mut third, mut fourth] = bias.map(f32x8::splat);
            for (&x, w) in input.iter().zip(weights) {
                first += f32x8::splat(w[0]) * x;
                second += f32x8::splat(w[1]) * x;
                third += f32x8::splat(w[2]) * x;
                fourth += f32x8::splat(w[3]) * x;
            }
            output.extend_from_slice(&[first, second, third, fourth]);
        }
        output.truncate(self.outputs);
    }
}
