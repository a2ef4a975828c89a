//! Finds times that cannot have been measured.

use std::collections::BTreeMap;

use crate::hardware::{Facts, floor};
use crate::named_enum::named_enum;
use crate::space::cannot_have_run;
use crate::{Config, ConfigDictionary, DType, Invalid, Nanos, Solution};

/// The share by which a time may lie below the floor: clocks and events are not known more exactly.
const TOLERANCE: f64 = 0.05;

/// The same where only the upload states the facts, which may be rough.
const STATED_TOLERANCE: f64 = 0.5;

/// The least time that is accepted. Every clock's step is longer.
const LEAST: Nanos = Nanos(1.0);

/// Operations in a microsecond that no device can do: 20 PFLOP/s.
const OUT_OF_REACH: f64 = 20e9;

/// What bounds the times on a hardware from below.
#[derive(Debug, Clone, Copy)]
pub enum Bounds<'a> {
    /// Facts that somebody vouches for.
    Vouched(&'a Facts),
    /// Facts that the upload states, and nobody vouches for. They can only refuse the upload's own times.
    Stated(&'a Facts),
    /// No facts: what no device can do.
    Unknown,
}

named_enum! {
    /// Why some timings of an upload are not stored.
    SetApartReason("reason") {
        /// Shorter than the hardware's peak arithmetic and bandwidth allow.
        BelowFloor = "below-floor",
        /// The hardware cannot launch such a kernel.
        Infeasible = "infeasible",
    }
}

/// Why a timing cannot be true: the reason, and the error in one line.
pub type Fault = (SetApartReason, Invalid);

/// Finds timings that cannot be true, and returns for each of their rows what is wrong. A time is below
/// the floor if its unit was mistaken, its kernel did not compute everything, or it was made up. One such
/// time would lead every ranking. A config may be one that the hardware cannot launch.
pub fn faults(bounds: Bounds<'_>, solution: &Solution, configs: &ConfigDictionary) -> BTreeMap<usize, Fault> {
    let (vouched, facts) = match bounds {
        Bounds::Vouched(facts) => (Some(facts), Some(facts)),
        Bounds::Stated(facts) => (None, Some(facts)),
        Bounds::Unknown => (None, None),
    };
    let bound = |allow_tf32| floor(facts?, &solution.problem, solution.method, allow_tf32);
    let (exact, tf32) = (bound(false), bound(true));
    let unreachable = solution.problem.flops() / OUT_OF_REACH;
    let fault = |config: &Config, time: Nanos| -> Option<Fault> {
        let fault = |reason, expected: String| {
            let what =
                format!("time of {} {} {}", solution.problem.op, solution.problem.dims(), config.label());
            Some((reason, Invalid::new(what, format_args!("{:.3} µs", time.micros().0), expected)))
        };
        if time.0 < LEAST.0 {
            let expected = format!("at least {} ns; check the unit", LEAST.0);
            return fault(SetApartReason::BelowFloor, expected);
        }
        if let (Some(facts), Some(tile)) = (vouched, config.tile())
            && cannot_have_run(facts, &solution.problem, tile)
        {
            let most = facts.smem_per_block;
            let expected = format!("none, since its stages need more than {most} bytes of shared memory");
            return fault(SetApartReason::Infeasible, expected);
        }
        let floor = if may_use_tf32(config, solution.problem.a_dtype) { tf32 } else { exact };
        let (least, why) = match floor {
            Some(floor) if vouched.is_some() => (
                floor.0 * (1.0 - TOLERANCE),
                "the least that this hardware's peak arithmetic and bandwidth allow",
            ),
            Some(floor) => (
                floor.0 * (1.0 - STATED_TOLERANCE),
                "half of what the peak arithmetic and bandwidth that the file states allow",
            ),
            None => (unreachable, "since no device does 20 PFLOP/s"),
        };
        if time.micros().0 >= least {
            return None;
        }
        let shown = floor.filter(|_| vouched.is_some()).map_or(least, |floor| floor.0);
        let expected = format!(
            "at least {shown:.3} µs, {why}; check the unit (torch-diode's files hold milliseconds) and that the kernel ran"
        );
        fault(SetApartReason::BelowFloor, expected)
    };
    let timed = solution.configs.iter().map(|index| configs.get(*index)).zip(solution.times.iter_nanos());
    timed.enumerate().filter_map(|(row, (config, time))| Some((row, fault(config, time)?))).collect()
}

/// Whether a kernel may have used TF32. Imported files do not say whether the library did, so it may have.
fn may_use_tf32(config: &Config, dtype: DType) -> bool {
    dtype == DType::Float32 && config.tile().is_none_or(|tile| tile.allow_tf32)
}

#[cfg(test)]
mod tests {
    use crate::hardware::find;
    use crate::{Groups, Method, Op, Problem, ProblemFields, Scaling, Stage, Tile, TimeColumn};

    use super::*;

    fn solution(dtype: DType, config: Config, nanos: u64) -> (Solution, ConfigDictionary) {
        let mut configs = ConfigDictionary::default();
        let solution = Solution {
            problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 4096, 4096, 4096, dtype)).unwrap(),
            method: Method::Unspecified,
            configs: vec![configs.intern(config)],
            times: TimeColumn::from_nanos(vec![nanos]).unwrap(),
            minimum_ns: None,
            spread_ns: None,
            repeats: None,
            failures: Vec::new(),
        };
        (solution, configs)
    }

    #[test]
    fn impossible_times_are_named() {
        let facts = find("nvidia-h200").and_then(|h| h.facts).unwrap();
        let config = Config::Mm(Tile::new(128, 128, 64, 3, 8));
        // The floor of a 4096³ bf16 product on an H200 is 128.3 µs. 123 µs is less than 5 % below it.
        let (possible, configs) = solution(DType::BFloat16, config, 123_000);
        assert!(faults(Bounds::Vouched(&facts), &possible, &configs).is_empty());
        let (impossible, configs) = solution(DType::BFloat16, config, 121_000);
        let (reason, message) = faults(Bounds::Vouched(&facts), &impossible, &configs).remove(&0).unwrap();
        let message = message.to_string();
        assert_eq!(reason, SetApartReason::BelowFloor);
        assert!(
            message.starts_with("time of mm 4096×4096×4096 128×128×64 s3 w8: got 121.000 µs"),
            "{message}"
        );
        assert!(message.contains("at least 128."), "{message}");
    }

    #[test]
    fn hardware_that_nobody_described_has_a_least_time() {
        let config = Config::Mm(Tile::new(128, 128, 64, 3, 8));
        let said = |bounds, nanos| {
            let (solution, configs) = solution(DType::BFloat16, config, nanos);
            faults(bounds, &solution, &configs).remove(&0).map(|(_, error)| error.to_string())
        };
        // 137 GFLOP in 7 µs are 19.6 PFLOP/s, in 6 µs 22.9.
        assert_eq!(said(Bounds::Unknown, 7_000), None);
        assert!(
            said(Bounds::Unknown, 6_000)
                .is_some_and(|said| said.contains("at least 6.872 µs, since no device"))
        );
        // What a file says of its hardware holds for its own times. The floor is 128.3 µs.
        let stated = find("nvidia-h200").and_then(|h| h.facts).unwrap();
        assert_eq!(said(Bounds::Stated(&stated), 65_000), None);
        assert!(
            said(Bounds::Stated(&stated), 64_000).is_some_and(|said| said.contains("that the file states"))
        );
        let (mut solution, configs) = solution(DType::Int32, config, 1);
        solution.times = TimeColumn::from_millis(vec![1e-310]).unwrap();
        let message = faults(Bounds::Unknown, &solution, &configs)[&0].1.to_string();
        assert!(message.contains("at least 1 ns"), "{message}");
    }

    #[test]
    fn tf32_is_assumed_only_where_it_may_have_been_used() {
        let facts = find("nvidia-h200").and_then(|h| h.facts).unwrap();
        let exact = Config::Mm(Tile::new(128, 128, 32, 3, 8));
        let tf32 = Config::Mm(Tile { allow_tf32: true, ..Tile::new(128, 128, 32, 3, 8) });
        for (config, allowed) in [(exact, false), (tf32, true), (Config::Library, true)] {
            let (solution, configs) = solution(DType::Float32, config, 400_000);
            assert_eq!(
                faults(Bounds::Vouched(&facts), &solution, &configs).is_empty(),
                allowed,
                "{config:?}"
            );
        }
    }

    /// Times of `lab/serving` on an H200 that lie least above the floor, or below that of the average routing.
    #[test]
    fn times_of_served_models_are_possible() {
        let facts = find("nvidia-h200").and_then(|h| h.facts).unwrap();
        let experts = |stage, count, m, n, k, dtype, scaling| {
            let groups = Some(Groups { stage: Some(stage), ..Groups::routed(count, 2) });
            ProblemFields { groups, scaling, ..ProblemFields::plain(Op::FusedMoe, 1, m, n, k, dtype) }
        };
        let row = ProblemFields {
            scaling: Scaling::Row,
            ..ProblemFields::plain(Op::ScaledMm, 1, 16, 67_584, 12_288, DType::Float8E4M3)
        };
        let (fp8, bf16) = (DType::Float8E4M3, DType::BFloat16);
        for (fields, micros) in [
            (row, 187.084),
            (experts(Stage::GateUp, 8, 8, 28_672, 4096, fp8, Scaling::Block), 135.922),
            (experts(Stage::GateUp, 16, 8, 14_336, 4096, bf16, Scaling::None), 211.826),
        ] {
            let problem = Problem::new(fields).unwrap();
            let floor = floor(&facts, &problem, Method::MEDIAN_COLD_EVENT, false).unwrap();
            assert!((0.5..1.0).contains(&(floor.0 / micros)), "{}: {floor:?}", problem.canonical());
        }
    }

    #[test]
    fn a_kernel_that_does_not_fit_has_no_time() {
        let facts = find("nvidia-h200").and_then(|h| h.facts).unwrap();
        for (stages, fits) in [(8, true), (9, false)] {
            let config = Config::Mm(Tile::new(128, 128, 64, stages, 8));
            let (solution, configs) = solution(DType::BFloat16, config, 400_000);
            let faults = faults(Bounds::Vouched(&facts), &solution, &configs);
            assert_eq!(faults.is_empty(), fits, "{faults:?}");
            assert!(faults.values().all(|(reason, _)| *reason == SetApartReason::Infeasible));
        }
    }
}
