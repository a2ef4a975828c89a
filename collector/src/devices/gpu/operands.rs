//! The matrices of one problem on the GPU. Small problems have several copies, and launches take turns with
//! them.

use std::ffi::c_void;
use std::ptr;

use diode_core::{Bias, Layout, Problem, Tile};

use crate::devices::gpu::driver::{Gpu, Memory, Result, Slice};
use crate::kernels::support::{BLOCK, REFERENCE_TILE, reference_size};

/// How many copies a small problem's matrices have. Each launch of a group takes another copy, so that its
/// inputs are not in the cache.
pub(super) const TURNS: u64 = 16;
/// The most bytes that the copies of a small problem take.
const MOST_FOR_TURNS: u64 = 1 << 30;
/// How many bytes are left free for the driver and other processes.
pub(super) const SPARE_BYTES: u64 = 1 << 30;
/// Matrices start at multiples of this, as with torch's allocator.
const GRANULE: u64 = 512;

pub(super) struct Operands {
    problem: Problem,
    copies: u64,
    a: Matrix,
    b: Matrix,
    bias: Option<Matrix>,
    c: Matrix,
    reference: Memory,
}

/// The places of the matrices of one multiplication.
#[derive(Clone, Copy)]
pub(crate) struct Matrices<'a> {
    pub(crate) a: Slice<'a>,
    pub(crate) b: Slice<'a>,
    pub(crate) bias: Option<Slice<'a>>,
    pub(crate) c: Slice<'a>,
}

/// The copies of one matrix, or of one batch of matrices.
struct Matrix {
    memory: Memory,
    bytes: u64,
}

impl Matrix {
    fn new(gpu: &Gpu, bytes: u64, copies: u64) -> Result<Self> {
        Ok(Self { memory: gpu.allocate(bytes.next_multiple_of(GRANULE) * copies)?, bytes })
    }

    fn copy(&self, turn: u64) -> Slice<'_> {
        self.memory.slice(turn * self.bytes.next_multiple_of(GRANULE), self.bytes)
    }
}

/// How many bytes A, B, bias and C take.
fn sizes(problem: &Problem) -> [u64; 4] {
    let size = problem.a_dtype.size();
    let (b, m, n, k) = (problem.b, problem.m, problem.n, problem.k);
    let bias = match problem.bias {
        Bias::None => 0,
        Bias::Vector => n * size,
        Bias::Matrix => b * m * n * size,
    };
    [b * m * k * size, b * k * n * size, bias, b * m * n * size]
}

/// How many copies of a problem's matrices to make.
fn copies(problem: &Problem) -> u64 {
    let one: u64 = sizes(problem).iter().sum();
    if one * TURNS <= MOST_FOR_TURNS { TURNS } else { 2 }
}

/// How many bytes a problem takes in all, with the reference.
pub(super) fn bytes_needed(problem: &Problem) -> u64 {
    let one: u64 = sizes(problem).iter().map(|bytes| bytes.next_multiple_of(GRANULE)).sum();
    one * copies(problem) + problem.b * problem.m * problem.n * reference_size(problem.a_dtype)
}

/// The most bytes of A, B, bias and C with which a problem surely fits into this much memory.
pub(crate) fn most_operand_bytes(memory: u64) -> u64 {
    let room = memory.saturating_sub(SPARE_BYTES);
    // The reference takes at most twice the bytes of C.
    let with_turns = room / (TURNS + 2);
    if with_turns * TURNS < MOST_FOR_TURNS { with_turns } else { room / 4 }
}

impl Operands {
    /// Allocates a problem's matrices. [`bytes_needed`] says how much memory they take.
    pub(super) fn allocate(gpu: &Gpu, problem: &Problem) -> Result<Self> {
        let [a, b, bias, c] = sizes(problem);
        let copies = copies(problem);
        let elements = problem.b * problem.m * problem.n;
        Ok(Self {
            problem: problem.clone(),
            copies,
            a: Matrix::new(gpu, a, copies)?,
            b: Matrix::new(gpu, b, copies)?,
            bias: if bias > 0 { Some(Matrix::new(gpu, bias, copies)?) } else { None },
            c: Matrix::new(gpu, c, copies)?,
            reference: gpu.allocate(elements * reference_size(problem.a_dtype))?,
        })
    }

    pub(super) fn problem(&self) -> &Problem {
        &self.problem
    }

    pub(super) fn takes_turns(&self) -> bool {
        self.copies == TURNS
    }

    /// The memory to fill with random numbers: address, count of elements, and which stream of numbers.
    pub(super) fn inputs(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let size = self.problem.a_dtype.size();
        let all = [(Some(&self.a), 0), (Some(&self.b), 1), (self.bias.as_ref(), 2)];
        all.into_iter().filter_map(move |(matrix, stream)| {
            let memory = &matrix?.memory;
            Some((memory.slice(0, 0).pointer(), memory.bytes() / size, stream))
        })
    }

