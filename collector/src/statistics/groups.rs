//! Counts per hardware, operator, input type and method.

use std::collections::BTreeMap;

use diode_core::hardware::roofline;
use diode_core::stats::upper_median;
use diode_core::{DType, Dataset, FailureReason, Method, Op, Solution, Tflops};
use serde::Serialize;

use super::quality::{library_ratio, spreads_within_5_percent};

/// Solutions that may be compared with each other.
#[derive(Serialize)]
pub(crate) struct SolutionGroup {
    pub(crate) hardware: String,
    pub(crate) op: Op,
    pub(crate) dtype: DType,
    pub(crate) method: Method,
    pub(crate) problems: usize,
    pub(crate) timings: usize,
    pub(crate) failures: usize,
    pub(crate) failures_by_reason: BTreeMap<FailureReason, usize>,
    pub(crate) best_tflops: Option<f64>,
    /// The highest share of the roofline that a problem reaches: the roofline's time / the
    /// problem's best time. null if the hardware's peaks are not known.
    pub(crate) best_roofline_share: Option<f64>,
    /// The median of (interquartile range / time) over near-best times, where known.
    pub(crate) noise: Option<f64>,
    /// The comparison with the vendor's library, over the problems on which both were timed.
    pub(crate) library: Option<Library>,
}

/// The library compared with the best Triton config of each problem.
#[derive(Serialize)]
pub(crate) struct Library {
    /// Problems with both times.
    pub(crate) problems: usize,
    pub(crate) library_wins: usize,
    /// The geometric mean of the library's time / the best Triton time.
    pub(crate) time_ratio: f64,
}

/// The counts of a group so far.
#[derive(Default)]
struct Tally {
    problems: usize,
    timings: usize,
    reasons: BTreeMap<FailureReason, usize>,
    best_tflops: Option<f64>,
    best_share: Option<f64>,
    spreads: Vec<f64>,
    library_ratios: Vec<f64>,
}

pub(crate) fn groups(datasets: &[Dataset]) -> Vec<SolutionGroup> {
    let mut tallies: BTreeMap<(String, Op, DType, Method), Tally> = BTreeMap::new();
    for dataset in datasets {
        for solution in &dataset.solutions {
            let p = &solution.problem;
            let key = (dataset.hardware.slug.to_string(), p.op, p.a_dtype, solution.method);
            tallies.entry(key).or_default().add(dataset, solution);
        }
    }
    tallies
        .into_iter()
        .map(|((hardware, op, dtype, method), tally)| tally.group(hardware, op, dtype, method))
        .collect()
}

impl Tally {
    fn add(&mut self, dataset: &Dataset, solution: &Solution) {
        self.problems += 1;
        self.timings += solution.configs.len();
        for failure in &solution.failures {
            *self.reasons.entry(failure.reason).or_default() += 1;
        }
        if let Some(row) = solution.times.fastest() {
            let time = solution.times.nanos(row).micros();
            raise(&mut self.best_tflops, Tflops::from_work(solution.problem.flops(), time).0);
            let tf32 = dataset.configs.get(solution.configs[row]).rounds_to_tf32();
            let facts = dataset.hardware.facts.as_ref();
            if let Some(bound) = facts.and_then(|facts| roofline(facts, &solution.problem, tf32)) {
                raise(&mut self.best_share, bound.0 / time.0);
            }
        }
        self.spreads.extend(spreads_within_5_percent(solution));
        self.library_ratios.extend(library_ratio(dataset, solution));
    }

    fn group(mut self, hardware: String, op: Op, dtype: DType, method: Method) -> SolutionGroup {
        SolutionGroup {
            hardware,
            op,
            dtype,
            method,
            problems: self.problems,
            timings: self.timings,
            failures: self.reasons.values().sum(),
            failures_by_reason: self.reasons,
            best_tflops: self.best_tflops,
            best_roofline_share: self.best_share,
            noise: upper_median(&mut self.spreads),
            library: library(&self.library_ratios),
        }
    }
}

fn raise(best: &mut Option<f64>, value: f64) {
    *best = Some(best.map_or(value, |best| best.max(value)));
}

fn library(ratios: &[f64]) -> Option<Library> {
    let logarithms: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    (!ratios.is_empty()).then(|| Library {
        problems: ratios.len(),
        library_wins: ratios.iter().filter(|&&ratio| ratio < 1.0).count(),
        time_ratio: (logarithms / ratios.len() as f64).exp(),
    })
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::Hardware;
    use diode_core::{Config, ConfigIndex, Failure, Problem, ProblemFields, Provenance, Tile, TimeColumn};

    use super::*;

    #[test]
    fn counts_noise_and_the_library_are_per_method() {
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, DType::BFloat16)).unwrap();
        let solution = |method, nanos: Vec<u64>, spread: Option<Vec<u64>>| Solution {
            problem: problem.clone(),
            method,
            configs: (0..nanos.len() as u32).map(ConfigIndex).collect(),
            times: TimeColumn::from_nanos(nanos).unwrap(),
            minimum_ns: None,
            spread_ns: spread,
            repeats: None,
            failures: vec![Failure { config: ConfigIndex(0), reason: FailureReason::Compile }],
        };
        let dataset = Dataset {
            hardware: Hardware::from_name("NVIDIA H200").unwrap(),
            provenance: Provenance::default(),
            configs: [Config::Mm(Tile::new(128, 128, 64, 3, 4)), Config::Library].into_iter().collect(),
            solutions: vec![
                solution(Method::MEDIAN_COLD_EVENT, vec![400_000, 200_000], Some(vec![4_000, 4_000])),
                solution(Method::Unspecified, vec![277_600], None),
            ],
        };
        let groups = groups(&[dataset]);
        let [unspecified, measured] = &groups[..] else { panic!("two methods") };
        assert_eq!((measured.problems, measured.timings, measured.failures), (1, 2, 1));
        assert_eq!(measured.failures_by_reason[&FailureReason::Compile], 1);
        assert_eq!(measured.noise, Some(0.02), "that of the best alone: the other is twice as slow");
        let library = measured.library.as_ref().unwrap();
        assert_eq!((library.problems, library.library_wins), (1, 1));
        assert!((library.time_ratio - 0.5).abs() < 1e-12);
        assert!((unspecified.best_roofline_share.unwrap() - 0.5).abs() < 1e-3, "138.8 of 277.6 µs");
        assert!(unspecified.library.is_none() && unspecified.noise.is_none());
    }
}
