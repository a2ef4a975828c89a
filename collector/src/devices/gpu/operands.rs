//! The matrices of one problem on the GPU. Small problems have several copies, and launches take turns with
//! them.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr;

use diode_core::{Bias, Layout, Op, Problem, ProblemFields, Scaling, Stage};

use crate::devices::gpu::driver::{Gpu, Memory, Result, Slice};
use crate::devices::gpu::routing::{Routing, bytes_of_lists};
use crate::kernels::support::{BLOCK, REFERENCE_TILE, reference_size};
use crate::kernels::variant::{Form, SCRATCH_BYTES};

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
    /// What operators of served models read besides.
    served: Option<Served>,
    reference: Memory,
}

/// The scales and the routing of scaled and grouped operands.
struct Served {
    a_scales: Matrix,
    b_scales: Matrix,
    /// The scales of A column by column, as cuBLASLt reads those of blocks.
    turned_scales: Matrix,
    /// The weight of each routed row.
    weights: Matrix,
    routing: Routing,
    /// Scratch memory of kernels that the tensor memory accelerator feeds.
    scratch: Memory,
    /// How many blocks persistent kernels have.
    sms: u64,
}

/// The places of the matrices of one multiplication.
#[derive(Clone, Copy)]
pub(crate) struct Matrices<'a> {
    pub(crate) a: Slice<'a>,
    pub(crate) b: Slice<'a>,
    pub(crate) bias: Option<Slice<'a>>,
    pub(crate) c: Slice<'a>,
    /// The scales of A and of B, as cuBLASLt reads them.
    pub(crate) scales: Option<[Slice<'a>; 2]>,
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
    let (b, n, k) = (problem.b, problem.n, problem.k);
    let groups = problem.groups.map_or(1, |groups| u64::from(groups.count));
    let out = b * problem.rows() * n * problem.out_dtype.size();
    let bias = match problem.bias {
        Bias::None => 0,
        Bias::Vector => n * problem.out_dtype.size(),
        Bias::Matrix => out,
    };
    let a = b * problem.a_rows() * k * problem.a_dtype.size();
    [a, b * groups * k * n * problem.b_dtype.size(), bias, out]
}

/// The scales of A and of B, as matrices: rows and columns.
fn scales(problem: &ProblemFields) -> [[u64; 2]; 2] {
    let groups = problem.groups.map_or(1, |groups| u64::from(groups.count));
    let blocks = |size: u64| size.div_ceil(Scaling::BLOCK);
    match problem.scaling {
        Scaling::None => [[1, 1]; 2],
        Scaling::Tensor => [[1, 1], [groups, 1]],
        Scaling::Row => [[problem.a_rows(), 1], [groups, problem.n]],
        Scaling::Block => {
            let k = blocks(problem.k);
            [[problem.a_rows(), k], [groups * blocks(problem.n), k]]
        }
    }
}

/// How many scales lie between those of two groups' weights.
fn scales_between_groups(problem: &ProblemFields) -> u64 {
    let [_, [rows, columns]] = scales(problem);
    rows * columns / problem.groups.map_or(1, |groups| u64::from(groups.count))
}

/// How many copies of a problem's matrices to make.
pub(super) fn copies(problem: &Problem) -> u64 {
    let one: u64 = sizes(problem).iter().sum();
    if one * TURNS <= MOST_FOR_TURNS { TURNS } else { 2 }
}

/// How many bytes a problem takes in all, with the reference.
pub(super) fn bytes_needed(problem: &Problem) -> u64 {
    let one: u64 = sizes(problem).iter().map(|bytes| bytes.next_multiple_of(GRANULE)).sum();
    let scales: u64 = scales(problem).iter().map(|[rows, columns]| 8 * (rows * columns + GRANULE)).sum();
    one * copies(problem)
        + scales * copies(problem)
        + bytes_of_lists(problem)
        + problem.b * problem.rows() * problem.n * reference_size(problem.a_dtype)
}

/// The most bytes of A, B, bias and C with which a problem surely fits into this much memory.
pub(crate) fn most_operand_bytes(memory: u64) -> u64 {
    let room = memory.saturating_sub(SPARE_BYTES);
    // The reference takes at most twice the bytes of C.
    let with_turns = room / (TURNS + 2);
    if with_turns * TURNS < MOST_FOR_TURNS { with_turns } else { room / 4 }
}

