use std::collections::HashSet;

use diode_api::{Ability, Breadth, Purpose};
use diode_core::hardware::{Hardware, find};
use diode_core::{DType, KernelVariant, Layout, Op, Problem, ProblemFields, Scaling, is_kept};
use proptest::prelude::*;

use super::*;
use super::{BATCHES, DTYPES, USUAL_USE};
use crate::agents::plan::planner::AllCells;
use crate::agents::plan::planner::{draw, key};

fn h200() -> Hardware {
    find("nvidia-h200").unwrap()
}

fn everything() -> Ability {
    Ability::of(&h200(), 100 << 30)
}

/// The problems of a plan that are neither scaled nor grouped.
fn plain(plan: Vec<Planned>) -> Vec<Planned> {
    plan.into_iter().filter(|p| p.problem.op.is_plain()).collect()
}

fn planned(ability: &Ability, known: &[Problem], seed: u64, number: usize) -> Vec<Planned> {
    Planner::new(&h200(), ability, 30.0, &known.iter().collect(), &Order::new(seed)).take(number).collect()
}

#[test]
fn the_same_seed_gives_the_same_plan() {
    assert_eq!(planned(&everything(), &[], 1, 500), planned(&everything(), &[], 1, 500));
    assert_ne!(planned(&everything(), &[], 1, 10), planned(&everything(), &[], 2, 10));
}

#[test]
fn holes_come_first_and_each_kind_once() {
    let feasible = planned(&everything(), &[], 1, 100_000);
    let holes = feasible.iter().take_while(|p| p.purpose == Purpose::Hole).count();
    assert!(holes > 10_000, "{holes}");
    assert!(feasible[holes..].iter().all(|p| p.purpose == Purpose::More));
    let kinds: HashSet<Kind> = feasible[..holes].iter().map(|p| Kind::of(&p.problem).unwrap()).collect();
    assert_eq!(kinds.len(), holes);
}

#[test]
fn what_is_known_is_not_planned_again() {
    let first: Vec<Problem> = planned(&everything(), &[], 1, 300).into_iter().map(|p| p.problem).collect();
    let known: HashSet<Kind> = first.iter().filter_map(Kind::of).collect();
    let next = planned(&everything(), &first, 1, 300);
    assert!(next.iter().all(|p| p.purpose == Purpose::Hole));
    assert!(next.iter().all(|p| !known.contains(&Kind::of(&p.problem).unwrap())));
    // A plan that is interrupted gives the same problems as a plan without an interruption.
    let at_once: Vec<Problem> = planned(&everything(), &[], 1, 600).into_iter().map(|p| p.problem).collect();
    let in_parts: Vec<Problem> = first.into_iter().chain(next.into_iter().map(|p| p.problem)).collect();
    assert_eq!(at_once, in_parts);
}

#[test]
fn nothing_is_planned_that_the_device_cannot_do() {
    let few = Ability {
        ops: vec![Op::Mm, Op::Bmm],
        dtypes: vec![DType::Float16],
        layouts: vec![Layout::Column],
        unaligned: false,
        memory_bytes: 1 << 20,
        variants: None,
    };
    let plan = planned(&few, &[], 1, 2000);
    assert!(plan.len() > 200, "{}", plan.len());
    for Planned { problem, seconds, .. } in plan {
        assert!(few.ops.contains(&problem.op) && problem.a_dtype == DType::Float16);
        assert!(Kind::of(&problem).unwrap().aligned && problem.b_layout == Layout::Column);
        assert!(seconds <= 30.0);
    }
    let none = Ability { memory_bytes: 0, ..everything() };
    assert_eq!(planned(&none, &[], 1, 10), []);
}

#[test]
fn a_plan_of_few_kinds_ends() {
    let scarce = Ability {
        ops: vec![Op::Mm],
        dtypes: vec![DType::BFloat16],
        layouts: vec![Layout::Row],
        unaligned: false,
        memory_bytes: 400,
        variants: None,
    };
    let all = planned(&scarce, &[], 1, 1_000_000);
    let distinct: HashSet<&Problem> = all.iter().map(|p| &p.problem).collect();
    assert!(!all.is_empty() && distinct.len() == all.len());
}

