//! The summary that `diode collect` prints at its end.

use diode_core::hardware::roofline;
use diode_core::stats::upper_median;
use diode_core::{Dataset, Solution, Tflops};

use super::collection::Collection;
use super::runner::Tally;
use crate::output::{count, rate};
use crate::statistics::quality::{library_ratio, spreads_within_5_percent};

/// Prints what was done, what the files now hold, and how fast the best configs were.
pub(super) fn print(collection: &Collection, tally: &Tally) {
    let seconds = tally.elapsed.as_secs_f64();
    if let Some(reason) = tally.stopped {
        say!("stopped early: {reason}; --resume goes on");
    }
    for (number, what) in [
        (tally.already_there, "already in the file"),
        (tally.skipped, "skipped, for the reasons above"),
        (tally.disturbed, "measured while the GPU was disturbed, three times over"),
        (tally.power_capped, "ended with the clocks held down by the power limit"),
    ] {
        if number > 0 {
            say!("{}: {what}", count(number, "problem"));
        }
    }
    say!(
        "measured {} and {} in {seconds:.1} s, {:.0} timings/s ({} failed{})",
        count(tally.measured, "problem"),
        count(tally.configs, "config"),
        tally.configs as f64 / seconds.max(1e-9),
        tally.failures.values().sum::<usize>(),
        tally.failures.iter().map(|(reason, number)| format!(", {reason}: {number}")).collect::<String>()
    );
    if !tally.device.is_zero() {
        let share = tally.busy.as_secs_f64() / tally.device.as_secs_f64() * 100.0;
        say!("the GPU spent {share:.0} % of its time in kernels");
    }
    if tally.late > 0 {
        say!(
            "launches that were timed again, since the GPU may have waited for this process: {}",
            tally.late
        );
    }
    let solutions = || {
        collection
            .chunks()
            .iter()
            .flat_map(|chunk| chunk.dataset.solutions.iter().map(move |s| (&chunk.dataset, s)))
    };
    if let Some(best) =
        solutions().filter_map(|(dataset, solution)| Fastest::of(dataset, solution)).max_by(Fastest::order)
    {
        let share =
            best.roofline_share.map_or(String::new(), |s| format!(", {:.0} % of its roofline", s * 100.0));
        say!("best: {} on {}{share}", rate(best.tflops), best.problem);
    }
    let mut spreads: Vec<f64> =
        solutions().flat_map(|(_, solution)| spreads_within_5_percent(solution)).collect();
    if let Some(noise) = upper_median(&mut spreads) {
        say!(
            "noise: half of the near-best times spread over less than {:.1} % of their median",
            noise * 100.0
        );
    }
    let duels: Vec<f64> =
        solutions().filter_map(|(dataset, solution)| library_ratio(dataset, solution)).collect();
    if !duels.is_empty() {
        let wins = duels.iter().filter(|&&ratio| ratio < 1.0).count();
        let mean = (duels.iter().map(|ratio| ratio.ln()).sum::<f64>() / duels.len() as f64).exp();
        say!(
            "the library is faster than the best Triton config on {wins} of {}, and takes {mean:.2} times as long on average",
            count(duels.len(), "problem")
        );
    }
    if collection.problems() == 0 {
        say!("nothing was measured, so nothing was written");
    }
    for chunk in collection.chunks() {
        let (problems, timings) = (chunk.dataset.solutions.len(), chunk.dataset.timings());
        say!("{}: {}, {}", chunk.path.display(), count(problems, "problem"), count(timings, "timing"));
    }
}

/// A problem and the rate of its fastest config.
struct Fastest {
    problem: String,
    tflops: f64,
    roofline_share: Option<f64>,
}

impl Fastest {
    fn of(dataset: &Dataset, solution: &Solution) -> Option<Self> {
        let row = solution.times.fastest()?;
        let time = solution.times.nanos(row).micros();
        let problem = &solution.problem;
        let tf32 = dataset.configs.get(solution.configs[row]).rounds_to_tf32();
        let facts = dataset.hardware.facts.as_ref();
        Some(Self {
            problem: format!("{} {} {}", problem.op, problem.dims(), problem.a_dtype),
            tflops: Tflops::from_work(problem.flops(), time).0,
            roofline_share: facts.and_then(|f| roofline(f, problem, tf32)).map(|least| least.0 / time.0),
        })
    }

    fn order(a: &Self, b: &Self) -> std::cmp::Ordering {
        a.tflops.total_cmp(&b.tflops)
    }
}
