//! One launch. The tiles of the output are shared out among threads.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use diode_core::Tile;
use pulp::{Scalar, Simd, WithSimd};

use crate::devices::cpu::matmul::{Inputs, Output};

/// Memory for each thread's panels and sums. It is kept between launches, so that no allocation is timed.
pub(crate) struct Workspace {
    instructions: Instructions,
    scratch: Vec<Scratch>,
}

impl Workspace {
    pub(crate) fn new() -> Self {
        Self { instructions: Instructions::detect(), scratch: Vec::new() }
    }

    /// Allocates panels for a tile, one set per thread.
    pub(crate) fn prepare(&mut self, tile: &Tile) {
        self.scratch = (0..tile.num_warps).map(|_| Scratch::new(tile)).collect();
    }
}

/// The panels and sums of one thread.
struct Scratch {
    a: Vec<f32>,
    b: Vec<f32>,
    sums: Vec<f32>,
    row: Vec<f32>,
    bias: Vec<f32>,
}

impl Scratch {
    fn new(tile: &Tile) -> Self {
        let (m, n, k) = (tile.block_m as usize, tile.block_n as usize, tile.block_k as usize);
        let (m, n) = (m.next_multiple_of(ROWS), n.next_multiple_of(COLUMNS));
        Self {
            a: vec![0.0; m * k],
            b: vec![0.0; n * k],
            sums: vec![0.0; m * n],
            row: vec![0.0; n],
            bias: vec![0.0; n],
        }
    }
}

/// Computes the whole output with one tile config. [`Workspace::prepare`] must have been called
/// with this tile before.
pub(crate) fn launch(inputs: &Inputs, tile: &Tile, workspace: &mut Workspace, output: &Output) {
    let grid = Grid::new(inputs, tile);
    let next = AtomicUsize::new(0);
    let instructions = workspace.instructions;
    let work = |scratch: &mut Scratch| {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(place) = grid.place(index) else { break };
            compute_tile(inputs, tile, place, instructions, scratch, output);
        }
    };
    if let Some((own, others)) = workspace.scratch.split_first_mut() {
        thread::scope(|scope| {
            let work = &work;
            for scratch in others {
                scope.spawn(move || work(scratch));
            }
            work(own);
        });
    }
}

/// The tiles of all outputs of the batch, in Triton's grouped order.
struct Grid {
    batches: usize,
    rows: usize,
    columns: usize,
    group: usize,
}

/// The place of a tile, counted in tiles and not in elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct TilePlace {
    batch: usize,
    row: usize,
    column: usize,
}

impl Grid {
    fn new(inputs: &Inputs, tile: &Tile) -> Self {
        Self {
            batches: inputs.problem.b as usize,
            rows: inputs.a.outer.div_ceil(tile.block_m as usize),
            columns: inputs.b.outer.div_ceil(tile.block_n as usize),
            group: tile.group_m as usize,
        }
    }

    /// The tile to compute at turn `index`. The order goes down `group` rows and then to the next
    /// column, so that panels are read again while they are cached. `None` past the end.
    fn place(&self, index: usize) -> Option<TilePlace> {
        let per_batch = self.rows * self.columns;
        let (batch, index) = (index / per_batch, index % per_batch);
        if batch >= self.batches {
            return None;
        }
        let width = self.group * self.columns;
        let first_row = index / width * self.group;
        let group_rows = self.group.min(self.rows - first_row);
        let within = index % width;
        Some(TilePlace { batch, row: first_row + within % group_rows, column: within / group_rows })
    }
}

fn compute_tile(
    inputs: &Inputs,
    tile: &Tile,
    place: TilePlace,
    instructions: Instructions,
    scratch: &mut Scratch,
    output: &Output,
) {
    let (m, n, k) = (inputs.a.outer, inputs.b.outer, inputs.a.depth);
    let (block_m, block_n, block_k) = (tile.block_m as usize, tile.block_n as usize, tile.block_k as usize);
    let rows = place.row * block_m..m.min((place.row + 1) * block_m);
    let columns = place.column * block_n..n.min((place.column + 1) * block_n);
    let row_strips = rows.len().div_ceil(ROWS);
    let column_strips = columns.len().div_ceil(COLUMNS);

    let sums = &mut scratch.sums[..row_strips * column_strips * BLOCK];
    sums.fill(0.0);
    for start in (0..k).step_by(block_k) {
        let depth = start..k.min(start + block_k);
        let a = &mut scratch.a[..row_strips * ROWS * depth.len()];
        let b = &mut scratch.b[..column_strips * COLUMNS * depth.len()];
        inputs.a.pack::<ROWS>(place.batch, rows.clone(), depth.clone(), a);
        inputs.b.pack::<COLUMNS>(place.batch, columns.clone(), depth.clone(), b);
        instructions.multiply(Panel { depth: depth.len(), a, b, sums });
    }

    for row in rows.clone() {
        let (strip, line) = ((row - rows.start) / ROWS, (row - rows.start) % ROWS);
        let blocks = sums[strip * column_strips * BLOCK..].chunks_exact(BLOCK);
        for (part, block) in scratch.row.chunks_exact_mut(COLUMNS).zip(blocks.take(column_strips)) {
            part.copy_from_slice(&block[line * COLUMNS..(line + 1) * COLUMNS]);
        }
        let values = &mut scratch.row[..columns.len()];
        if let Some(bias) = &inputs.bias {
            let wide = &mut scratch.bias[..columns.len()];
            bias.widen_from(inputs.bias_index(place.batch, row, columns.start), wide);
            values.iter_mut().zip(wide).for_each(|(value, bias)| *value += *bias);
        }
        let (start, step) = inputs.output_index(place.batch, row, columns.start);
        output.store(start, step, values);
    }
}

