//! A network in training. candle holds its weights and computes the gradients.

mod product;
#[cfg(test)]
mod tests;

use std::sync::{Mutex, PoisonError};

use candle_core::backprop::GradStore;
use candle_core::{CpuStorage, CustomOp3, DType, Device, Layout, Result, Shape, Storage, Tensor, Var, bail};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};
use diode_model::math::exp_of_one;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::TrainOptions;
use crate::network::product::{Matrix, values};

/// The most values of a layer that are computed at once. From 65,536 values on, candle spreads a sum over
/// all cores, which then wait for each other. But each core already trains a network of its own.
const MOST_AT_ONCE: usize = 16 * 1024;

/// Dense layers with SiLU between them and a single output.
#[derive(Debug, Clone)]
pub(crate) struct Mlp {
    layers: Vec<Layer>,
    /// The values of tiles, if the network has some: a row for each tile. They are the last inputs of the
    /// first layer.
    tile_values: Option<Var>,
}

/// The tiles of some rows of inputs.
pub(crate) struct TileRows {
    tiles: Tensor,
    /// 1 for each row that gets the values of its tile, else 0.
    kept: Tensor,
}

impl TileRows {
    pub(crate) fn new(tiles: Vec<u32>, kept: Vec<f32>) -> Result<Self> {
        let rows = tiles.len();
        let kept = Tensor::from_vec(kept, (rows, 1), &Device::Cpu)?;
        Ok(Self { tiles: Tensor::from_vec(tiles, rows, &Device::Cpu)?, kept })
    }

    fn narrow(&self, from: usize, count: usize) -> Result<Self> {
        Ok(Self { tiles: self.tiles.narrow(0, from, count)?, kept: self.kept.narrow(0, from, count)? })
    }
}

/// The weights have a row per output, as in torch and in model files.
#[derive(Debug, Clone)]
struct Layer {
    weights: Var,
    bias: Var,
}

impl Mlp {
    /// Random weights as in torch's linear layers: uniform, at most 1 / the square root of the number of
    /// inputs in size. Inputs that are `idle` in all training data get the weight 0, so that their values
    /// cannot matter later.
    pub(crate) fn new(idle: &[bool], hidden: &[usize], rng: &mut ChaCha8Rng) -> Result<Self> {
        let mut inputs = idle.len();
        let mut layers = Vec::new();
        for (index, &outputs) in hidden.iter().chain(&[1]).enumerate() {
            let bound = 1.0 / (inputs as f32).sqrt();
            let mut draw = |count| (0..count).map(|_| rng.random_range(-bound..bound)).collect::<Vec<f32>>();
            let mut weights = draw(inputs * outputs);
            let bias = if index < hidden.len() { draw(outputs) } else { vec![0.0] };
            if index == 0 {
                for row in weights.chunks_exact_mut(inputs) {
                    row.iter_mut().zip(idle).filter(|(_, idle)| **idle).for_each(|(weight, _)| *weight = 0.0);
                }
            }
            layers.push(Layer {
                weights: Var::from_vec(weights, (outputs, inputs), &Device::Cpu)?,
                bias: Var::from_vec(bias, outputs, &Device::Cpu)?,
            });
            inputs = outputs;
        }
        Ok(Self { layers, tile_values: None })
    }

    /// The network with which a training begins. It may have values for so many tiles, which begin as 0.
    pub(crate) fn untrained(idle: &[bool], tiles: usize, options: &TrainOptions) -> Result<Self> {
        let width = options.tile_values();
        let idle = [idle, &vec![false; width]].concat();
        let mlp = Self::new(&idle, &options.hidden, &mut ChaCha8Rng::seed_from_u64(options.seed))?;
        if width == 0 {
            return Ok(mlp);
        }
        // The weights of these inputs are as large as if there were no other inputs.
        let first = &mlp.layers[0].weights;
        let mut weights = first.flatten_all()?.to_vec1::<f32>()?;
        let factor = (idle.len() as f32 / width as f32).sqrt();
        for row in weights.chunks_exact_mut(idle.len()) {
            row[idle.len() - width..].iter_mut().for_each(|weight| *weight *= factor);
        }
        first.set(&Tensor::from_vec(weights, first.shape(), &Device::Cpu)?)?;
        let values = Var::zeros((tiles, width), DType::F32, &Device::Cpu)?;
        Ok(Self { tile_values: Some(values), ..mlp })
    }

