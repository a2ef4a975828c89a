//! Faults that cost a problem.

use diode_core::FailureReason;
use diode_standin::{Effect, Rule};

use super::case::{AMD, BOTH, Case, End, NVIDIA, run};

/// Free memory in which the small problems fit, but not the large one. It includes the memory that
/// is left to other programs.
const ROOM: u64 = (1 << 30) + (2 << 20);

#[test]
fn memory_that_others_hold() {
    run(&[
        Case {
            name: "others hold nearly all memory",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("memory_info", Effect::Value(ROOM))),
            end: End::Skipped(1),
            says: "are free; where other programs hold them, end those, and --resume measures it",
        },
        Case {
            name: "others hold all memory",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("memory_info", Effect::Value(0)).from(3)),
            end: End::Skipped(2),
            says: "0.0 GiB of 4.0 GiB are free",
        },
        Case {
            name: "others take the memory meanwhile",
            on: BOTH,
            // The first allocations are the library's workspace and the flush.
            arrange: |case| case.script.rules.push(Rule::new("allocate", Effect::Return(2)).from(4).times(1)),
            end: End::Skipped(1),
            says: "the GPU has no memory left",
        },
        Case {
            name: "others take the memory before kernels are loaded",
            on: BOTH,
            arrange: |case| {
                case.script.rules.push(Rule::new("load", Effect::Return(2)).times(1).in_process(1))
            },
            end: End::Skipped(1),
            says: "the GPU has no memory left",
        },
        Case {
            name: "the GPU is too small for a problem",
            on: BOTH,
            arrange: |case| {
                // The library's workspace and the flush take part of this memory.
                case.script.gpus[0].memory = ROOM;
                case.script.rules.push(Rule::new("memory_info", Effect::Value(ROOM)));
            },
            end: End::Large(&[
                ("32x32x32", FailureReason::OutOfMemory),
                ("64x64x32", FailureReason::OutOfMemory),
                ("64x32x64", FailureReason::OutOfMemory),
                ("128x128x64", FailureReason::OutOfMemory),
                ("aten", FailureReason::OutOfMemory),
            ]),
            says: "out_of_memory: 5",
        },
        Case {
            name: "the library has no way to add a bias",
            on: NVIDIA,
            arrange: |case| case.script.rules.push(Rule::new("light_heuristic", Effect::Value(0))),
            end: End::Large(&[("aten", FailureReason::Launch)]),
            says: "launch: 1",
        },
        Case {
            name: "the library has no way to multiply",
            on: AMD,
            arrange: |case| case.script.rules.push(Rule::new("light_heuristic", Effect::Value(0))),
            end: End::Measured(&[("aten", FailureReason::Launch)]),
            says: "launch: 3",
        },
    ]);
}
