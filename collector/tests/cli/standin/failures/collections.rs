//! What ends the collection.

use diode_standin::{Effect, Rule};

use super::case::{Case, End, run};

const NOTHING: End = End::Ended(0);

#[test]
fn drivers_that_do_not_start() {
    run(&[
        Case {
            name: "there is no driver",
            arrange: |case| case.node.spoil("libcuda.so.1"),
            end: NOTHING,
            says: "no NVIDIA driver on this node; install it",
        },
        Case {
            name: "the driver is too old",
            arrange: |case| case.node.take_away("cuMemsetD8Async"),
            end: NOTHING,
            says: "the NVIDIA driver lacks a function that diode calls",
        },
        Case {
            name: "the driver finds no GPU",
            arrange: |case| case.script.rules.push(Rule::new("init", Effect::Return(100))),
            end: NOTHING,
            says: "the NVIDIA driver finds no GPU; see whether CUDA_VISIBLE_DEVICES hides it",
        },
        Case {
            name: "the driver counts no GPU",
            arrange: |case| case.script.rules.push(Rule::new("device_count", Effect::Value(0))),
            end: NOTHING,
            says: "the NVIDIA driver finds no GPU",
        },
        Case {
            name: "the driver does not work",
            arrange: |case| case.script.rules.push(Rule::new("init", Effect::Return(802))),
            end: NOTHING,
            says: "the NVIDIA driver does not work: cuInit: CUDA_ERROR_SYSTEM_NOT_READY (802)",
        },
        Case {
            name: "the driver dies at its start",
            arrange: |case| case.script.rules.push(Rule::new("init", Effect::Die)),
            end: NOTHING,
            says: "the measuring process ended at its start",
        },
        Case {
            name: "the driver hangs at its start",
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
            arrange: |case| case.arguments = vec!["--device", "7"],
            end: NOTHING,
            says: "device 7: this node has 1, counted from 0",
        },
        Case {
            name: "the pack is for another architecture",
            arrange: |case| case.script.gpus[0].capability = [8, 0],
            end: NOTHING,
            says: "the pack is for sm_90, this GPU is sm_80",
        },
        Case {
            name: "another program has the GPU to itself",
            arrange: |case| case.script.rules.push(Rule::new("context", Effect::Return(46))),
            end: NOTHING,
            says: "cuDevicePrimaryCtxRetain",
        },
        Case {
            name: "there is no room for a context",
            arrange: |case| case.script.rules.push(Rule::new("context", Effect::Return(2))),
            end: NOTHING,
            says: "end what holds the GPU's memory, or choose another with --device",
        },
        Case {
            name: "there is no room to empty the cache with",
            arrange: |case| case.script.rules.push(Rule::new("allocate", Effect::Return(2)).from(2)),
            end: NOTHING,
            says: "end what holds the GPU's memory",
        },
        Case {
            name: "there are no events",
            arrange: |case| case.script.rules.push(Rule::new("event_create", Effect::Return(3)).from(100)),
            end: NOTHING,
            says: "cannot prepare the GPU: cuEventCreate: CUDA_ERROR_NOT_INITIALIZED (3)",
        },
        Case {
            name: "the library does not start",
            arrange: |case| case.script.rules.push(Rule::new("library_create", Effect::Return(1))),
            end: NOTHING,
            says: "cublasCreate_v2: cuBLAS status 1",
        },
        Case {
            name: "the GPUs are of two kinds",
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
            arrange: |case| {
                let large = Rule::of_kernel("bias=vector", Effect::Break(999));
                case.script.rules.push(large.in_process(1));
                case.script.rules.push(Rule::new("init", Effect::Return(999)).in_process(2));
            },
            end: End::Ended(1),
            says: "the NVIDIA driver does not work: cuInit: CUDA_ERROR_UNKNOWN (999)",
        },
        Case {
            name: "no GPU is left after the first problem",
            arrange: |case| {
                case.script.rules.push(Rule::of_kernel("bias=vector", Effect::Die).in_process(1));
                case.script.rules.push(Rule::new("device_count", Effect::Value(0)).in_process(2));
            },
            end: End::Ended(1),
            says: "the NVIDIA driver finds no GPU",
        },
    ]);
}
