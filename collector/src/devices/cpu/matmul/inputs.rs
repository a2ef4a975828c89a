//! The inputs of a problem, made from a seed.

use diode_core::{Bias, DType, Layout, OutputLayout, Problem};

use super::elements::Elements;
use super::operand::Operand;

/// Everything a multiplication reads.
pub(crate) struct Inputs {
    pub(crate) problem: Problem,
    pub(crate) a: Operand,
    pub(crate) b: Operand,
    /// The bias in the output's type: one row, or one value per output element.
    pub(crate) bias: Option<Elements>,
}

/// Refuses problems that the CPU backend cannot compute, with the reason.
pub(crate) fn supports(problem: &Problem) -> Result<(), String> {
    let dtypes = [problem.a_dtype, problem.b_dtype, problem.out_dtype];
    if let Some(dtype) =
        dtypes.iter().find(|d| !matches!(d, DType::Float32 | DType::Float16 | DType::BFloat16))
    {
        return Err(format!("the CPU backend computes float32, float16 and bfloat16, not {dtype}"));
    }
    match problem.out_layout {
        Some(layout) if layout != transposed(problem) => Err(format!(
            "the CPU backend writes dense outputs, row-major or transposed, not size {:?} with stride {:?}",
            layout.size, layout.stride
        )),
        _ => Ok(()),
    }
}

/// The layout of an output with shape (B, N, M): each of its matrices is column-major.
fn transposed(problem: &Problem) -> OutputLayout {
    OutputLayout::dense(problem.b, problem.n, problem.m)
}

/// How many bytes inputs and output take, with elements of their true sizes.
pub(crate) fn bytes_needed(problem: &Problem) -> f64 {
    let row = problem.n as f64 * problem.out_dtype.size() as f64;
    let bias = match problem.bias {
        Bias::None => 0.0,
        Bias::Vector => row,
        Bias::Matrix => problem.b as f64 * problem.m as f64 * row,
    };
    problem.bytes() + bias
}

impl Inputs {
    /// Makes the inputs. `None` for problems that [`supports`] refuses.
    pub(crate) fn generate(problem: Problem, seed: u64) -> Option<Self> {
        let size = |value: u64| usize::try_from(value).ok();
        let (b, m, n, k) = (size(problem.b)?, size(problem.m)?, size(problem.n)?, size(problem.k)?);
        let values = |stream: u64, count: usize| Uniform::new(seed, stream).take(count);
        let a = Operand {
            elements: Elements::collect(problem.a_dtype, values(0, b * m * k))?,
            outer: m,
            depth: k,
            outer_contiguous: problem.a_layout == Layout::Column,
        };
        let b_operand = Operand {
            elements: Elements::collect(problem.b_dtype, values(1, b * k * n))?,
            outer: n,
            depth: k,
            outer_contiguous: problem.b_layout == Layout::Row,
        };
        let bias = match problem.bias {
            Bias::None => None,
            Bias::Vector => Some(Elements::collect(problem.out_dtype, values(2, n))?),
            Bias::Matrix => Some(Elements::collect(problem.out_dtype, values(2, b * m * n))?),
        };
        Some(Self { problem, a, b: b_operand, bias })
    }

    /// The index of the bias that is added to an output element. Within a row, indexes are
    /// consecutive.
    pub(crate) fn bias_index(&self, batch: usize, row: usize, column: usize) -> usize {
        match self.problem.bias {
            Bias::Vector => column,
            Bias::None | Bias::Matrix => (batch * self.a.outer + row) * self.b.outer + column,
        }
    }

    /// The index of an output element, and the distance to the element in the next column.
    pub(crate) fn output_index(&self, batch: usize, row: usize, column: usize) -> (usize, usize) {
        let (m, n) = (self.a.outer, self.b.outer);
        if self.problem.out_layout.is_some() {
            ((batch * n + column) * m + row, m)
        } else {
            ((batch * m + row) * n + column, 1)
        }
    }
}

/// Numbers from -1 to 1. A seed and a stream give the same numbers on every machine.
pub(crate) struct Uniform(u64);

impl Uniform {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(seed.wrapping_add(stream.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// SplitMix64. It passes the usual tests of randomness and needs no warm-up.
    pub(crate) fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

impl Iterator for Uniform {
    type Item = f32;

    fn next(&mut self) -> Option<f32> {
        // An f32 between 0 and 1 can hold 24 random bits evenly and no more.
        let unit = (self.next_u64() >> 40) as f32 / (1_u32 << 24) as f32;
        Some(2.0 * unit - 1.0)
    }
}
