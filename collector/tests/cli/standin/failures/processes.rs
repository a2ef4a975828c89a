//! What ends the measuring process. The config that did it is found and left out.

use diode_core::FailureReason;
use diode_standin::{Effect, Rule};

use super::case::{Arrangement, Case, End, run};

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
            arrange: |case| breaks(case, Effect::Break(700)),
            end: CRASHED,
            says: "CUDA_ERROR_ILLEGAL_ADDRESS (700)); another takes over",
        },
        Case {
            name: "a kernel fails",
            arrange: |case| breaks(case, Effect::Break(719)),
            end: CRASHED,
            says: "another takes over",
        },
        Case {
            name: "memory has an error that cannot be corrected",
            arrange: |case| breaks(case, Effect::Break(214)),
            end: CRASHED,
            says: "another takes over",
        },
        Case {
            name: "the launch itself says that all is lost",
            arrange: |case| breaks(case, Effect::Return(719)),
            end: CRASHED,
            says: "another takes over",
        },
        Case {
            name: "a kernel takes the process along",
            arrange: |case| breaks(case, Effect::Die),
            end: CRASHED,
            says: "launch: 3",
        },
        Case {
            name: "a kernel crashes on the second problem for the first time",
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
            arrange: |case| {
                case.arguments = vec!["--gpu-patience", "3s"];
                breaks(case, Effect::Hang);
            },
            end: End::Measured(&[("64x64x32", FailureReason::Timeout)]),
            says: "timeout: 3",
        },
        Case {
            name: "a kernel hangs once",
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
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("fill;", Effect::Break(999)).in_process(1))
            },
            end: End::Measured(&[]),
            says: "another takes over",
        },
        Case {
            name: "the inputs cannot be made, in two processes",
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("fill;", Effect::Break(999)).in_process(1));
                case.script.rules.push(Rule::of_kernel("fill;", Effect::Die).in_process(2));
            },
            end: End::Skipped(1),
            says: "the GPU broke down before a config was launched, twice; --resume tries again",
        },
        Case {
            name: "the inputs cannot be made at all",
            arrange: |case| case.script.rules.push(Rule::of_kernel("fill;", Effect::Break(999))),
            end: End::Ended(0),
            says: "on 2 problems in a row; see what `nvidia-smi`",
        },
        Case {
            name: "the reference hangs, in two processes",
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