    /// The output whose elements are checked.
    pub(super) fn output(&self) -> &Memory {
        &self.c.memory
    }

    pub(super) fn matrices(&self, turn: u64) -> Matrices<'_> {
        let turn = turn % self.copies;
        Matrices {
            a: self.a.copy(turn),
            b: self.b.copy(turn),
            bias: self.bias.as_ref().map(|bias| bias.copy(turn)),
            c: self.c.copy(turn),
        }
    }

    /// The grid and the arguments of a tile's kernel, for one turn.
    pub(super) fn launch(&self, tile: &Tile, turn: u64) -> ([u32; 2], Arguments) {
        let p = &self.problem;
        let matrices = self.matrices(turn);
        let tiles = p.m.div_ceil(tile.block_m.into()) * p.n.div_ceil(tile.block_n.into());
        let arguments = Arguments::default()
            .pointer(matrices.a.pointer())
            .pointer(matrices.b.pointer())
            .pointer(matrices.bias.map_or(0, |bias| bias.pointer()))
            .pointer(matrices.c.pointer())
            .i32(p.m)
            .i32(p.n)
            .i32(p.k)
            .i32(if p.a_layout == Layout::Row { p.k } else { p.m })
            .i32(if p.b_layout == Layout::Row { p.n } else { p.k })
            .i32(p.n)
            .i32(p.m * p.k)
            .i32(p.k * p.n)
            .i32(p.m * p.n)
            .finish();
        ([tiles as u32, p.b as u32], arguments)
    }

    /// The grid and the arguments of the reference kernel.
    pub(super) fn reference(&self) -> ([u32; 2], Arguments) {
        let p = &self.problem;
        let matrices = self.matrices(0);
        let [block_m, block_n, _] = REFERENCE_TILE.map(u64::from);
        let tiles = p.m.div_ceil(block_m) * p.n.div_ceil(block_n);
        let strides =
            |layout, rows: u64, columns: u64| if layout == Layout::Row { [columns, 1] } else { [1, rows] };
        let [a_row, a_column] = strides(p.a_layout, p.m, p.k);
        let [b_row, b_column] = strides(p.b_layout, p.k, p.n);
        let (bias_row, bias_batch) = if p.bias == Bias::Matrix { (p.n, p.m * p.n) } else { (0, 0) };
        let arguments = Arguments::default()
            .pointer(matrices.a.pointer())
            .pointer(matrices.b.pointer())
            .pointer(matrices.bias.map_or(0, |bias| bias.pointer()))
            .pointer(self.reference.slice(0, 0).pointer())
            .i32(p.m)
            .i32(p.n)
            .i32(p.k);
        let wide = [a_row, a_column, b_row, b_column, bias_row, 1, p.m * p.k, p.k * p.n, bias_batch];
        let arguments = wide.into_iter().fold(arguments, Arguments::i64).finish();
        ([tiles as u32, p.b as u32], arguments)
    }

    /// The grid and the arguments of a comparison, which counts wrong elements into `wrong`.
    pub(super) fn comparison(&self, wrong: Slice<'_>, absolute: f32, relative: f32) -> ([u32; 2], Arguments) {
        let p = &self.problem;
        let count = p.b * p.m * p.n;
        let arguments = Arguments::default()
            .pointer(self.matrices(0).c.pointer())
            .pointer(self.reference.slice(0, 0).pointer())
            .pointer(wrong.pointer())
            .i64(count)
            .f32(absolute)
            .f32(relative)
            .finish();
        ([programs(count), 1], arguments)
    }
}

/// How many blocks (Triton's programs) of the kernels `fill` and `compare` process this many elements.
pub(super) fn programs(elements: u64) -> u32 {
    elements.div_ceil(BLOCK.into()) as u32
}

/// The arguments of a kernel. Each takes eight bytes here, however many bytes the kernel reads.
#[derive(Debug, Clone, Default)]
pub(crate) struct Arguments(Vec<u64>);

impl Arguments {
    pub(crate) fn pointer(mut self, value: u64) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn i64(mut self, value: u64) -> Self {
        self.0.push(value);
        self
    }

    pub(crate) fn i32(mut self, value: u64) -> Self {
        self.0.push(u64::from(value as u32));
        self
    }

    pub(crate) fn f32(mut self, value: f32) -> Self {
        self.0.push(u64::from(value.to_bits()));
        self
    }

    /// Adds the two pointers that Triton appends to its arguments. The kernels do not use them.
    pub(crate) fn finish(mut self) -> Self {
        self.0.extend([0, 0]);
        self
    }

    /// A pointer to each argument. A launch takes these.
    pub(super) fn pointers(&mut self) -> Vec<*mut c_void> {
        // The low bytes of each word are the value on a little-endian machine, whatever the value's
        // size.
        self.0.iter_mut().map(|word| ptr::from_mut(word).cast()).collect()
    }
}

#[cfg(target_endian = "big")]
compile_error!("kernel arguments are passed as the low bytes of 64-bit words");
