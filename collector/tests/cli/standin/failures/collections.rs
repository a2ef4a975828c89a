//! Faults that end the collection.

use diode_standin::{Effect, Rule};

use super::case::{BOTH, Case, End, NVIDIA, run};

const NOTHING: End = End::Ended(0);

#[test]
fn drivers_that_do_not_start() {
    run(&[
        Case {
            name: "there is no driver",
            on: BOTH,
            arrange: |case| case.node.spoil(0),
            end: NOTHING,
            says: "on this node; install it",
        },
        Case {
            name: "the driver is too old",
            on: BOTH,
            arrange: |case| case.node.take_away(case.node.vendor.fill()),
            end: NOTHING,
            says: "lacks a function that diode calls",
        },
        Case {
            name: "the driver finds no GPU",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("init", Effect::Return(100))),
            end: NOTHING,
            says: "finds no GPU; see whether",
        },
        Case {
            name: "the driver counts no GPU",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("device_count", Effect::Value(0))),
            end: NOTHING,
            says: "finds no GPU",
        },
        Case {
            name: "the driver does not work",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("init", Effect::Return(802))),
            end: NOTHING,
            says: "(802)",
        },
        Case {
            name: "the driver dies at its start",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("init", Effect::Die)),
            end: NOTHING,
            says: "the measuring process ended at its start",
        },
        Case {
            name: "the driver hangs at its start",
            on: BOTH,
            arrange: |case| {
                case.arguments = vec!["--gpu-patience", "1s"];
                case.script.rules.push(Rule::new("init", Effect::Hang));
            },
            end: NOTHING,
            says: "the GPU did not answer within 4 s of starting",
        },
    ]);
}

#[test]
fn gpus_that_cannot_be_used() {
    run(&[
        Case {
            name: "the GPU is not there",
            on: BOTH,
            arrange: |case| case.arguments = vec!["--device", "7"],
            end: NOTHING,
            says: "device 7: this node has 1, counted from 0",
        },
        Case {
            name: "the pack is for another architecture",
            on: BOTH,
            arrange: |case| {
                let gpu = &mut case.script.gpus[0];
                gpu.capability = [8, 0];
                gpu.arch = gpu.arch.take().map(|_| "gfx90a:sramecc+:xnack-".to_owned());
            },
            end: NOTHING,
            says: "; build one with --arch",
        },
        Case {
            name: "another program has the GPU to itself",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("context", Effect::Return(46))),
            end: NOTHING,
            says: "(46)",
        },
        Case {
            name: "there is no room for a context",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("context", Effect::Return(2))),
            end: NOTHING,
            says: "end what holds the GPU's memory, or choose another with --device",
        },
        Case {
            name: "there is no room to empty the cache with",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("allocate", Effect::Return(2)).from(2)),
            end: NOTHING,
            says: "end what holds the GPU's memory",
        },
        Case {
            name: "there are no events",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("event_create", Effect::Return(3)).from(100)),
            end: NOTHING,
            says: "cannot prepare the GPU: ",
        },
        Case {
            name: "the library does not start",
            on: BOTH,
            arrange: |case| case.script.rules.push(Rule::new("light_create", Effect::Return(1))),
            end: NOTHING,
            says: "LtCreate: library status 1",
        },
        Case {
            name: "the GPUs are of two kinds",
            on: NVIDIA,
            arrange: |case| {
                let mut other = case.script.gpus[0].clone();
                other.name = "NVIDIA H200".to_owned();
                case.script.gpus.push(other);
                case.arguments = vec!["--device", "all"];
            },
            end: NOTHING,
            says: "collect on one kind at a time, chosen with --device",
        },
    ]);
}

#[test]
fn gpus_that_are_lost_later() {
    run(&[
        Case {
            name: "the GPU is lost after the first problem",
            on: BOTH,
            arrange: |case| {
                let large = Rule::of_kernel("bias=vector", Effect::Break(999));
                case.script.rules.push(large.in_process(1));
                case.script.rules.push(Rule::new("init", Effect::Return(999)).in_process(2));
            },
            end: End::Ended(1),
            says: "(999)",
        },
        Case {
            name: "no GPU is left after the first problem",
            on: BOTH,
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("bias=vector", Effect::Die).in_process(1));
                case.script.rules.push(Rule::new("device_count", Effect::Value(0)).in_process(2));
            },
            end: End::Ended(1),
            says: "finds no GPU",
        },
    ]);
}
