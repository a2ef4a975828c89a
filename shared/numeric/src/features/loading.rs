//! How kernels load the two matrices of a problem.

use diode_core::{Alignment, Problem, Tile};

/// The alignment of the rows of A and of B. A tile has another kernel for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loading {
    a: Alignment,
    b: Alignment,
}

impl Loading {
    /// All rows are multiples of 16 bytes.
    pub const ALIGNED: Self = Self { a: Alignment::Bytes16, b: Alignment::Bytes16 };
    /// No rows are multiples of 4 bytes, so every element is loaded by itself.
    pub const BY_THE_ELEMENT: Self = Self { a: Alignment::None, b: Alignment::None };

    pub fn of(problem: &Problem) -> Self {
        let alignment = problem.alignment();
        Self { a: alignment.a, b: alignment.b }
    }

    /// A number for each way of loading, as files of models have it. 0 stands for aligned rows.
    pub fn number(self) -> u32 {
        3 * self.a as u32 + self.b as u32
    }

    /// Whether a kernel loads several stages of both matrices ahead. If not, the number of stages changes little.
    /// If it loads neither ahead, the tile's kernel is the same for all numbers of stages.
    ///
    /// What ROCm's compiler does with rows that are not aligned is not known.
    pub fn has_whole_stages(self, tile: &Tile) -> bool {
        let by_the_element = [self.a, self.b].contains(&Alignment::None);
        !by_the_element || tile.rocm.is_some()
    }
}
