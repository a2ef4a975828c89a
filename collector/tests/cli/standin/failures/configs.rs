//! Faults that cost a config, or nothing at all.

use diode_core::FailureReason;
use diode_standin::{Effect, Rule};

use super::case::{BOTH, Case, End, NVIDIA, run};

const TILE: &str = ";64x64x32;";

#[test]
fn wrong_results() {
    const WRONG: End = End::Measured(&[("64x64x32", FailureReason::WrongResult)]);
    run(&[
        Case {
            name: "a kernel is wrong",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Wrong)),
            end: WRONG,
            says: "wrong_result: 3",
        },
        Case {
            name: "a kernel is wrong, but not when it is launched first",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Wrong).from(2)),
            end: WRONG,
            says: "wrong_result: 3",
        },
        Case {
            name: "the library is wrong",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("multiply", Effect::Wrong)),
            end: End::Measured(&[("aten", FailureReason::WrongResult)]),
            says: "wrong_result: 3",
        },
        Case {
            name: "a kernel is slow",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Slow(80.0))),
            end: End::Measured(&[]),
            says: "measured 3 problems and 15 configs",
        },
    ]);
}

#[test]
fn refused_launches() {
    const RESOURCES: End = End::Measured(&[("64x64x32", FailureReason::OutOfResources)]);
    const LAUNCH: End = End::Measured(&[("64x64x32", FailureReason::Launch)]);
    run(&[
        Case {
            name: "a launch has invalid values",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Return(1))),
            end: RESOURCES,
            says: "out_of_resources: 3",
        },
        Case {
            name: "a launch needs more than there is",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Return(701))),
            end: RESOURCES,
            says: "out_of_resources: 3",
        },
        Case {
            name: "a launch has no memory to spill to",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Return(2))),
            end: End::Measured(&[("64x64x32", FailureReason::OutOfMemory)]),
            says: "out_of_memory: 3",
        },
        Case {
            name: "a launch is refused for another reason",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::of_kernel(TILE, Effect::Return(400))),
            end: LAUNCH,
            says: "launch: 3",
        },
        Case {
            name: "a binary is refused",
            on: BOTH,
            arrange: |case| {
                let rule = Rule::new("load_kernel", Effect::Return(209));
                case.script.rules.push(Rule { kernel: Some(TILE.to_owned()), ..rule });
            },
            end: LAUNCH,
            says: "launch: 3",
        },
        Case {
            name: "shared memory is refused",
            on: NVIDIA,
            arrange: |case| case.script.gpus[0].shared = 50 << 10,
            end: End::Measured(&[("128x128x64", FailureReason::OutOfResources)]),
            says: "out_of_resources: 3",
        },
        Case {
            name: "the library refuses",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("multiply", Effect::Return(15))),
            end: End::Measured(&[("aten", FailureReason::Launch)]),
            says: "launch: 3",
        },
    ]);
}

#[test]
fn a_node_that_is_not_quite_as_it_should_be() {
    const MEASURED: End = End::Measured(&[]);
    run(&[
        Case {
            name: "the GPU is hot",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("throttle", Effect::Value(0x40))),
            end: MEASURED,
            says: "3 problems: measured while the GPU was disturbed, three times over",
        },
        Case {
            name: "the power supply is in trouble once",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("throttle", Effect::Value(0x80)).times(1)),
            end: MEASURED,
            says: "measured 3 problems and 15 configs",
        },
        Case {
            name: "a round is slow",
            on: BOTH,
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("mm;", Effect::Slow(1.3)).from(60).times(60))
            },
            end: MEASURED,
            says: "measured 3 problems and 15 configs",
        },
        Case {
            name: "the GPU has waited for a launch",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("event_query", Effect::Return(0)).times(3)),
            end: MEASURED,
            says: "launches that were timed again, since the GPU may have waited for this process: 3",
        },
        Case {
            name: "the GPU waits for every launch",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("event_query", Effect::Return(0))),
            end: MEASURED,
            says: "launches that were timed again",
        },
        Case {
            name: "the power limit holds the clocks down",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("throttle", Effect::Value(0x4))),
            end: MEASURED,
            says: "3 problems: ended with the clocks held down by the power limit",
        },
        Case {
            name: "the power limit is lowered",
            on: BOTH,
            arrange: |case| case.script.gpus[0].power_limit_mw = 350_000,
            end: MEASURED,
            says: "the power limit is 350 W instead of 700 W",
        },
        Case {
            name: "the GPU is divided",
            on: BOTH,
            arrange: |case| case.script.gpus[0].mig = true,
            end: MEASURED,
            says: "the GPU is divided (MIG",
        },
        Case {
            name: "others compute too",
            on: BOTH,
            arrange: |case| case.script.gpus[0].processes = 2,
            end: MEASURED,
            says: "2 other processes compute on this GPU",
        },
        Case {
            name: "there is no management library",
            on: BOTH,
            arrange: |case| case.node.spoil(1),
            end: MEASURED,
            says: "management library is missing: clocks and heat are not watched",
        },
        Case {
            name: "the management library does not start",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("management_init", Effect::Return(9))),
            end: MEASURED,
            says: "clocks and heat are not watched",
        },
        Case {
            name: "the management library does not know why clocks are low",
            on: NVIDIA,
            arrange: |case| case.node.take_away("nvmlDeviceGetCurrentClocksThrottleReasons"),
            end: MEASURED,
            says: "measured 3 problems and 15 configs",
        },
    ]);
}
