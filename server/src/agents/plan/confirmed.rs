use diode_core::Problem;
use diode_core::mixing::hash;

/// One problem in so many is measured by a second contributor. More would halve what is learnt for the sake of
/// what is nearly always so.
const ONE_IN: u64 = 4;

/// Apart from the shares that other hashes of the size choose.
const SALT: u64 = 0x636f_6e66;

/// Whether a second contributor is to measure a problem, too, wherever it stands on its board. Those at the top are
/// confirmed anyway.
pub fn is_to_be_confirmed(problem: &Problem) -> bool {
    let numbers =
        [SALT, problem.b, problem.m, problem.n, problem.k, problem.op as u64, problem.a_dtype as u64];
    hash(numbers).is_multiple_of(ONE_IN)
}
