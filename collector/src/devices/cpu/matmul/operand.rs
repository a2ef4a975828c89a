//! A or B. Each is a batch of matrices that is read in packed panels.

use std::ops::Range;

use super::elements::{Element, Elements};

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
            Elements::F16(values) => self.pack_as::<half::f16, W>(&values[start..end], outer, depth, packed),
            Elements::Bf16(values) => {
                self.pack_as::<half::bf16, W>(&values[start..end], outer, depth, packed);
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
