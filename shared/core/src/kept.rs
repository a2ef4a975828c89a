use crate::Problem;
use crate::mixing::hash;

/// One in this many sizes is kept for judging models.
const ONE_IN: u64 = 10;

/// A number that depends on the size of a problem alone, not on its op, types or layouts.
pub fn hash_of_size(problem: &Problem) -> u64 {
    hash([problem.b, problem.m, problem.n, problem.k])
}

/// Whether a problem is kept for judging models, so that no server trains a model on it. Only its size
/// decides: timings of the same size with another type or layout would tell a model too much.
pub fn is_kept(problem: &Problem) -> bool {
    hash_of_size(problem).is_multiple_of(ONE_IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Op, ProblemFields};

    /// The same sizes must stay kept in later versions, since models have been trained without them.
    #[test]
    fn the_size_alone_decides_and_always_alike() {
        let kept =
            |op, m, n, k, dtype| is_kept(&Problem::new(ProblemFields::plain(op, 1, m, n, k, dtype)).unwrap());
        assert!(kept(Op::Mm, 4096, 4096, 4096, DType::BFloat16));
        assert!(kept(Op::Addmm, 4096, 4096, 4096, DType::Float32));
        assert!(kept(Op::Mm, 2048, 512, 4096, DType::BFloat16));
        assert!(!kept(Op::Mm, 512, 2048, 4096, DType::BFloat16));
        let shares = (1..=10_000).filter(|m| kept(Op::Mm, *m, 512, 512, DType::BFloat16)).count();
        assert!((900..1100).contains(&shares), "{shares}");
    }
}