impl Operands {
    /// Allocates a problem's matrices, and draws how rows are routed. [`bytes_needed`] says how much memory they
    /// take. `heights` are those of the tiles to launch, `sms` the multiprocessors to launch persistent kernels on.
    pub(super) fn allocate(gpu: &Gpu, problem: &Problem, heights: &BTreeSet<u32>, sms: u64) -> Result<Self> {
        let [a, b, bias, c] = sizes(problem);
        let copies = copies(problem);
        let elements = problem.b * problem.rows() * problem.n;
        let scaled = |of: [u64; 2]| Matrix::new(gpu, 4 * of[0] * of[1], copies);
        let [a_scales, b_scales] = scales(problem);
        let served = || -> Result<Served> {
            Ok(Served {
                a_scales: scaled(a_scales)?,
                b_scales: scaled(b_scales)?,
                turned_scales: scaled(a_scales)?,
                weights: Matrix::new(gpu, 4 * problem.rows(), 1)?,
                routing: Routing::new(gpu, problem, heights)?,
                scratch: gpu.allocate(SCRATCH_BYTES * sms)?,
                sms,
            })
        };
        Ok(Self {
            problem: problem.clone(),
            copies,
            a: Matrix::new(gpu, a, copies)?,
            b: Matrix::new(gpu, b, copies)?,
            bias: if bias > 0 { Some(Matrix::new(gpu, bias, copies)?) } else { None },
            c: Matrix::new(gpu, c, copies)?,
            served: if problem.op.is_plain() { None } else { Some(served()?) },
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

    /// The scales to fill: address, rows, columns, whether column by column, and which stream of numbers. All
    /// copies are the same.
    pub(super) fn scales(&self) -> Vec<(u64, [u64; 2], bool, u64)> {
        let Some(served) = &self.served else { return Vec::new() };
        let [a, b] = scales(&self.problem);
        let matrices = [
            (&served.a_scales, a, false, 3),
            (&served.turned_scales, a, true, 3),
            (&served.b_scales, b, false, 4),
        ];
        let copies = (0..self.copies).flat_map(|turn| {
            matrices.map(|(matrix, size, turned, stream)| (matrix.copy(turn).pointer(), size, turned, stream))
        });
        let weights = (served.weights.copy(0).pointer(), [self.problem.rows(), 1], false, 5);
        copies.chain([weights]).collect()
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
            scales: self.served.as_ref().map(|served| {
                let by_block = self.problem.scaling == Scaling::Block;
                let a = if by_block { &served.turned_scales } else { &served.a_scales };
                [a.copy(turn), served.b_scales.copy(turn)]
            }),
        }
    }

    /// The grid and the arguments of a tile's kernel, for one turn.
    pub(super) fn launch(&self, form: &Form, turn: u64) -> ([u32; 2], Arguments) {
        match &self.served {
            None => self.plain_launch(form, turn),
            Some(served) => self.served_launch(served, form, turn),
        }
    }

    fn served_launch(&self, served: &Served, form: &Form, turn: u64) -> ([u32; 2], Arguments) {
        let p = &self.problem;
        let Form { tile, tma, .. } = form;
        let routed = served.routing.launch(tile.block_m, turn);
        let rows = if p.op == Op::FusedMoe { routed.blocks } else { p.m.div_ceil(tile.block_m.into()) };
        let tiles = rows * p.n.div_ceil(tile.block_n.into());
        let blocks = match p.op {
            Op::GroupedMm | Op::ScaledGroupedMm => served.sms,
            _ if *tma => tiles.min(served.sms),
            _ => tiles,
        };
        let matrices = self.matrices(turn);
        let copy = turn % self.copies;
        let [[_, a_scale_row], [_, b_scale_row]] = scales(p);
        let arguments = [
            matrices.a.pointer(),
            matrices.b.pointer(),
            served.a_scales.copy(copy).pointer(),
            served.b_scales.copy(copy).pointer(),
            matrices.c.pointer(),
            routed.pairs,
            routed.experts,
            routed.ends,
            served.weights.copy(0).pointer(),
        ];
        let arguments = arguments.into_iter().fold(Arguments::default(), Arguments::pointer);
        let [top_k, weighted] = self.routed();
        let numbers = [
            p.rows(),
            p.n,
            p.k,
            p.k,
            p.k,
            p.n,
            p.n * p.k,
            a_scale_row,
            scales_between_groups(p),
            b_scale_row,
            p.groups.map_or(1, |groups| groups.count.into()),
            top_k,
            weighted,
            rows,
            tile.group_m.into(),
        ];
        let arguments = numbers.into_iter().fold(arguments, Arguments::i32);
        let scratch = if *tma { served.scratch.slice(0, 0).pointer() } else { 0 };
        ([blocks as u32, 1], arguments.finish_with(scratch))
    }

    /// How many rows of the output share a row of A, and whether rows are multiplied by their weights.
    fn routed(&self) -> [u64; 2] {
        match self.problem.groups {
            Some(groups) if groups.stage == Some(Stage::GateUp) => [groups.top_k.into(), 0],
            Some(groups) => [1, u64::from(groups.stage == Some(Stage::Down))],
            None => [1, 0],
        }
    }

    fn plain_launch(&self, form: &Form, turn: u64) -> ([u32; 2], Arguments) {
        let (p, tile) = (&self.problem, form.tile);
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
        match &self.served {
            None => self.plain_reference(),
            Some(served) => self.served_reference(served),
        }
    }

    fn served_reference(&self, served: &Served) -> ([u32; 2], Arguments) {
        let p = &self.problem;
        let routed = served.routing.reference();
        let [_, block_n, _] = REFERENCE_TILE.map(u64::from);
        let [[_, a_scale_row], [_, b_scale_row]] = scales(p);
        let [top_k, weighted] = self.routed();
        let arguments = Arguments::default()
            .pointer(self.a.copy(0).pointer())
            .pointer(self.b.copy(0).pointer())
            .pointer(served.a_scales.copy(0).pointer())
            .pointer(served.b_scales.copy(0).pointer())
            .pointer(self.reference.slice(0, 0).pointer())
            .pointer(routed.pairs)
            .pointer(routed.experts)
            .pointer(served.weights.copy(0).pointer())
            .i32(p.rows())
            .i32(p.n)
            .i32(p.k)
            .i32(top_k)
            .i32(weighted)
            .i64(a_scale_row)
            .i64(scales_between_groups(p))
            .i64(b_scale_row)
            .finish();
        ([(routed.blocks * p.n.div_ceil(block_n)) as u32, 1], arguments)
    }

    fn plain_reference(&self) -> ([u32; 2], Arguments) {
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
        let count = p.b * p.rows() * p.n;
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

    /// Adds the two pointers that Triton appends to its arguments. Most kernels do not use them.
    pub(crate) fn finish(self) -> Self {
        self.finish_with(0)
    }

    /// Like [`Self::finish`], with scratch memory for all blocks of the launch.
    fn finish_with(mut self, scratch: u64) -> Self {
        self.0.extend([scratch, 0]);
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
