//! By how much a tile must be predicted to be faster than the library before it is picked untried.
//! `docs/measurements/plugin.md` has the figures behind these numbers.

use diode_core::{DType, Micros, Op, Problem};

/// With this doubt fewer picks are slower than the library, and the mean speed changes by less than 0.3 %.
const DOUBT: f64 = 0.07;

/// A product of few rows takes about as long as it takes to read the other matrix, so its time is predicted
/// more exactly.
const DOUBT_OF_FEW_ROWS: f64 = 0.03;
const FEW_ROWS: u64 = 16;
/// If the library takes less time than this, the predictions are as doubtful as for other problems.
const FROM_US: f64 = 10.0;

/// The share by which a tile must be predicted to be faster. `library` is the predicted time of the library
/// for the multiplication alone.
#[must_use]
pub fn doubt(problem: &Problem, library: Option<Micros>) -> f64 {
    let is_half = matches!(problem.a_dtype, DType::BFloat16 | DType::Float16);
    let has_few_rows = matches!(problem.op, Op::Mm | Op::Addmm) && problem.m <= FEW_ROWS;
    let is_long = library.is_some_and(|time| time.0 >= FROM_US);
    if is_half && has_few_rows && is_long { DOUBT_OF_FEW_ROWS } else { DOUBT }
}

#[cfg(test)]
mod tests {
    use diode_core::ProblemFields;

    use super::*;

    #[test]
    fn few_rows_in_half_precision_are_in_less_doubt() {
        let of = |op, m, dtype, us| {
            let problem = Problem::new(ProblemFields::plain(op, 1, m, 4096, 4096, dtype)).unwrap();
            doubt(&problem, Some(Micros(us)))
        };
        assert_eq!(of(Op::Mm, 16, DType::BFloat16, 22.0), 0.03);
        assert_eq!(of(Op::Addmm, 1, DType::Float16, 10.0), 0.03);
        for (op, m, dtype, us) in [
            (Op::Mm, 17, DType::BFloat16, 22.0),
            (Op::Bmm, 16, DType::BFloat16, 22.0),
            (Op::Mm, 16, DType::Float32, 22.0),
            (Op::Mm, 16, DType::BFloat16, 9.9),
        ] {
            assert_eq!(of(op, m, dtype, us), 0.07, "{op:?} {m} {dtype:?} {us}");
        }
    }
}
