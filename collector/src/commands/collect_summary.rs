//! The last words of `diode collect`.

use std::path::Path;

use diode_core::hardware::roofline;
use diode_core::{Dataset, Solution, Tflops};

use super::collect::Tally;
use crate::output::{count, rate};

/// Prints what was done, what the file now holds, and how fast the best was.
pub(super) fn print(dataset: &Dataset, tally: &Tally, path: &Path) {
    let seconds = tally.elapsed.as_secs_f64();
    if let Some(reason) = tally.stopped {
        eprintln!("stopped early: {reason}; --resume goes on");
    }
    for (number, what) in [
        (tally.already_there, "already in the file"),
        (tally.skipped, "skipped because this backend cannot compute them"),
    ] {
        if number > 0 {
            eprintln!("{}: {what}", count(number, "problem"));
        }
    }
    eprintln!(
        "measured {} and {} in {seconds:.1} s ({} failed)",
        count(tally.measured, "problem"),
        count(tally.configs, "config"),
        tally.failures
    );
    if let Some(best) = fastest(dataset) {
        let share =
            best.roofline_share.map_or(String::new(), |s| format!(", {:.0} % of its roofline", s * 100.0));
        eprintln!("best: {} on {}{share}", rate(best.tflops), best.problem);
    }
    if dataset.solutions.is_empty() {
        eprintln!("nothing was measured, so {} was not written", path.display());
    } else {
        let (problems, timings) = (dataset.solutions.len(), dataset.timings());
        eprintln!("{}: {}, {}", path.display(), count(problems, "problem"), count(timings, "timing"));
    }
}

struct Best {
    problem: String,
    tflops: f64,
    roofline_share: Option<f64>,
}

fn fastest(dataset: &Dataset) -> Option<Best> {
    let best_of = |solution: &Solution| {
        let time = solution.times.nanos(solution.times.fastest()?).micros();
        let problem = &solution.problem;
        let facts = dataset.hardware.facts.as_ref();
        Some(Best {
            problem: format!("{} {} {}", problem.op, problem.dims(), problem.a_dtype),
            tflops: Tflops::from_work(problem.flops(), time).0,
            roofline_share: facts.and_then(|f| roofline(f, problem, false)).map(|least| least.0 / time.0),
        })
    };
    dataset.solutions.iter().filter_map(best_of).max_by(|a, b| a.tflops.total_cmp(&b.tflops))
}
