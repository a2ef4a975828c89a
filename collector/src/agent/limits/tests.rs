use std::collections::HashSet;

use jiff::civil::time;

use super::*;

const QUIET: Surroundings = Surroundings { others: Some(0), celsius: Some(60), slowed: false };

fn hindrance(limits: &Limits, around: Surroundings) -> Option<Hindrance> {
    limits.hindrance(around, time(12, 0, 0, 0), false)
}

#[test]
fn others_matter_only_where_that_was_asked() {
    let busy = Surroundings { others: Some(2), ..QUIET };
    let considerate = Limits { idle_only: true, ..Limits::default() };
    assert_eq!(hindrance(&considerate, busy), Some(Hindrance::Others(2)));
    assert_eq!(hindrance(&considerate, QUIET), None);
    assert_eq!(hindrance(&Limits::default(), busy), None);
    assert!(considerate.check(Surroundings::default()).is_err());
    assert!(considerate.check(busy).is_ok());
    assert!(Limits::default().check(Surroundings::default()).is_ok());
}

#[test]
fn heat_is_waited_for_until_it_is_well_gone() {
    let limits = Limits { max_celsius: Some(80), ..Limits::default() };
    let at = |celsius| Surroundings { celsius: Some(celsius), ..QUIET };
    assert_eq!(hindrance(&limits, at(80)), None);
    assert_eq!(hindrance(&limits, at(81)), Some(Hindrance::Hot(81)));
    let cooling = |celsius| limits.hindrance(at(celsius), time(12, 0, 0, 0), true);
    assert_eq!((cooling(71), cooling(70)), (Some(Hindrance::Hot(71)), None));
    // If the user sets no limit of temperature, the driver's limit counts.
    let slowed = Surroundings { slowed: true, ..at(95) };
    assert_eq!(hindrance(&Limits::default(), slowed), Some(Hindrance::Slowed));
    assert_eq!(hindrance(&Limits::default(), at(95)), None);
    assert!(limits.check(Surroundings::default()).is_err());
}

#[test]
fn hours_and_shares_are_kept() {
    let hours: Hours = "22:00-06:00".parse().unwrap();
    let limits = Limits { hours: Some(hours), share: Some(0.25), ..Limits::default() };
    assert_eq!(hindrance(&limits, QUIET), Some(Hindrance::Hours(hours)));
    assert_eq!(limits.hindrance(QUIET, time(23, 0, 0, 0), false), None);
    assert_eq!(limits.rest_after(Duration::from_secs(2)), Duration::from_secs(6));
    assert_eq!(Limits::default().rest_after(Duration::from_secs(2)), Duration::ZERO);
    assert_eq!((limits.work_within(120.0), limits.work_within(2.0)), (30.0, 1.0));
    assert!(share("0").is_err() && share("1.5").is_err() && share("1").is_ok());
}

#[test]
fn hours_may_go_on_past_midnight() {
    let night: Hours = "22:00-06:30".parse().unwrap();
    for (hour, minute, holds) in
        [(21, 59, false), (22, 0, true), (0, 0, true), (6, 29, true), (6, 30, false), (12, 0, false)]
    {
        assert_eq!(night.hold(time(hour, minute, 0, 0)), holds, "{hour}:{minute}");
    }
    let day: Hours = "9-17".parse().unwrap();
    assert!(day.hold(time(9, 0, 0, 0)) && !day.hold(time(17, 0, 0, 0)));
    assert_eq!((night.to_string(), day.to_string()), ("22:00-06:30".to_owned(), "09:00-17:00".to_owned()));
    let evening: Hours = "18:00-24:00".parse().unwrap();
    assert!(evening.hold(time(23, 59, 59, 0)) && !evening.hold(time(0, 0, 0, 0)));
}

#[test]
fn what_is_no_range_of_times_is_refused() {
    for bad in ["", "22:00", "22:00-", "22:00-22:00", "25-3", "1:60-2", "a-b", "1-2-3"] {
        assert!(bad.parse::<Hours>().unwrap_err().contains("22:00-06:00"), "{bad}");
    }
}

/// What is built without a pack is what the GPU can run.
#[test]
fn kernels_of_fp8_are_built_for_gpus_that_have_it() {
    let none = Allowed { ops: Vec::new(), dtypes: Vec::new() };
    let variants = |arch: &str| -> HashSet<(Op, DType, Scaling)> {
        let kernels = none.plan(arch).kernels().unwrap();
        let variants = kernels.iter().filter_map(|kernel| KernelVariant::of_kernel(&kernel.key));
        variants.map(|variant| (variant.op(), variant.dtype, variant.scaling)).collect()
    };
    let narrow = [("sm_90", DType::Float8E4M3), ("sm_80", DType::Int8), ("gfx942", DType::Float8E4M3Fnuz)];
    for (arch, dtype) in narrow {
        let built = variants(arch);
        for (op, dtype, scaling) in [
            (Op::Mm, DType::BFloat16, Scaling::None),
            (Op::GroupedMm, DType::BFloat16, Scaling::None),
            (Op::FusedMoe, DType::BFloat16, Scaling::None),
            (Op::ScaledMm, dtype, Scaling::Row),
            (Op::ScaledGroupedMm, dtype, Scaling::Row),
            (Op::FusedMoe, dtype, Scaling::Row),
        ] {
            assert!(built.contains(&(op, dtype, scaling)), "{arch} {op} {dtype}");
        }
        assert!(built.iter().all(|(_, built, _)| [DType::BFloat16, dtype].contains(built)), "{arch}");
    }
}