    pub(crate) fn has_tile_values(&self) -> bool {
        self.tile_values.is_some()
    }

    /// How many values each tile has.
    fn width_of_values(&self) -> usize {
        self.tile_values.as_ref().map_or(0, |values| values.dims()[1])
    }

    /// The outputs for rows of inputs, as one column.
    pub(crate) fn forward(&self, inputs: &Tensor) -> Result<Tensor> {
        self.forward_tiles(inputs, None)
    }

    /// The outputs for rows of inputs, which are completed by the values of their tiles.
    pub(crate) fn forward_tiles(&self, inputs: &Tensor, tiles: Option<&TileRows>) -> Result<Tensor> {
        let rows = inputs.dim(0)?;
        let widest = self.layers.iter().map(|layer| layer.bias.elem_count()).max().unwrap_or(1);
        let at_once = (MOST_AT_ONCE / widest).max(1);
        let parts = (0..rows).step_by(at_once).map(|from| {
            let count = at_once.min(rows - from);
            let part = inputs.narrow(0, from, count)?;
            match self.tile_values.as_ref().zip(tiles) {
                None => self.forward_at_once(part),
                Some((values, tiles)) => {
                    let TileRows { tiles, kept } = tiles.narrow(from, count)?;
                    let values = values.index_select(&tiles, 0)?.broadcast_mul(&kept)?;
                    self.forward_at_once(Tensor::cat(&[&part, &values], 1)?)
                }
            }
        });
        Tensor::cat(&parts.collect::<Result<Vec<_>>>()?, 0)
    }

    fn forward_at_once(&self, mut x: Tensor) -> Result<Tensor> {
        for (index, Layer { weights, bias }) in self.layers.iter().enumerate() {
            let is_last = index + 1 == self.layers.len();
            let activation = if is_last { Activation::None } else { Activation::Silu };
            let learnt_inputs = if index == 0 { self.width_of_values() } else { x.dim(1)? };
            x = Dense::forward(&x, weights, bias, activation, learnt_inputs)?;
        }
        Ok(x)
    }

    /// The weights and biases of the layers.
    fn of_layers(&self) -> impl Iterator<Item = &Var> {
        self.layers.iter().flat_map(|layer| [&layer.weights, &layer.bias])
    }

    fn variables(&self) -> impl Iterator<Item = &Var> {
        self.of_layers().chain(&self.tile_values)
    }

    /// All weights, layer by layer: first the weights of each output, then the biases. The values of tiles
    /// come last.
    pub(crate) fn weights(&self) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        for variable in self.variables() {
            all.extend(variable.flatten_all()?.to_vec1::<f32>()?);
        }
        Ok(all)
    }

    /// Sets the weights to those that [`Self::weights`] returned for a network with the same layers.
    pub(crate) fn set_weights(&self, weights: &[f32]) -> Result<()> {
        let mut rest = weights;
        for variable in self.variables() {
            let (these, after) = rest.split_at_checked(variable.elem_count()).unwrap_or_default();
            variable.set(&Tensor::from_slice(these, variable.shape(), &Device::Cpu)?)?;
            rest = after;
        }
        if !rest.is_empty() {
            bail!("weights: got {}, expected {} fewer", weights.len(), rest.len());
        }
        Ok(())
    }

    /// The layers as a model stores them.
    pub(crate) fn layers(&self) -> Result<Vec<diode_model::Layer>> {
        let layer = |Layer { weights, bias }: &Layer| {
            let (outputs, inputs) = weights.dims2()?;
            let weights = weights.flatten_all()?.to_vec1()?;
            Ok(diode_model::Layer { inputs, outputs, weights, bias: bias.to_vec1()? })
        };
        self.layers.iter().map(layer).collect()
    }

    /// The values of tiles, tile by tile, if the network has some.
    pub(crate) fn values_of_tiles(&self) -> Result<Option<Vec<f32>>> {
        self.tile_values.as_ref().map(|values| values.flatten_all()?.to_vec1()).transpose()
    }
}

