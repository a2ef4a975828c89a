//! The short form of a problem in lists. Inputs and output have one type, A is row-major, and a bias
//! has the size of the output.

use diode_core::{DType, Invalid, Layout, Op, Problem, ProblemFields};
use serde::Serialize;

/// What `diode shapes --json` prints.
#[derive(Debug, Serialize)]
pub(crate) struct ShortProblem {
    pub(crate) op: Op,
    pub(crate) b: u64,
    pub(crate) m: u64,
    pub(crate) n: u64,
    pub(crate) k: u64,
    pub(crate) dtype: DType,
    /// `None` for a row-major B, which is the usual one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) b_layout: Option<Layout>,
}

impl ShortProblem {
    /// `None` if the short form cannot express all of the problem.
    pub(crate) fn of(problem: &Problem) -> Option<Self> {
        let p = problem;
        let b_layout = Some(p.b_layout).filter(|layout| *layout != Layout::Row);
        let short = Self { op: p.op, b: p.b, m: p.m, n: p.n, k: p.k, dtype: p.a_dtype, b_layout };
        (short.problem().as_ref() == Ok(problem)).then_some(short)
    }

    pub(crate) fn problem(&self) -> Result<Problem, Invalid> {
        let plain = ProblemFields::plain(self.op, self.b, self.m, self.n, self.k, self.dtype);
        Problem::new(ProblemFields { b_layout: self.b_layout.unwrap_or(Layout::Row), ..plain })
    }
}

#[cfg(test)]
mod tests {
    use diode_core::Bias;

    use super::*;

    #[test]
    fn what_is_usual_is_not_written() {
        for (b_layout, words) in [(Layout::Row, ""), (Layout::Column, r#","b_layout":"column""#)] {
            let text = format!(r#"{{"op":"addmm","b":1,"m":4,"n":8,"k":2,"dtype":"float16"{words}}}"#);
            let plain = ProblemFields::plain(Op::Addmm, 1, 4, 8, 2, DType::Float16);
            let problem = Problem::new(ProblemFields { b_layout, ..plain }).unwrap();
            assert_eq!(serde_json::to_string(&ShortProblem::of(&problem).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn a_problem_that_is_more_is_not_shortened() {
        let plain = ProblemFields::plain(Op::Addmm, 1, 4, 8, 2, DType::Float16);
        let vector = Problem::new(ProblemFields { bias: Bias::Vector, ..plain }).unwrap();
        assert!(ShortProblem::of(&vector).is_none());
    }
}
