//! Finds the configs of a problem in a table.

use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use std::ops::Range;

use indexmap::IndexSet;

use super::pairs::DrawnPairs;
use crate::error::Invalid;
use crate::{OutputLayout, Problem};

/// Finds the range of a problem's configs in the table.
///
/// In a large table, reads from memory take most of a lookup's time. So a problem is packed into
/// three words with its range beside them, and one cache line holds both.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Index {
    problems: HashSet<IndexedProblem, DrawnPairs>,
    /// The output layouts that are not dense. They are rare.
    layouts: IndexSet<OutputLayout>,
}

/// A problem and where its configs lie. It is aligned to its size, so that it never spans two cache
/// lines.
#[derive(Debug, Clone, Copy)]
#[repr(align(32))]
struct IndexedProblem {
    problem: [u64; 3],
    range: (u32, u32),
}

/// Two entries are equal if their problems are, wherever their configs lie.
impl PartialEq for IndexedProblem {
    fn eq(&self, other: &Self) -> bool {
        self.problem == other.problem
    }
}

impl Eq for IndexedProblem {}

impl Hash for IndexedProblem {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.problem.iter().for_each(|&word| state.write_u64(word));
    }
}

impl IndexedProblem {
    /// `layout` is 0 for the dense output. Otherwise it is the layout's place in the list, plus
    /// one.
    fn new(problem: &Problem, layout: u32, range: (u32, u32)) -> Self {
        // Each of these enums fits into four bits and each size into 32, by the limits of their
        // types.
        let kinds = [
            problem.op as u64,
            problem.a_dtype as u64,
            problem.b_dtype as u64,
            problem.out_dtype as u64,
            problem.a_layout as u64,
            problem.b_layout as u64,
            problem.bias as u64,
        ];
        let kind = kinds.into_iter().fold(0, |packed, kind| packed << 4 | kind);
        let sizes = [problem.b << 32 | problem.m, problem.n << 32 | problem.k];
        Self { problem: [sizes[0], sizes[1], u64::from(layout) << 32 | kind], range }
    }
}

impl Index {
    pub(super) fn get(&self, problem: &Problem) -> Option<Range<usize>> {
        let layout = match &problem.out_layout {
            None => 0,
            Some(layout) => self.layouts.get_index_of(layout)? as u32 + 1,
        };
        let (start, end) = self.problems.get(&IndexedProblem::new(problem, layout, (0, 0)))?.range;
        Some(start as usize..end as usize)
    }

    /// Adds a problem. Returns false if the table already has it.
    pub(super) fn insert(&mut self, problem: &Problem, range: Range<usize>) -> Result<bool, Invalid> {
        let narrow = |at: usize| {
            u32::try_from(at).map_err(|_| Invalid::new("configs of the table", at, "fewer than 2^32"))
        };
        let range = (narrow(range.start)?, narrow(range.end)?);
        let layout = match &problem.out_layout {
            None => 0,
            Some(layout) => narrow(self.layouts.insert_full(*layout).0)? + 1,
        };
        // A problem that is already there keeps its configs.
        Ok(self.problems.insert(IndexedProblem::new(problem, layout, range)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bias, DType, Layout, Op, ProblemFields};

    #[test]
    fn every_part_of_a_problem_counts() {
        let max = Problem::MAX_DIM;
        let plain = ProblemFields::plain(Op::Baddbmm, 2, 3, 5, 7, DType::Float16);
        let layout = |stride| Some(OutputLayout { size: [2, 3, 5], stride });
        let variants = [
            plain.clone(),
            ProblemFields { op: Op::Bmm, bias: Bias::None, ..plain.clone() },
            ProblemFields { b: 3, m: 2, ..plain.clone() },
            ProblemFields { n: 7, k: 5, ..plain.clone() },
            ProblemFields { m: max, n: 1, k: 1, ..plain.clone() },
            ProblemFields { k: max, m: 1, n: 1, ..plain.clone() },
            ProblemFields { a_dtype: DType::Bool, ..plain.clone() },
            ProblemFields { b_dtype: DType::Bool, ..plain.clone() },
            ProblemFields { out_dtype: DType::Bool, ..plain.clone() },
            ProblemFields { a_layout: Layout::Column, ..plain.clone() },
            ProblemFields { b_layout: Layout::Column, ..plain.clone() },
            ProblemFields { bias: Bias::Vector, ..plain.clone() },
            ProblemFields { out_layout: layout([30, 10, 2]), ..plain.clone() },
            ProblemFields { out_layout: layout([60, 20, 4]), ..plain },
        ]
        .map(|fields| Problem::new(fields).unwrap());
        let mut index = Index::default();
        for (at, problem) in variants.iter().enumerate() {
            assert_eq!(index.get(problem), None, "{}", problem.canonical());
            assert_eq!(index.insert(problem, at..at + 1), Ok(true), "{}", problem.canonical());
        }
        for (at, problem) in variants.iter().enumerate() {
            assert_eq!(index.get(problem), Some(at..at + 1), "{}", problem.canonical());
            assert_eq!(index.insert(problem, 0..1), Ok(false));
        }
    }
}
