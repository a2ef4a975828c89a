//! The CPU backend: a blocked, multi-threaded matrix multiplication. The fields of a config decide
//! the loops, as on a GPU.
//!
//! `num_warps` threads compute output tiles of `block_m`×`block_n` from panels that are `block_k`
//! deep, in the order that `group_m` gives. Inputs are widened to f32 while a panel is packed, and
//! sums are kept in f32.

mod launch;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

use diode_core::{Bias, DType, Layout, OutputLayout, Problem};
use half::slice::HalfFloatSliceExt as _;
use half::{bf16, f16};

pub(crate) use crate::devices::cpu::matmul::launch::{Workspace, launch};

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
    problem.op.check_plain().map_err(|invalid| invalid.to_string())?;
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
struct Uniform(u64);

impl Uniform {
    pub(crate) fn new(seed: u64, stream: u64) -> Self {
        Self(seed.wrapping_add(stream.wrapping_mul(0xd134_2543_de82_ef95)))
    }

    /// SplitMix64. It passes the usual tests of randomness and needs no warm-up.
    fn next_u64(&mut self) -> u64 {
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

/// One input of the multiplication. A and B look alike here: each has an `outer` dimension (M of A,
/// N of B) that strips run along, and the `depth` K.
pub(crate) struct Operand {
    pub(crate) elements: Elements,
    pub(crate) outer: usize,
    pub(crate) depth: usize,
    /// Whether neighbours in the outer dimension lie side by side in memory. They do in a row-major
    /// B and in a column-major A.
    pub(crate) outer_contiguous: bool,
}

impl Operand {
    /// The element of a batch at a position in the outer dimension and a depth.
    pub(crate) fn get(&self, batch: usize, outer: usize, depth: usize) -> f32 {
        let offset =
            if self.outer_contiguous { depth * self.outer + outer } else { outer * self.depth + depth };
        self.elements.get(batch * self.outer * self.depth + offset)
    }

    /// Packs a panel as strips of width `W`. Each strip holds, for each depth, `W` f32 side by
    /// side. If the last strip is not full, zeros fill it.
    pub(crate) fn pack<const W: usize>(
        &self,
        batch: usize,
        outer: Range<usize>,
        depth: Range<usize>,
        packed: &mut [f32],
    ) {
        let start = batch * self.outer * self.depth;
        let end = start + self.outer * self.depth;
        match &self.elements {
            Elements::F32(values) => self.pack_as::<f32, W>(&values[start..end], outer, depth, packed),
            Elements::F16(values) => self.pack_as::<f16, W>(&values[start..end], outer, depth, packed),
            Elements::Bf16(values) => {
                self.pack_as::<bf16, W>(&values[start..end], outer, depth, packed);
            }
        }
    }

    fn pack_as<T: Element, const W: usize>(
        &self,
        matrix: &[T],
        outer: Range<usize>,
        depth: Range<usize>,
        packed: &mut [f32],
    ) {
        let strips = packed.chunks_exact_mut(W * depth.len());
        for (first, strip) in outer.clone().step_by(W).zip(strips) {
            let width = W.min(outer.end - first);
            if width < W {
                strip.fill(0.0);
            }
            if self.outer_contiguous {
                for (k, row) in depth.clone().zip(strip.chunks_exact_mut(W)) {
                    let at = k * self.outer + first;
                    T::widen(&matrix[at..at + width], row);
                }
            } else {
                interleave::<T, W>(matrix, self.depth, first, width, depth.clone(), strip);
            }
        }
    }
}

/// Writes `width` runs along the depth side by side: row k of the strip gets element k of each run.
fn interleave<T: Element, const W: usize>(
    matrix: &[T],
    row_length: usize,
    first: usize,
    width: usize,
    depth: Range<usize>,
    strip: &mut [f32],
) {
    /// Enough elements to widen at once, and few enough for the stack and the L1 cache.
    const CHUNK: usize = 64;
    let mut wide = [0.0; CHUNK];
    for w in 0..width {
        let row = &matrix[(first + w) * row_length..(first + w + 1) * row_length];
        let run = &row[depth.clone()];
        for (part, rows) in run.chunks(CHUNK).zip(strip.chunks_mut(CHUNK * W)) {
            T::widen(part, &mut wide);
            for (value, row) in wide.iter().zip(rows.chunks_exact_mut(W)) {
                row[w] = *value;
            }
        }
    }
}

/// A type whose elements can be widened to f32, the type of all sums.
trait Element: Copy {
    /// Widens `run` into the front of `wide`. `wide` must be at least as long as `run`.
    fn widen(run: &[Self], wide: &mut [f32]);
}

impl Element for f32 {
    #[inline]
    fn widen(run: &[Self], wide: &mut [f32]) {
        wide[..run.len()].copy_from_slice(run);
    }
}

impl Element for f16 {
    #[inline]
    fn widen(run: &[Self], wide: &mut [f32]) {
        run.convert_to_f32_slice(&mut wide[..run.len()]);
    }
}

impl Element for bf16 {
    #[inline]
    fn widen(run: &[Self], wide: &mut [f32]) {
        for (wide, narrow) in wide.iter_mut().zip(run) {
            *wide = f32::from_bits(u32::from(narrow.to_bits()) << 16);
        }
    }
}

/// Elements of one of the supported types.
pub(crate) enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    Bf16(Vec<bf16>),
}

impl Elements {
    /// Rounds `values` to `dtype`. `None` if the CPU backend has no such type.
    pub(crate) fn collect(dtype: DType, values: impl Iterator<Item = f32>) -> Option<Self> {
        match dtype {
            DType::Float32 => Some(Self::F32(values.collect())),
            DType::Float16 => Some(Self::F16(values.map(f16::from_f32).collect())),
            DType::BFloat16 => Some(Self::Bf16(values.map(bf16::from_f32).collect())),
            _ => None,
        }
    }