#[test]
fn usual_kinds_come_sooner() {
    let first = plain(planned(&everything(), &[], 1, 500));
    let count = |admits: &dyn Fn(&Problem) -> bool| first.iter().filter(|p| admits(&p.problem)).count();
    assert!(count(&|p| p.a_dtype == DType::BFloat16) > 3 * count(&|p| p.a_dtype == DType::Float32) / 2);
    assert!(count(&|p| matches!(p.op, Op::Mm | Op::Addmm)) > count(&|p| p.op.is_batched()));
    assert!(count(&|p| Kind::of(p).unwrap().aligned) > 200);
}

#[test]
fn no_operator_type_layout_or_alignment_waits_for_others() {
    let first = plain(planned(&everything(), &[], 1, 2500));
    let share = |admits: &dyn Fn(&Problem) -> bool| {
        first.iter().filter(|p| admits(&p.problem)).count() as f64 / first.len() as f64
    };
    // Each share is at least half of what it would be if all were equally frequent.
    for op in Op::PLAIN {
        assert!(share(&|p| p.op == op) > 0.125, "{op}");
    }
    for dtype in DTYPES {
        assert!(share(&|p| p.a_dtype == dtype) > 1.0 / 6.0, "{dtype}");
    }
    for &layout in Layout::ALL {
        assert!(share(&|p| p.b_layout == layout) > 0.25, "{layout}");
    }
    assert!(share(&|p| !Kind::of(p).unwrap().aligned) > 0.25);
}

#[test]
fn a_quarter_of_the_first_problems_are_what_models_are_served_with() {
    let first = planned(&everything(), &[], 1, 2000);
    let served: Vec<&Planned> = first.iter().filter(|p| !p.problem.op.is_plain()).collect();
    assert!((0.2..0.3).contains(&(served.len() as f64 / 2000.0)), "{}", served.len());
    for op in [Op::ScaledMm, Op::GroupedMm, Op::ScaledGroupedMm, Op::FusedMoe] {
        assert!(served.iter().any(|p| p.problem.op == op), "{op}");
    }
    assert!(served.iter().all(|p| p.problem.a_dtype != DType::Float8E4M3Fnuz));
    // Without fp8, there are int8 and bfloat16.
    let a100 = find("nvidia-a100").unwrap();
    let ability = Ability::of(&a100, 40 << 30);
    let order = Order::new(1);
    let known = KnownProblems::default();
    let first = Planner::new(&a100, &ability, 30.0, &known, &order).take(2000);
    let served: HashSet<_> = first.filter(|p| !p.problem.op.is_plain()).map(|p| p.problem.a_dtype).collect();
    assert_eq!(served, HashSet::from([DType::BFloat16, DType::Int8]));
}

/// An agent with packs gets only what they compute.
#[test]
fn kernels_of_one_scaling_get_problems_of_that_scaling() {
    let names = ["scaled_mm;float8_e4m3fn;row,column;scaling=row;align=16,16,16"];
    let variants: Vec<KernelVariant> = names.map(|name| name.parse().unwrap()).into();
    let row = Ability { variants: Some(variants), ..everything() };
    let plan = planned(&row, &[], 1, 300);
    assert_eq!(plan.len(), 300);
    assert!(plan.iter().all(|p| (p.problem.op, p.problem.scaling) == (Op::ScaledMm, Scaling::Row)));
}

#[test]
fn rows_are_unaligned_in_each_way_from_the_start() {
    let first = planned(&everything(), &[], 1, 1000);
    let ways =
        first.iter().filter(|p| !Kind::of(&p.problem).unwrap().aligned).map(|Planned { problem, .. }| {
            [problem.n, problem.k].map(|side| (side * problem.a_dtype.size()).is_multiple_of(16))
        });
    let ways: Vec<[bool; 2]> = ways.collect();
    for way in [[false, true], [true, false], [false, false]] {
        let share = ways.iter().filter(|other| **other == way).count() as f64 / ways.len() as f64;
        assert!((0.2..0.5).contains(&share), "{way:?}: {share}");
    }
}