/// `activation(x · weightsᵀ + bias)`, for one forward pass and its backward pass.
struct Dense {
    activation: Activation,
    /// How many of the last inputs are learnt. The backward pass computes slopes for these alone.
    learnt_inputs: usize,
    /// The slopes of SiLU. The forward pass leaves them here for the backward pass.
    slopes: Mutex<Vec<f32>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Activation {
    Silu,
    None,
}

impl Dense {
    /// `x` has a row for each row of inputs, `weights` a row for each output. Of the columns of `x`, the last
    /// `learnt_inputs` get slopes.
    fn forward(
        x: &Tensor,
        weights: &Tensor,
        bias: &Tensor,
        activation: Activation,
        learnt_inputs: usize,
    ) -> Result<Tensor> {
        x.apply_op3(weights, bias, Self { activation, learnt_inputs, slopes: Mutex::default() })
    }
}

impl CustomOp3 for Dense {
    fn name(&self) -> &'static str {
        "dense"
    }

    fn cpu_fwd(
        &self,
        x: &CpuStorage,
        x_layout: &Layout,
        weights: &CpuStorage,
        weights_layout: &Layout,
        bias: &CpuStorage,
        bias_layout: &Layout,
    ) -> Result<(CpuStorage, Shape)> {
        let x = Matrix::of(x, x_layout)?;
        let weights = Matrix::of(weights, weights_layout)?;
        let bias = values(bias, bias_layout)?;
        let mut sums = bias.repeat(x.rows());
        x.add_product(weights.transposed(), &mut sums)?;
        if self.activation == Activation::Silu {
            *self.slopes.lock().unwrap_or_else(PoisonError::into_inner) = activate(&mut sums);
        }
        Ok((CpuStorage::F32(sums), Shape::from((x.rows(), weights.rows()))))
    }

    fn bwd(
        &self,
        x: &Tensor,
        weights: &Tensor,
        bias: &Tensor,
        _outputs: &Tensor,
        output_slopes: &Tensor,
    ) -> Result<(Option<Tensor>, Option<Tensor>, Option<Tensor>)> {
        let (x_storage, x_layout) = x.storage_and_layout();
        let (weights_storage, weights_layout) = weights.storage_and_layout();
        let (from_above, from_above_layout) = output_slopes.storage_and_layout();
        let inputs = Matrix::of(on_cpu(&x_storage)?, x_layout)?;
        let dense = Matrix::of(on_cpu(&weights_storage)?, weights_layout)?;
        let from_above = values(on_cpu(&from_above)?, from_above_layout)?;

        let mut slopes = std::mem::take(&mut *self.slopes.lock().unwrap_or_else(PoisonError::into_inner));
        let errors = match self.activation {
            Activation::None => from_above,
            Activation::Silu if slopes.len() == from_above.len() => {
                slopes.iter_mut().zip(from_above).for_each(|(slope, above)| *slope *= above);
                &slopes
            }
            Activation::Silu => bail!("dense: got a second backward pass, expected one per forward pass"),
        };
        let errors = Matrix::new(errors, inputs.rows(), dense.rows())?;

        let x_slopes = if x.track_op() {
            let mut sums = vec![0.0; inputs.rows() * self.learnt_inputs];
            errors.add_product(dense.last_columns(self.learnt_inputs)?, &mut sums)?;
            let sums = Tensor::from_vec(sums, (inputs.rows(), self.learnt_inputs), &Device::Cpu)?;
            Some(sums.pad_with_zeros(1, inputs.columns() - self.learnt_inputs, 0)?)
        } else {
            None
        };
        let mut weights_slopes = vec![0.0; dense.rows() * dense.columns()];
        errors.transposed().add_product(inputs, &mut weights_slopes)?;
        let weights_slopes = Tensor::from_vec(weights_slopes, weights.shape(), &Device::Cpu)?;
        let bias_slopes = Tensor::from_vec(errors.column_sums(), bias.shape(), &Device::Cpu)?;
        Ok((x_slopes, Some(weights_slopes), Some(bias_slopes)))
    }
}