    pub(crate) fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(values) => values[index],
            Self::F16(values) => values[index].to_f32(),
            Self::Bf16(values) => values[index].to_f32(),
        }
    }

    /// Widens elements from `start` on, until `wide` is full.
    pub(crate) fn widen_from(&self, start: usize, wide: &mut [f32]) {
        let range = start..start + wide.len();
        match self {
            Self::F32(values) => f32::widen(&values[range], wide),
            Self::F16(values) => f16::widen(&values[range], wide),
            Self::Bf16(values) => bf16::widen(&values[range], wide),
        }
    }
}

/// The output in the problem's type.
///
/// Different threads write the tiles of one row, so the elements are atomics. Relaxed stores are
/// plain stores in machine code. They suffice, because tiles are disjoint and joining the threads
/// makes the stores visible.
pub(crate) enum Output {
    F32(Vec<AtomicU32>),
    F16(Vec<AtomicU16>),
    Bf16(Vec<AtomicU16>),
}

impl Output {
    /// `None` if the CPU backend has no such type.
    pub(crate) fn new(dtype: DType, elements: usize) -> Option<Self> {
        let halves = || (0..elements).map(|_| AtomicU16::new(0)).collect();
        match dtype {
            DType::Float32 => Some(Self::F32((0..elements).map(|_| AtomicU32::new(0)).collect())),
            DType::Float16 => Some(Self::F16(halves())),
            DType::BFloat16 => Some(Self::Bf16(halves())),
            _ => None,
        }
    }

    /// Rounds `values` and stores them at every `step`th element from `start` on.
    pub(crate) fn store(&self, start: usize, step: usize, values: &[f32]) {
        fn each<A>(out: &[A], step: usize, values: &[f32], store: impl Fn(&A, f32)) {
            out.iter().step_by(step).zip(values).for_each(|(out, value)| store(out, *value));
        }
        let relaxed = Ordering::Relaxed;
        match self {
            Self::F32(out) => {
                each(&out[start..], step, values, |out, value| out.store(value.to_bits(), relaxed));
            }
            Self::F16(out) => each(&out[start..], step, values, |out, value| {
                out.store(f16::from_f32(value).to_bits(), relaxed);
            }),
            Self::Bf16(out) => each(&out[start..], step, values, |out, value| {
                out.store(bf16::from_f32(value).to_bits(), relaxed);
            }),
        }
    }

    pub(crate) fn get(&self, index: usize) -> f32 {
        match self {
            Self::F32(out) => f32::from_bits(out[index].load(Ordering::Relaxed)),
            Self::F16(out) => f16::from_bits(out[index].load(Ordering::Relaxed)).to_f32(),
            Self::Bf16(out) => bf16::from_bits(out[index].load(Ordering::Relaxed)).to_f32(),
        }
    }

    /// Overwrites all elements with NaN. Otherwise an element that a faulty config leaves out could
    /// still hold the right value from the previous config.
    pub(crate) fn poison(&self) {
        match self {
            Self::F32(out) => out.iter().for_each(|e| e.store(f32::NAN.to_bits(), Ordering::Relaxed)),
            Self::F16(out) => out.iter().for_each(|e| e.store(f16::NAN.to_bits(), Ordering::Relaxed)),
            Self::Bf16(out) => out.iter().for_each(|e| e.store(bf16::NAN.to_bits(), Ordering::Relaxed)),
        }
    }
}

/// Outputs of up to this many elements are checked completely. In larger ones, samples are checked.
const CHECK_ALL: usize = 1024;
/// How many elements are sampled. Enough to find almost surely any hole as large as a tile, and few
/// enough to cost little beside the multiplication.
const SAMPLES: usize = 256;
/// The most products that one check computes. Otherwise a very large K would make the check longer
/// than the launch.
const MAX_PRODUCTS: usize = 1 << 21;

/// Whether the output is right, apart from what rounding explains. It is compared with a simple product with sums in
/// f64: a kernel that is fast and wrong must never win.
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
