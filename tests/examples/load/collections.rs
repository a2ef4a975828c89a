//! The uploaded data: a real collection, either measured again or spread over other problems.

use std::collections::HashSet;
use std::path::Path;

use anyhow::{Context, ensure};
use diode_core::{Dataset, Problem, ProblemFields, Provenance, Solution, TimeColumn};
use diode_formats::read_file;

/// 320,606 timings of an H200.
const REAL: &str = "../trained_models/matmul/nvidia-h200/data/h200-mm-bf16.msgpack.zst";

/// The tick of the clock that measured the real collection, in nanoseconds.
const TICK: u64 = 32;

/// A timing that is measured again takes longer by at most this share.
const NOISE: f64 = 0.02;

/// Makes collections. No two of them are equal.
pub(crate) struct Collections {
    real: Dataset,
    known: HashSet<Problem>,
    made: u64,
}

impl Collections {
    pub(crate) fn new() -> anyhow::Result<Self> {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
        let real = read_file(&path)?.datasets.pop().context("the real collection is empty")?;
        ensure!(real.solutions.iter().all(|solution| solution.failures.is_empty()), "expected timings alone");
        let known = real.solutions.iter().map(|solution| solution.problem.clone()).collect();
        Ok(Self { real, known, made: 0 })
    }

    /// The number of problems in the real collection.
    pub(crate) fn problems(&self) -> usize {
        self.real.solutions.len()
    }

    /// The same problems, measured again.
    pub(crate) fn again(&mut self) -> anyhow::Result<Dataset> {
        self.made += 1;
        let again = |solution: &Solution| noisy(solution, solution.problem.clone(), self.made);
        let solutions = self.real.solutions.iter().map(again).collect::<anyhow::Result<_>>()?;
        Ok(self.dataset(solutions))
    }

    /// New problems, as many as asked for. Each is a problem of the real collection with more rows.
    pub(crate) fn others(&mut self, problems: usize) -> anyhow::Result<Dataset> {
        self.made += 1;
        let mut solutions = Vec::with_capacity(problems);
        for number in 0..problems {
            let like = &self.real.solutions[number % self.real.solutions.len()];
            let mut problem = like.problem.clone();
            while !self.known.insert(problem.clone()) {
                problem = Problem::new(ProblemFields { m: problem.m + 8, ..problem.into_fields() })?;
            }
            solutions.push(noisy(like, problem, self.made)?);
        }
        Ok(self.dataset(solutions))
    }

    fn dataset(&self, solutions: Vec<Solution>) -> Dataset {
        let Dataset { hardware, configs, .. } = &self.real;
        Dataset {
            hardware: hardware.clone(),
            provenance: Provenance::default(),
            configs: configs.clone(),
            solutions,
        }
    }
}

/// A copy of a solution for another problem. Its times are scaled by the number of rows, and get noise that
/// no other copy has.
fn noisy(like: &Solution, problem: Problem, number: u64) -> anyhow::Result<Solution> {
    let factor = problem.m as f64 / like.problem.m as f64;
    let times = like.times.iter_nanos().enumerate().map(|(row, time)| {
        let seed = [problem.m, problem.n, problem.k, number, row as u64];
        let noise = NOISE * (mixed(&seed) >> 11) as f64 / (1_u64 << 53) as f64;
        // Noise only makes times longer: a shorter time could be an impossible one.
        ((time.0 * factor * (1.0 + noise)) as u64).next_multiple_of(TICK)
    });
    Ok(Solution { times: TimeColumn::from_nanos(times.collect())?, problem, ..like.clone() })
}

fn mixed(seed: &[u64]) -> u64 {
    seed.iter().fold(0x9e37_79b9_7f4a_7c15, |state, part| {
        let state = (state ^ part).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        state ^ (state >> 29)
    })
}
