//! How widely a kernel may load the operands of a problem.

use serde::{Deserialize, Serialize};

use crate::named_enum::named_enum;
use crate::{DType, Layout, OutputLayout, Problem};

named_enum! {
    /// The widest load for which every row of a matrix is aligned at its start.
    ///
    /// It decides which kernel is compiled. 16 bytes is a full vector load. 4 bytes is the least that an
    /// asynchronous copy moves. With less, every element is loaded by itself and nothing is pipelined.
    Alignment("alignment") {
        Bytes16 = "16",
        Bytes4 = "4",
        None = "none",
    }
}

impl Alignment {
    /// The alignment of rows that lie this many bytes apart. The tensor itself begins at a multiple of 16
    /// bytes, as all that frameworks allocate do.
    pub const fn of_stride(bytes: u64) -> Self {
        if bytes.is_multiple_of(16) {
            Self::Bytes16
        } else if bytes.is_multiple_of(4) {
            Self::Bytes4
        } else {
            Self::None
        }
    }

    /// The alignment of a dense matrix whose contiguous dimension has this many elements.
    ///
    /// The length counts even where there is only one row: Inductor's kernels are compiled for the stride,
    /// even if a kernel never steps from one row to the next.
    const fn of_dense(contiguous: u64, dtype: DType) -> Self {
        Self::of_stride(contiguous * dtype.size())
    }

    /// The alignment of an output that is not dense and row-major.
    fn of_output(layout: &OutputLayout, dtype: DType) -> Self {
        let [batch, row, column] = layout.stride;
        let between_rows = match (row, column) {
            (_, 1) => row,
            (1, _) => column,
            _ => return Self::None,
        };
        let rows = Self::of_stride(between_rows.saturating_mul(dtype.size()));
        if layout.size[0] == 1 {
            return rows;
        }
        // Variants are declared from the widest to none, so `max` gives the weaker alignment.
        rows.max(Self::of_stride(batch.saturating_mul(dtype.size())))
    }
}

/// The alignment of each matrix of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct OperandAlignment {
    pub a: Alignment,
    pub b: Alignment,
    pub out: Alignment,
}

impl Problem {
    /// How widely each operand can be loaded and the output stored.
    pub fn alignment(&self) -> OperandAlignment {
        let a = if self.a_layout == Layout::Row { self.k } else { self.m };
        let b = if self.b_layout == Layout::Row { self.n } else { self.k };
        OperandAlignment {
            a: Alignment::of_dense(a, self.a_dtype),
            b: Alignment::of_dense(b, self.b_dtype),
            out: self.out_layout.as_ref().map_or_else(
                || Alignment::of_dense(self.n, self.out_dtype),
                |layout| Alignment::of_output(layout, self.out_dtype),
            ),
        }
    }

    /// Whether an element offset overflows a signed 32-bit number, so that the
    /// kernel has to index with 64 bits.
    pub fn needs_64_bit_indexing(&self) -> bool {
        const MAX: u128 = i32::MAX as u128;
        // Kernels add the offset of a group's weights as a 64-bit number.
        let (b, m, n, k) =
            (u128::from(self.b), u128::from(self.rows()), u128::from(self.n), u128::from(self.k));
        let out = self.out_layout.as_ref().map_or(b * m * n, storage);
        b * m * k > MAX || b * k * n > MAX || out > MAX
    }
}

/// The number of elements from the first to the last of a strided tensor, both included.
fn storage(layout: &OutputLayout) -> u128 {
    let last: u128 = layout
        .size
        .iter()
        .zip(layout.stride)
        .map(|(&size, stride)| u128::from(size.saturating_sub(1)) * u128::from(stride))
        .sum();
    last + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, ProblemFields};

    fn fields(m: u64, n: u64, k: u64, dtype: DType) -> ProblemFields {
        ProblemFields::plain(Op::Mm, 1, m, n, k, dtype)
    }

    fn classes(fields: ProblemFields) -> [&'static str; 3] {
        let alignment = Problem::new(fields).unwrap().alignment();
        [alignment.a.as_str(), alignment.b.as_str(), alignment.out.as_str()]
    }

    #[test]
    fn the_contiguous_dimension_decides() {
        assert_eq!(classes(fields(512, 1024, 256, DType::BFloat16)), ["16", "16", "16"]);
        assert_eq!(classes(fields(512, 1000, 70, DType::BFloat16)), ["4", "16", "16"]);
        assert_eq!(classes(fields(512, 33, 70, DType::BFloat16)), ["4", "none", "none"]);
        // A float32 element has 4 bytes, so the alignment is never below 4.
        assert_eq!(classes(fields(512, 33, 70, DType::Float32)), ["4", "4", "4"]);
        assert_eq!(classes(fields(512, 36, 72, DType::Float32)), ["16", "16", "16"]);
        assert_eq!(classes(fields(512, 36, 72, DType::Float8E4M3)), ["4", "4", "4"]);
    }

    #[test]
    fn column_major_operands_run_along_the_other_dimension() {
        let linear = ProblemFields { b_layout: Layout::Column, ..fields(512, 33, 1024, DType::BFloat16) };
        assert_eq!(classes(linear), ["16", "16", "none"]);
        let transposed = ProblemFields { a_layout: Layout::Column, ..fields(33, 512, 1024, DType::BFloat16) };
        assert_eq!(classes(transposed), ["none", "16", "16"]);
    }

    #[test]
    fn one_row_is_judged_by_its_length() {
        assert_eq!(classes(fields(1, 4096, 70, DType::BFloat16)), ["4", "16", "16"]);
    }

    #[test]
    fn an_output_in_a_wider_buffer_is_judged_by_its_strides() {
        let out = |stride| {
            let layout = OutputLayout { size: [1, 64, 64], stride };
            classes(ProblemFields { out_layout: Some(layout), ..fields(64, 64, 64, DType::BFloat16) })[2]
        };
        assert_eq!(out([64 * 72, 72, 1]), "16");
        assert_eq!(out([64 * 66, 66, 1]), "4");
        assert_eq!(out([64 * 65, 1, 65]), "none");
        assert_eq!(out([8192, 128, 2]), "none");

        let batched = OutputLayout { size: [2, 64, 64], stride: [4098, 64, 1] };
        let fields = ProblemFields {
            out_layout: Some(batched),
            ..ProblemFields::plain(Op::Bmm, 2, 64, 64, 64, DType::BFloat16)
        };
        assert_eq!(classes(fields)[2], "4");
    }

    #[test]
    fn indices_widen_beyond_the_largest_i32() {
        let wide = |m, n, k| Problem::new(fields(m, n, k, DType::BFloat16)).unwrap().needs_64_bit_indexing();
        assert!(!wide(1 << 15, 1 << 15, 1 << 15));
        assert!(!wide(65_535, 32_768, 64), "65535 x 32768 is 32768 below 2^31");
        assert!(wide(65_536, 32_768, 64), "2^31 elements of output");
        assert!(wide(65_536, 64, 32_768), "2^31 elements of A");
        let strided = OutputLayout { size: [1, 64, 64], stride: [0, 1 << 26, 1] };
        let fields = ProblemFields { out_layout: Some(strided), ..fields(64, 64, 64, DType::BFloat16) };
        assert!(Problem::new(fields).unwrap().needs_64_bit_indexing());
    }
}
