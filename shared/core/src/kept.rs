use crate::Problem;
use crate::mixing::hash;

/// One size in so many is for judging models.
const ONE_IN: u64 = 10;

/// A number that the size of a problem alone decides: the same for another operator, type or layout.
pub fn hash_of_size(problem: &Problem) -> u64 {
    hash([problem.b, problem.m, problem.n, problem.k])
}

/// Whether a problem is for judging models, never for training them on a server. Its size alone decides, so
/// that the same size with another type or layout gives nothing away.
pub fn is_kept(problem: &Problem) -> bool {
    hash_of_size(problem).is_multiple_of(ONE_IN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Op, ProblemFields};

    /// The sizes that are kept must stay the same: models have been trained without them.
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
