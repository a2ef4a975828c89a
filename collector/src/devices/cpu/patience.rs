//! How long a launch may take before the watchdog ends it.

use std::time::Duration;

use diode_core::Problem;

/// A part of every limit: enough to start a process on a machine that is busy with other things.
const BASE: Duration = Duration::from_secs(20);
/// Even the slowest config that works is faster than this on the slowest core in use.
const SLOWEST_FLOPS_PER_SECOND: f64 = 2e8;
/// How fast the slowest core makes inputs. Each byte is written once.
const SLOWEST_BYTES_PER_SECOND: f64 = 2e7;

/// The limit for making a problem's inputs.
pub(super) fn to_load(problem: &Problem) -> Duration {
    BASE + seconds(problem.bytes() / SLOWEST_BYTES_PER_SECOND)
}

/// The limit for `launches` launches. If there is a best launch so far, its time gives a far better
/// limit than the sizes.
pub(super) fn to_run(problem: &Problem, launches: u32, best: Option<u64>) -> Duration {
    /// No tile is slower than another by more than this factor.
    const WORST_RATIO: f64 = 100.0;
    let by_size = problem.flops() / SLOWEST_FLOPS_PER_SECOND;
    let one = best.map_or(by_size, |best| by_size.min(best as f64 / 1e9 * WORST_RATIO));
    BASE + seconds(one * f64::from(launches))
}

fn seconds(value: f64) -> Duration {
    Duration::try_from_secs_f64(value).unwrap_or(Duration::MAX / 2)
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Op, ProblemFields};

    use super::*;

    #[test]
    fn limits_grow_with_the_problem_and_shrink_with_knowledge() {
        let square = |m| Problem::new(ProblemFields::plain(Op::Mm, 1, m, m, m, DType::Float32)).unwrap();
        assert!(to_run(&square(4096), 1, None) > to_run(&square(64), 1, None));
        assert!(to_run(&square(4096), 1, Some(1_000_000_000)) < to_run(&square(4096), 1, None));
        assert!(to_load(&square(1 << 20)) > to_load(&square(16)));
        assert!(to_run(&square(1 << 20), u32::MAX, None) > Duration::ZERO);
    }
}
