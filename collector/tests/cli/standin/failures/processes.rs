//! Faults that end the measuring process. The config at fault is found and left out.

use diode_core::FailureReason;
use diode_standin::{Effect, Rule};

use super::case::{Arrangement, BOTH, Case, End, run};

const TILE: &str = ";64x64x32;";
const CRASHED: End = End::Measured(&[("64x64x32", FailureReason::Launch)]);

fn breaks(case: &mut Arrangement<'_>, effect: Effect) {
    case.script.rules.push(Rule::of_kernel(TILE, effect));
}

#[test]
fn kernels_that_crash() {
    run(&[
        Case {
            name: "a kernel reads where nothing is",
            on: BOTH,
            arrange: |case| breaks(case, Effect::Break(700)),
            end: CRASHED,
            says: "(700)); another takes over",
        },
        Case {
            name: "a kernel fails",
            on: BOTH,
            arrange: |case| breaks(case, Effect::Break(719)),
            end: CRASHED,
            says: "another takes over",
        },
        Case {
            name: "memory has an error that cannot be corrected",
            on: BOTH,
            arrange: |case| breaks(case, Effect::Break(214)),
            end: CRASHED,
            says: "another takes over",
        },
        Case {
            name: "the launch itself says that all is lost",
            on: BOTH,
            arrange: |case| breaks(case, Effect::Return(719)),
            end: CRASHED,
            says: "another takes over",
        },
        Case {
            name: "a kernel takes the process along",
            on: BOTH,
            arrange: |case| breaks(case, Effect::Die),
            end: CRASHED,
            says: "launch: 3",
        },
        Case {
            name: "a kernel crashes on the second problem for the first time",
            on: BOTH,
            arrange: |case| {
                case.script
                    .rules
                    .push(Rule::of_kernel("bias=vector", Effect::Break(700)).times(1).in_process(1));
            },
            end: End::Measured(&[]),
            says: "another takes over",
        },
    ]);
}

#[test]
fn kernels_that_hang() {
    run(&[
        Case {
            name: "a kernel hangs",
            on: BOTH,
            arrange: |case| {
                case.arguments = vec!["--gpu-patience", "3s"];
                breaks(case, Effect::Hang);
            },
            end: End::Measured(&[("64x64x32", FailureReason::Timeout)]),
            says: "timeout: 3",
        },
        Case {
            name: "a kernel hangs once",
            on: BOTH,
            arrange: |case| {
                case.arguments = vec!["--gpu-patience", "3s"];
                case.script.rules.push(Rule::of_kernel(TILE, Effect::Hang).in_process(1));
            },
            end: End::Measured(&[]),
            says: "measured 3 problems and 15 configs",
        },
    ]);
}

#[test]
fn gpus_that_fail_before_a_launch() {
    run(&[
        Case {
            name: "the inputs cannot be made, once",
            on: BOTH,
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("fill;", Effect::Break(999)).in_process(1))
            },
            end: End::Measured(&[]),
            says: "another takes over",
        },
        Case {
            name: "the inputs cannot be made, in two processes",
            on: BOTH,
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("fill;", Effect::Break(999)).in_process(1));
                case.script.rules.push(Rule::of_kernel("fill;", Effect::Die).in_process(2));
            },
            end: End::Skipped(1),
            says: "the GPU broke down before a config was launched, twice; --resume tries again",
        },
        Case {
            name: "the inputs cannot be made at all",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel("fill;", Effect::Break(999))),
            end: End::Ended(0),
            says: "on 2 problems in a row; see what `",
        },
        Case {
            name: "the reference hangs, in two processes",
            on: BOTH,
            arrange: |case| {
                case.arguments = vec!["--gpu-patience", "3s"];
                case.script.rules.push(Rule::of_kernel("reference;", Effect::Hang).in_process(1));
                case.script.rules.push(Rule::of_kernel("reference;", Effect::Hang).in_process(2));
            },
            end: End::Skipped(1),
            says: "the GPU hung before a config was launched, twice",
        },
    ]);
}
