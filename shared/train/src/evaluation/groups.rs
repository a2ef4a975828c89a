//! Kinds of problems that models find differently hard.

use diode_core::{Alignment, Problem};

/// Rows of A up to which a problem is one step of decoding …
const DECODE_ROWS: u64 = 16;
/// … and rows or columns of the output up to which tiles stick out of it.
const SKINNY: u64 = 64;
/// From this K on, and up to so many outputs, only a split of K would fill a GPU.
const TALL_K: u64 = 2048;
const FEW_OUTPUTS: u64 = 1 << 16;

/// What makes a problem special, the strongest reason first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// Rows do not start at multiples of 16 bytes.
    Unaligned,
    /// At most 16 rows.
    Decode,
    /// A long K and few outputs.
    TallK,
    /// At most 64 rows or columns.
    Skinny,
    Ordinary,
}

impl Kind {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Unaligned => "unaligned",
            Self::Decode => "decode",
            Self::TallK => "tall-K",
            Self::Skinny => "skinny",
            Self::Ordinary => "ordinary",
        }
    }
}

/// The kind of a problem.
pub fn kind(problem: &Problem) -> Kind {
    let alignment = problem.alignment();
    let aligned = [alignment.a, alignment.b, alignment.out].iter().all(|&a| a == Alignment::Bytes16);
    if !aligned {
        Kind::Unaligned
    } else if problem.m <= DECODE_ROWS {
        Kind::Decode
    } else if problem.k >= TALL_K && problem.m.saturating_mul(problem.n) <= FEW_OUTPUTS {
        Kind::TallK
    } else if problem.m.min(problem.n) <= SKINNY {
        Kind::Skinny
    } else {
        Kind::Ordinary
    }
}

/// What a problem counts for, as (dimension, value).
pub(super) fn memberships(problem: &Problem) -> [(&'static str, String); 4] {
    let letter = |layout: diode_core::Layout| if layout == diode_core::Layout::Row { 'n' } else { 't' };
    [
        ("kind", kind(problem).as_str().to_owned()),
        ("dtype", problem.a_dtype.to_string()),
        ("op", problem.op.to_string()),
        ("layout", [letter(problem.a_layout), letter(problem.b_layout)].iter().collect()),
    ]
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Op, ProblemFields};

    use super::*;

    #[test]
    fn every_problem_is_of_one_kind() {
        for ((m, n, k), expected) in [
            ((1, 4096, 4096), Kind::Decode),
            ((16, 64, 4096), Kind::Decode),
            ((17, 4096, 4096), Kind::Skinny),
            ((4096, 64, 512), Kind::Skinny),
            ((256, 256, 2048), Kind::TallK),
            ((256, 264, 2048), Kind::Ordinary),
            ((1024, 1024, 1024), Kind::Ordinary),
            ((1024, 1024, 1023), Kind::Unaligned),
            ((1, 4095, 4096), Kind::Unaligned),
        ] {
            let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap();
            assert_eq!(kind(&problem), expected, "{m}×{n}×{k}");
        }
    }
}