/// Replaces the sums by the activation's values, and returns its slopes.
fn activate(sums: &mut [f32]) -> Vec<f32> {
    let mut slopes = vec![0.0; sums.len()];
    with_avx2(
        #[inline(always)]
        || {
            for (sum, slope) in sums.iter_mut().zip(&mut slopes) {
                let x = *sum;
                let gate = 1.0 / (1.0 + exp_of_one(-x));
                *sum = x * gate;
                *slope = gate * (1.0 + x * (1.0 - gate));
            }
        },
    );
    slopes
}

/// Runs a loop that the compiler vectorises. It uses AVX2 if the processor has it.
#[inline(always)]
fn with_avx2(body: impl FnOnce()) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = pulp::x86::V3::try_new() {
        return pulp::Simd::vectorize(avx2, body);
    }
    body();
}

fn on_cpu(storage: &Storage) -> Result<&CpuStorage> {
    match storage {
        Storage::Cpu(storage) => Ok(storage),
        _ => bail!("dense: got a tensor on a device, expected one in memory"),
    }
}

/// The weight decay of tiles' values. It is strong, so that the network relies on features where these say
/// enough.
const DECAY_OF_TILE_VALUES: f64 = 3.0;
/// Longer gradients are shortened to this length.
const MAX_GRADIENT: f64 = 5.0;

pub(crate) struct Descent {
    variables: Vec<Var>,
    adam: AdamW,
    /// For the values of tiles.
    adam_of_values: AdamW,
}

impl Descent {
    pub(crate) fn new(mlp: &Mlp, weight_decay: f64) -> Result<Self> {
        let adam = |variables: Vec<Var>, weight_decay| {
            AdamW::new(variables, ParamsAdamW { weight_decay, ..ParamsAdamW::default() })
        };
        Ok(Self {
            variables: mlp.variables().cloned().collect(),
            adam: adam(mlp.of_layers().cloned().collect(), weight_decay)?,
            adam_of_values: adam(mlp.tile_values.iter().cloned().collect(), DECAY_OF_TILE_VALUES)?,
        })
    }

    pub(crate) fn step(&mut self, loss: &Tensor, learning_rate: f64) -> Result<()> {
        let mut gradients = loss.backward()?;
        self.bound(&mut gradients)?;
        for adam in [&mut self.adam, &mut self.adam_of_values] {
            adam.set_learning_rate(learning_rate);
            adam.step(&gradients)?;
        }
        Ok(())
    }

    fn bound(&self, gradients: &mut GradStore) -> Result<()> {
        let mut squares = 0.0;
        for gradient in self.variables.iter().filter_map(|variable| gradients.get(variable)) {
            squares += f64::from(gradient.sqr()?.sum_all()?.to_scalar::<f32>()?);
        }
        let length = squares.sqrt();
        if length > MAX_GRADIENT {
            for variable in &self.variables {
                if let Some(gradient) = gradients.remove(variable) {
                    gradients.insert(variable, (gradient * (MAX_GRADIENT / length))?);
                }
            }
        }
        Ok(())
    }
}