#[test]
fn half_of_the_weight_is_use_by_programs() {
    let batches = |kind: &Kind| if kind.op.is_batched() { BATCHES.len() as f64 } else { 1.0 };
    let all: Vec<Kind> = kinds().into_iter().filter(|kind| kind.op.is_plain()).collect();
    let uses: f64 = all.iter().map(|kind| kind.use_by_programs() / batches(kind)).sum();
    let alike: f64 = all.iter().map(|kind| 1.0 / batches(kind)).sum();
    assert!((uses / alike / USUAL_USE - 1.0).abs() < 0.005, "{}", uses / alike);
}

#[test]
fn the_shares_are_as_stated() {
    let plan = planned(&everything(), &[], 3, 20_000);
    let share = |admits: &dyn Fn(&Planned) -> bool| {
        plan.iter().filter(|p| admits(p)).count() as f64 / plan.len() as f64
    };
    assert!((share(&|p| is_kept(&p.problem)) - 0.1).abs() < 0.015);
    assert!((share(&|p| is_to_be_confirmed(&p.problem)) - 0.25).abs() < 0.02);
    assert!(plan.iter().filter(|p| is_kept(&p.problem)).all(|p| breadth_of(&p.problem) == Breadth::Full));
    assert!((0.15..0.5).contains(&share(&|p| p.breadth == Breadth::Full)));
}

#[test]
fn purposes_have_their_order() {
    let mut purposes = Purpose::ALL.to_vec();
    purposes.sort_by_key(|&purpose| rank(purpose));
    assert_eq!(
        purposes,
        [Purpose::Hole, Purpose::Wanted, Purpose::Weak, Purpose::Confirm, Purpose::Again, Purpose::More]
    );
}

#[test]
fn problems_beyond_the_plan_have_no_kind() {
    let plain = ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::BFloat16);
    let kind = |fields| Kind::of(&Problem::new(fields).unwrap());
    assert!(kind(plain.clone()).is_some());
    for other in [
        ProblemFields { a_layout: Layout::Column, ..plain.clone() },
        ProblemFields { out_dtype: DType::Float32, ..plain.clone() },
        ProblemFields { m: 70_000, ..plain.clone() },
        ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Int8),
    ] {
        assert_eq!(kind(other.clone()), None, "{other:?}");
    }
}

#[test]
fn a_kind_says_what_it_is() {
    let problem = Problem::new(ProblemFields {
        b_layout: Layout::Column,
        ..ProblemFields::plain(Op::Bmm, 8, 3, 70, 4096, DType::Float16)
    });
    let words = Kind::of(&problem.unwrap()).unwrap().to_string();
    assert_eq!(words, "bmm float16, B in columns, unaligned, B 4–15, M 1–3, N 64–255, K 4096–16383");
}

#[test]
fn more_configs_and_larger_problems_take_longer() {
    let problem =
        |side| Problem::new(ProblemFields::plain(Op::Mm, 1, side, side, side, DType::BFloat16)).unwrap();
    let seconds = |side, breadth| expected_seconds(&h200(), &problem(side), breadth);
    assert!(seconds(4096, Breadth::Full) > 3.0 * seconds(4096, Breadth::Sample));
    assert!(seconds(8192, Breadth::Sample) > seconds(1024, Breadth::Sample));
    // One second was measured for a problem of medium size.
    assert!((0.3..3.0).contains(&seconds(2048, Breadth::Full)), "{}", seconds(2048, Breadth::Full));
    let unknown = Hardware { facts: None, ..h200() };
    assert!(expected_seconds(&unknown, &problem(4096), Breadth::Full) > seconds(4096, Breadth::Full));
}

proptest! {
    #[test]
    fn a_drawn_problem_is_of_its_kind(place in 0_usize..39_000, number in 0_u64..100_000, seed: u64) {
        let all = kinds();
        let kind = all[place % all.len()];
        if let Some(problem) = draw(kind, number, key(kind, seed), &AllCells::new()) {
            prop_assert_eq!(Kind::of(&problem), Some(kind));
        }
    }
}
