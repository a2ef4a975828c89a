//! How fast a problem could run at best.

use super::Facts;
use crate::{Method, Micros, Problem};

/// The time that arithmetic and DRAM traffic alone would take at the quoted peaks. Measured times
/// are compared with it.
///
/// `None` if the hardware has no peak for the problem's dtype.
pub fn roofline(facts: &Facts, problem: &Problem, allow_tf32: bool) -> Option<Micros> {
    let peak = facts.peak(problem.a_dtype, allow_tf32)?;
    let compute = problem.flops() / (peak.0 * 1e6);
    let memory = problem.bytes() / (facts.dram_gbps * 1e3);
    Some(Micros(compute.max(memory)))
}

/// The shortest time that the hardware allows. A shorter time is a mistake or a forgery.
///
/// Unlike the roofline, it assumes the highest clock and counts no DRAM traffic for data that may
/// have stayed in the last-level cache.
pub fn floor(facts: &Facts, problem: &Problem, method: Method, allow_tf32: bool) -> Option<Micros> {
    let peak = facts.peak(problem.a_dtype, allow_tf32)?;
    let boost = f64::from(facts.max_clock_mhz) / f64::from(facts.peak_clock_mhz);
    let compute = problem.flops() / (peak.0 * boost * 1e6);
    // Even after a cold start the cache may hold the end of the output instead of writing it to
    // DRAM.
    let resident = if method.is_cold() {
        output_bytes(problem).min(facts.l2_bytes as f64)
    } else {
        facts.l2_bytes as f64
    };
    let memory = (problem.bytes() - resident).max(0.0) / (facts.dram_gbps * 1e3);
    Some(Micros(compute.max(memory)))
}

fn output_bytes(problem: &Problem) -> f64 {
    problem.b as f64 * problem.m as f64 * problem.n as f64 * problem.out_dtype.size() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find;
    use crate::{DType, Op, ProblemFields};

    #[test]
    fn the_h200_roofline_bends_where_it_should() {
        let facts = find("NVIDIA H200").and_then(|h| h.facts).unwrap();
        let problem =
            |m| Problem::new(ProblemFields::plain(Op::Mm, 1, m, 4096, 4096, DType::BFloat16)).unwrap();
        let big = roofline(&facts, &problem(4096), false).unwrap();
        assert!((big.0 - 138.8).abs() < 0.1, "compute-bound: {big:?}");
        let decode = roofline(&facts, &problem(1), false).unwrap();
        assert!((decode.0 - 6.99).abs() < 0.01, "memory-bound: {decode:?}");
        assert!(floor(&facts, &problem(4096), Method::Unspecified, false).unwrap() < big);
    }
}
