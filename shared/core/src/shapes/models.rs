//! The multiplications in models of given sizes.

mod convolution;
mod spec;
mod transformer;

pub use convolution::Convolution;
pub use transformer::{Transformer, Workload};

use crate::error::Invalid;
use crate::{DType, Layout, Op, Problem, ProblemFields};

/// The product of activations and a weight as `nn.Linear` stores it: B is in columns.
fn linear(m: u64, n: u64, k: u64, dtype: DType) -> Result<Problem, Invalid> {
    let plain = ProblemFields::plain(Op::Mm, 1, m, n, k, dtype);
    Problem::new(ProblemFields { b_layout: Layout::Column, ..plain })
}
