//! A network in training. candle holds its weights and computes the gradients.

mod dense;
mod descent;
mod product;

use candle_core::{DType, Device, Result, Tensor, Var, bail};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

use dense::{Activation, Dense};
pub(crate) use descent::Descent;

use crate::TrainOptions;

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

#[cfg(test)]
mod tests;
