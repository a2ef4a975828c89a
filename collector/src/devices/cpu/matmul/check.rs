//! Results are checked against a simple product with f64 sums: a fast wrong
//! kernel must never win.

use diode_core::DType;

use super::inputs::Uniform;
use super::{Inputs, Output};

/// Outputs up to this size are checked wholly, larger ones by sampling.
const CHECK_ALL: usize = 1024;
/// Sampled elements: any tile-sized hole in the output is found almost surely,
/// and the check stays cheap beside the multiplication.
const SAMPLES: usize = 256;
/// Multiplications spent on one check, so that a very deep K does not make the
/// check longer than the launch.
const MAX_PRODUCTS: usize = 1 << 21;

/// Whether the output is right within what rounding explains.
pub(crate) fn verify(inputs: &Inputs, output: &Output, seed: u64) -> bool {
    let (m, n, k) = (inputs.a.outer, inputs.b.outer, inputs.a.depth);
    let elements = inputs.problem.b as usize * m * n;
    let affordable = (MAX_PRODUCTS / k).max(16);
    if elements <= CHECK_ALL.min(affordable) {
        return (0..elements).all(|index| is_right(inputs, output, index));
    }
    let mut random = Uniform::new(seed, 3);
    // The corners first: edge tiles are where kernels go wrong.
    let corners = [0, n - 1, elements - n, elements - 1];
    let sampled = (0..SAMPLES.min(affordable)).map(|_| (random.next_u64() % elements as u64) as usize);
    corners.into_iter().chain(sampled).all(|index| is_right(inputs, output, index))
}

fn is_right(inputs: &Inputs, output: &Output, index: usize) -> bool {
    let (m, n, k) = (inputs.a.outer, inputs.b.outer, inputs.a.depth);
    let (batch, row, column) = (index / (m * n), index / n % m, index % n);
    let (mut sum, mut magnitude) = (0.0_f64, 0.0_f64);
    for depth in 0..k {
        let product =
            f64::from(inputs.a.get(batch, row, depth)) * f64::from(inputs.b.get(batch, column, depth));
        sum += product;
        magnitude += product.abs();
    }
    if let Some(bias) = &inputs.bias {
        let bias = f64::from(bias.get(inputs.bias_index(batch, row, column)));
        sum += bias;
        magnitude += bias.abs();
    }
    // The classical bound on rounding in a sum of k terms, and the rounding of
    // the result itself (with the smallest f16 steps around zero).
    let summation = (k + 1) as f64 * f64::from(f32::EPSILON) * magnitude;
    let rounding = match inputs.problem.out_dtype {
        DType::Float16 => sum.abs() / 1024.0 + 1e-7,
        DType::BFloat16 => sum.abs() / 128.0,
        _ => sum.abs() * f64::from(f32::EPSILON),
    };
    let (at, _) = inputs.output_index(batch, row, column);
    (f64::from(output.get(at)) - sum).abs() <= summation + rounding
}
