//! The flags that name one problem.

use clap::Args;
use diode_core::{Bias, DType, Layout, Op, Problem, ProblemFields};

use crate::failure::Usage;
use crate::input::arguments::{dtype, whole};

/// One problem.
#[derive(Debug, Args)]
pub(crate) struct ProblemArgs {
    /// Operator: mm, addmm, bmm or baddbmm
    #[arg(long)]
    op: Op,

    /// Batch size
    #[arg(long, default_value_t = 1, value_parser = whole::<u64>)]
    b: u64,

    /// Rows of A and of the output
    #[arg(long, value_parser = whole::<u64>)]
    m: u64,

    /// Columns of B and of the output
    #[arg(long, value_parser = whole::<u64>)]
    n: u64,

    /// Columns of A and rows of B
    #[arg(long, value_parser = whole::<u64>)]
    k: u64,

    /// Type of inputs and output, such as bfloat16
    #[arg(long, value_parser = dtype)]
    dtype: DType,

    /// Order of A in memory: row or column
    #[arg(long, default_value = "row")]
    a_layout: Layout,

    /// Order of B in memory: row, or column as in nn.Linear
    #[arg(long, default_value = "row")]
    b_layout: Layout,

    /// Bias of addmm and baddbmm: matrix, or vector as in nn.Linear [default: matrix]
    #[arg(long)]
    bias: Option<Bias>,
}

impl ProblemArgs {
    /// The problem. An invalid problem counts as a mistake in the flags.
    pub(crate) fn problem(&self) -> Result<Problem, Usage> {
        let plain = ProblemFields::plain(self.op, self.b, self.m, self.n, self.k, self.dtype);
        let bias = self.bias.unwrap_or(plain.bias);
        let fields = ProblemFields { a_layout: self.a_layout, b_layout: self.b_layout, bias, ..plain };
        Problem::new(fields).map_err(Usage::new)
    }
}
