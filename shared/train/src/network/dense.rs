//! A dense layer as one operation of candle, forward and backward.
//!
//! With candle's own operations, a layer would be a product, a sum and an activation. Each of them has
//! tensors of its own, forward and backward. For such small layers, filling these tensors takes longer
//! than the products.

use std::sync::{Mutex, PoisonError};

use candle_core::{CpuStorage, CustomOp3, Device, Layout, Result, Shape, Storage, Tensor, bail};
use diode_model::math::exp_of_one;

use super::product::{Matrix, values};

/// `activation(x · weightsᵀ + bias)`, for one forward pass and its backward pass.
pub(super) struct Dense {
    activation: Activation,
    /// How many of the last inputs are learnt. The backward pass computes slopes for these alone.
    learnt_inputs: usize,
    /// The slopes of SiLU. The forward pass leaves them here for the backward pass.
    slopes: Mutex<Vec<f32>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(super) enum Activation {
    Silu,
    None,
}

impl Dense {
    /// `x` has a row for each row of inputs, `weights` a row for each output. Of the columns of `x`, the last
    /// `learnt_inputs` get slopes.
    pub(super) fn forward(
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
