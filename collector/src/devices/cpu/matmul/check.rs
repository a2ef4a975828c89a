//! Checks results against a simple product with sums in f64. A kernel that is fast and wrong must
//! never win.

use diode_core::DType;

use super::inputs::Uniform;
use super::{Inputs, Output};

/// Outputs of up to this many elements are checked completely. In larger ones, samples are checked.
const CHECK_ALL: usize = 1024;
/// How many elements are sampled. Enough to find almost surely any hole as large as a tile, and few
/// enough to cost little beside the multiplication.
const SAMPLES: usize = 256;
/// The most products that one check computes. Otherwise a very large K would make the check longer
/// than the launch.
const MAX_PRODUCTS: usize = 1 << 21;

/// Whether the output is right, apart from what rounding explains.
pub(crate) fn verify(inputs: &Inputs, output: &Output, seed: u64) -> bool {
    let (m, n, k) = (inputs.a.outer, inputs.b.outer, inputs.a.depth);
    let elements = inputs.problem.b as usize * m * n;
    let affordable = (MAX_PRODUCTS / k).max(16);
    if elements <= CHECK_ALL.min(affordable) {
        return (0..elements).all(|index| is_right(inputs, output, index));
    }
    let mut random = Uniform::new(seed, 3);
    // The corners are checked first, because kernels go wrong at edge tiles.
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
    // Rounding has two sources: the sum of k terms, with the classical bound, and the result. For
    // f16, the bound of the result includes the smallest steps around zero.
    let summation = (k + 1) as f64 * f64::from(f32::EPSILON) * magnitude;
    let rounding = match inputs.problem.out_dtype {
        DType::Float16 => sum.abs() / 1024.0 + 1e-7,
        DType::BFloat16 => sum.abs() / 128.0,
        _ => sum.abs() * f64::from(f32::EPSILON),
    };
    let (at, _) = inputs.output_index(batch, row, column);
    (f64::from(output.get(at)) - sum).abs() <= summation + rounding
}
