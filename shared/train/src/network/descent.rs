//! One step down a loss, with candle's AdamW and a bound on the gradient's length.

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};
use candle_nn::{AdamW, Optimizer, ParamsAdamW};

use super::Mlp;

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

    pub(super) fn bound(&self, gradients: &mut GradStore) -> Result<()> {
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