/// Rows of the register block, which is also the width of A's packed strips.
const ROWS: usize = 4;
/// Columns of the register block, which is also the width of B's packed strips.
const COLUMNS: usize = 16;
/// Accumulators of one register block.
pub(crate) const BLOCK: usize = ROWS * COLUMNS;

/// The instructions that this CPU has. They are looked up once, because `cpuid` is slow in virtual
/// machines.
#[derive(Clone, Copy)]
pub(crate) enum Instructions {
    #[cfg(target_arch = "x86_64")]
    Avx2(pulp::x86::V3),
    Baseline,
}

impl Instructions {
    pub(crate) fn detect() -> Self {
        #[cfg(target_arch = "x86_64")]
        if let Some(avx2) = pulp::x86::V3::try_new() {
            return Self::Avx2(avx2);
        }
        Self::Baseline
    }

    /// Adds A·B to `sums`, which has one register block per pair of strips: first A's first strip with each strip of
    /// B, then A's second strip with each, and so on.
    pub(crate) fn multiply(self, panel: Panel<'_>) {
        match self {
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(avx2) => Simd::vectorize(avx2, VectorsOf8(panel)),
            Self::Baseline => Simd::vectorize(Scalar::new(), Elementwise(panel)),
        }
    }
}

/// Two packed panels of the same depth, and the sums that their product is added to.
pub(crate) struct Panel<'a> {
    pub(crate) depth: usize,
    pub(crate) a: &'a [f32],
    pub(crate) b: &'a [f32],
    pub(crate) sums: &'a mut [f32],
}

/// For vectors of 8 elements: two vectors make a row of the register block.
#[cfg(target_arch = "x86_64")]
struct VectorsOf8<'a>(Panel<'a>);

#[cfg(target_arch = "x86_64")]
impl WithSimd for VectorsOf8<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        multiply::<S, 2>(simd, self.0);
    }
}

/// For any CPU: the compiler forms the vectors that it can.
struct Elementwise<'a>(Panel<'a>);

impl WithSimd for Elementwise<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        multiply::<S, COLUMNS>(simd, self.0);
    }
}

#[inline(always)]
fn multiply<S: Simd, const VECTORS: usize>(simd: S, panel: Panel<'_>) {
    let Panel { depth, a, b, sums } = panel;
    let row_blocks = a.chunks_exact(ROWS * depth);
    let columns = b.len() / (COLUMNS * depth);
    // One strip of B stays in the first cache level while all strips of A are multiplied by it.
    for (column, b_strip) in b.chunks_exact(COLUMNS * depth).enumerate() {
        for (row, a_strip) in row_blocks.clone().enumerate() {
            let at = (row * columns + column) * BLOCK;
            register_block::<S, VECTORS>(simd, a_strip, b_strip, &mut sums[at..at + BLOCK]);
        }
    }
}

#[inline(always)]
fn register_block<S: Simd, const VECTORS: usize>(simd: S, a: &[f32], b: &[f32], sums: &mut [f32]) {
    let mut accumulators = [[simd.splat_f32s(0.0); VECTORS]; ROWS];
    for (a_column, b_row) in a.chunks_exact(ROWS).zip(b.chunks_exact(COLUMNS)) {
        let (b_row, _) = S::as_simd_f32s(b_row);
        for row in 0..ROWS {
            let a = simd.splat_f32s(a_column[row]);
            for vector in 0..VECTORS {
                accumulators[row][vector] = simd.mul_add_e_f32s(a, b_row[vector], accumulators[row][vector]);
            }
        }
    }
    for (row, sums) in accumulators.iter().zip(sums.chunks_exact_mut(COLUMNS)) {
        let (sums, _) = S::as_mut_simd_f32s(sums);
        for (sum, accumulator) in sums.iter_mut().zip(row) {
            *sum = simd.add_f32s(*sum, *accumulator);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tile_has_one_turn_and_groups_go_down_first() {
        let grid = Grid { batches: 2, rows: 5, columns: 3, group: 2 };
        let places: Vec<TilePlace> = (0..).map_while(|index| grid.place(index)).collect();
        assert_eq!(places.len(), 30);
        let first: Vec<(usize, usize)> = places[..5].iter().map(|p| (p.row, p.column)).collect();
        assert_eq!(first, [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2)]);
        let last_group: Vec<(usize, usize)> = places[12..15].iter().map(|p| (p.row, p.column)).collect();
        assert_eq!(last_group, [(4, 0), (4, 1), (4, 2)]);
        let distinct: std::collections::HashSet<_> =
            places.iter().map(|p| (p.batch, p.row, p.column)).collect();
        assert_eq!(distinct.len(), 30);
    }
}
