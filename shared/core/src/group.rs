//! Problem groups: problems that are limited by the same thing.

use crate::named_enum::named_enum;
use crate::{Alignment, Problem};

named_enum! {
    /// What limits a problem, judged from the problem alone. A model states its confidence for each
    /// group, not for each problem.
    ProblemGroup("problem group") {
        /// Some rows of an operand or of the output are not multiples of 16 bytes.
        Unaligned = "unaligned",
        /// K is long and the output small: there are few tiles, each with a long sum.
        TallK = "tall-k",
        /// At most 16 rows, as when a model generates tokens for a few sequences at once.
        Decode = "decode",
        /// At most 64 rows or columns.
        Skinny = "skinny",
        /// None of the above.
        Rest = "rest",
    }
}

impl ProblemGroup {
    /// The first group of the list to which a problem belongs.
    ///
    /// ```
    /// use diode_core::{DType, Op, Problem, ProblemFields, ProblemGroup};
    ///
    /// let of = |m, n, k| Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16))
    ///     .map(|problem| ProblemGroup::of(&problem));
    /// assert_eq!(of(16, 8192, 4096)?, ProblemGroup::Decode);
    /// assert_eq!(of(128, 128, 4096)?, ProblemGroup::TallK);
    /// assert_eq!(of(16, 4095, 4096)?, ProblemGroup::Unaligned);
    /// # Ok::<(), diode_core::Invalid>(())
    /// ```
    pub fn of(problem: &Problem) -> Self {
        const TALL_K: u64 = 2048;
        const SMALL_OUTPUT: u64 = 65_536;
        const DECODE: u64 = 16;
        const SKINNY: u64 = 64;
        let rows = problem.alignment();
        if [rows.a, rows.b, rows.out].iter().any(|&rows| rows != Alignment::Bytes16) {
            Self::Unaligned
        } else if problem.k >= TALL_K && problem.m.saturating_mul(problem.n) <= SMALL_OUTPUT {
            Self::TallK
        } else if problem.m <= DECODE {
            Self::Decode
        } else if problem.m.min(problem.n) <= SKINNY {
            Self::Skinny
        } else {
            Self::Rest
        }
    }

    /// The problems of the group, in words for people.
    pub const fn in_words(self) -> &'static str {
        match self {
            Self::Unaligned => "problems with unaligned rows",
            Self::TallK => "problems of large K",
            Self::Decode => "problems of few rows",
            Self::Skinny => "skinny problems",
            Self::Rest => "common problems",
        }
    }
}
