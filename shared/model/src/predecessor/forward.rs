//! The forward pass of torch-diode's networks.

use diode_core::{SavedValues, TorchCheckpoint};
use wide::f32x8;

use super::architecture::{Architecture, Part};
use super::dense::Dense;
use crate::{Misfit, ModelError};

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
