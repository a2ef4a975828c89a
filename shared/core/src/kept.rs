//! The problems that are kept for judging models, and numbers that look random and are the same on every machine.

use crate::Problem;

/// One in this many sizes is kept for judging models.
const ONE_IN: u64 = 10;

/// A number that depends on the size of a problem alone, not on its op, types or layouts.
pub fn hash_of_size(problem: &Problem) -> u64 {
    hash([problem.b, problem.m, problem.n, problem.k])
}

/// Half of [`hash_of_size`], for lists in models' files. Of a million problems, two are taken by mistake for one of ten
/// thousand sizes.
pub fn mark_of_size(problem: &Problem) -> u32 {
    (hash_of_size(problem) >> 32) as u32
}

/// Whether a problem is kept for judging models, so that no server trains a model on it. Only its size
/// decides: timings of the same size with another type or layout would tell a model too much.
pub fn is_kept(problem: &Problem) -> bool {
    hash_of_size(problem).is_multiple_of(ONE_IN)
}

/// One step of splitmix64: quick, and well mixed.
pub fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

/// One number that depends on all of `numbers`.
pub fn hash(numbers: impl IntoIterator<Item = u64>) -> u64 {
    numbers.into_iter().fold(0, |hash, number| mix(hash ^ number))
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
