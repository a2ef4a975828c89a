//! The contents of a collection when nothing goes wrong.

use std::collections::BTreeSet;

use diode_core::{
    Bias, Config, DType, Dataset, FailureReason, Groups, Layout, Method, Op, ProblemFields, Scaling, Stage,
};
use serde_json::Value;

use super::node::{Node, TILES, Vendor, config};
use crate::sandbox::{content, stderr};

/// Problems of every op, type, layout, alignment and form of bias. One is so short that it is timed in
/// groups.
fn problems() -> String {
    let plain = |op, b, [m, n, k]: [u64; 3], dtype: DType| ProblemFields::plain(op, b, m, n, k, dtype);
    let column = Layout::Column;
    let problems = [
        plain(Op::Mm, 1, [64, 96, 128], DType::BFloat16),
        plain(Op::Mm, 1, [16, 16, 16], DType::BFloat16),
        plain(Op::Mm, 1, [33, 51, 71], DType::Float16),
        ProblemFields { a_layout: column, ..plain(Op::Mm, 1, [64, 34, 70], DType::BFloat16) },
        ProblemFields { b_layout: column, ..plain(Op::Mm, 1, [100, 72, 64], DType::Float32) },
        ProblemFields { bias: Bias::Vector, ..plain(Op::Addmm, 1, [48, 64, 80], DType::Float16) },
        plain(Op::Addmm, 1, [48, 64, 80], DType::BFloat16),
        ProblemFields { b_layout: column, ..plain(Op::Bmm, 5, [32, 40, 64], DType::BFloat16) },
        plain(Op::Bmm, 3, [40, 40, 40], DType::Float32),
        plain(Op::Baddbmm, 2, [24, 33, 48], DType::Float16),
    ];
    serde_json::to_string(&problems).unwrap()
}

fn assert_whole(dataset: &Dataset, vendor: Vendor, problems: usize) {
    let hardware = if vendor == Vendor::Nvidia { "nvidia-h100" } else { "amd-mi300x" };
    assert_eq!(dataset.hardware.slug.as_str(), hardware);
    assert_eq!(dataset.solutions.len(), problems);
    for solution in &dataset.solutions {
        let name = solution.problem.canonical();
        solution.validate(&dataset.configs).unwrap();
        assert_eq!(solution.method, Method::MEDIAN_COLD_EVENT);
        assert!(solution.failures.is_empty(), "{name}: {:?}", solution.failures);
        assert_eq!(solution.times.len(), TILES.len() + 1, "{name}");
        let library = solution.configs.iter().any(|&index| *dataset.configs.get(index) == Config::Library);
        assert!(library, "{name}: the library was timed");
        // Four rounds of two groups of launches each, or of five or eight launches each.
        let repeats = solution.repeats.as_ref().unwrap();
        assert!(repeats.iter().all(|repeats| [8, 20, 32].contains(repeats)), "{name}: {repeats:?}");
    }
}

fn measure_everything_twice(vendor: Vendor) -> Dataset {
    let node = Node::new(vendor, &problems());
    let first = node.collect(&node.sound(), &[]);
    let said = stderr(&first);
    assert!(first.status.success() && said.contains("measured 10 problems and 50 configs"), "{said}");
    assert_eq!(node.starts(), 1);
    let dataset = node.sandbox.dataset("a.msgpack.zst");
    assert_whole(&dataset, vendor, 10);

    let bytes = content(&node.sandbox.path("a.msgpack.zst"));
    node.collected(&node.sound(), &["--resume"]);
    assert_eq!(content(&node.sandbox.path("a.msgpack.zst")), bytes, "nothing new, nothing written");
    std::fs::remove_file(node.sandbox.path("a.msgpack.zst")).unwrap();
    node.collected(&node.sound(), &[]);
    assert_eq!(content(&node.sandbox.path("a.msgpack.zst")), bytes, "each run gives the same bytes");
    dataset
}

#[test]
fn every_kind_of_problem_is_measured_on_an_nvidia_gpu() {
    let node = measure_everything_twice(Vendor::Nvidia).provenance.node;
    assert_eq!((node["driver"].as_str(), node["cublas"].as_str()), ("580.00.01", "130002"));
    assert_eq!(node["backend"], "cuda");
}

#[test]
fn every_kind_of_problem_is_measured_on_an_amd_gpu() {
    let node = measure_everything_twice(Vendor::Amd).provenance.node;
    assert_eq!((node["driver"].as_str(), node["hipblaslt"].as_str()), ("6.12.12", "100000"));
    assert_eq!((node["backend"].as_str(), node["sms"].as_str()), ("hip", "304"));
    // The Infinity Cache is flushed, too, although HIP states only an L2 of 4 MiB.
    assert_eq!(node["l2_bytes"], (256_u64 << 20).to_string());
}

#[test]
fn beside_tiles_that_round_to_tf32_the_library_is_timed_in_both_ways() {
    let column = Layout::Column;
    let plain = |op, dtype| ProblemFields::plain(op, 1, 100, 72, 64, dtype);
    let problems = [
        ProblemFields { b_layout: column, ..plain(Op::Mm, DType::Float32) },
        ProblemFields { b_layout: column, bias: Bias::Vector, ..plain(Op::Addmm, DType::Float32) },
        ProblemFields { b_layout: column, ..plain(Op::Mm, DType::BFloat16) },
    ];
    let problems = serde_json::to_string(&problems).unwrap();
    let tiles = TILES.map(|tile| config(tile, 2).replace(r#""allow_tf32": false"#, r#""allow_tf32": true"#));
    for vendor in [Vendor::Nvidia, Vendor::Amd] {
        let node = Node::with_configs(vendor, &problems, &tiles);
        let dataset = node.collected(&node.sound(), &[]);
        assert_eq!(dataset.solutions.len(), 3);
        for solution in &dataset.solutions {
            let timed = |config| solution.configs.iter().any(|&index| *dataset.configs.get(index) == config);
            assert!(solution.failures.is_empty() && timed(Config::Library), "{:?}", solution.failures);
            let rounds = vendor == Vendor::Nvidia && solution.problem.a_dtype == DType::Float32;
            assert_eq!(timed(Config::RoundingLibrary), rounds, "{}", solution.problem.canonical());
        }
    }
}

/// Problems of every operator that models are served with, with every scaling.
fn served_problems(fp8: DType) -> Vec<ProblemFields> {
    let plain = |op, m, dtype| ProblemFields::plain(op, 1, m, 144, 144, dtype);
    let groups = |stage| Some(Groups { stage, ..Groups::routed(6, 2) });
    let mut problems = Vec::new();
    for scaling in [Scaling::Tensor, Scaling::Row, Scaling::Block] {
        problems.push(ProblemFields { scaling, ..plain(Op::ScaledMm, 20, fp8) });
        problems.push(ProblemFields { scaling, groups: groups(None), ..plain(Op::ScaledGroupedMm, 40, fp8) });
        for stage in [Stage::GateUp, Stage::Down] {
            let groups = groups(Some(stage));
            problems.push(ProblemFields { scaling, groups, ..plain(Op::FusedMoe, 20, fp8) });
        }
    }
    // cuBLASLt takes block scales if there are multiples of four.
    problems.push(ProblemFields { scaling: Scaling::Block, k: 512, ..plain(Op::ScaledMm, 20, fp8) });
    problems.push(ProblemFields { scaling: Scaling::Row, ..plain(Op::ScaledMm, 20, DType::Int8) });
    problems.push(ProblemFields { groups: groups(None), ..plain(Op::GroupedMm, 40, DType::BFloat16) });
    for (m, count) in [(20, 6), (1, 64)] {
        let groups = Some(Groups { stage: Some(Stage::Down), ..Groups::routed(count, 2) });
        problems.push(ProblemFields { groups, ..plain(Op::FusedMoe, m, DType::BFloat16) });
    }
    problems
}

#[test]
fn what_models_are_served_with_is_measured() {
    for (vendor, fp8) in [(Vendor::Nvidia, DType::Float8E4M3), (Vendor::Amd, DType::Float8E4M3Fnuz)] {
        let problems = served_problems(fp8);
        let text = serde_json::to_string(&problems).unwrap();
        let tile = config([16, 64, 128], 3);
        let mut tiles = vec![tile.clone(), config([64, 64, 64], 2)];
        if vendor == Vendor::Nvidia {
            tiles.push(tile.replace("triton::mm", "triton::mm_persistent_tma"));
            tiles.push(tile.replace(r#""even_k""#, r#""swap_ab": true, "even_k""#));
        }
        let node = Node::with_configs(vendor, &text, &tiles);
        let dataset = node.collected(&node.sound(), &[]);
        assert_eq!(dataset.solutions.len(), problems.len());
        for solution in &dataset.solutions {
            let (problem, name) = (&solution.problem, solution.problem.canonical());
            // Some configs have no kernel for some operators. All others are timed.
            let failed: Vec<FailureReason> = solution.failures.iter().map(|failure| failure.reason).collect();
            assert!(failed.iter().all(|reason| *reason == FailureReason::Compile), "{name}: {failed:?}");
            let nvidia = vendor == Vendor::Nvidia;
            let tma = nvidia && problem.op != Op::FusedMoe && problem.scaling != Scaling::Block;
            let swap = nvidia && matches!(problem.op, Op::ScaledMm | Op::FusedMoe);
            let scaled = problem.op == Op::ScaledMm && problem.a_dtype == fp8;
            let library = nvidia && scaled && (problem.scaling != Scaling::Block || problem.k == 512);
            let expected = 2 + usize::from(tma) + usize::from(swap) + usize::from(library);
            assert_eq!(solution.times.len(), expected, "{name}");
        }
    }
}

/// A Python whose torch computes on the GPU, takes 50 µs for grouped rows and has no scaled ones.
const TORCH: &str = r#"#!/bin/sh
echo "$3 $$" >> "$DIODE_STANDIN.holders"
echo '{"ready": "2.11.0"}'
while read line; do
case "$line" in
*'"op":"grouped_mm"'*'"copies":16,"ends":[['*) echo '{"timed": [50000, 52000, 51000]}' ;;
*) echo '{"refused": "RuntimeError: no"}' ;;
esac
done
"#;

#[test]
fn a_python_with_torch_times_what_the_library_does_not_have() {
    let problems = serde_json::to_string(&served_problems(DType::Float8E4M3)).unwrap();
    let node = Node::with_configs(Vendor::Nvidia, &problems, &[config([64, 64, 64], 2)]);
    node.script("torch", TORCH);
    let output = node.collect(&node.sound(), &["--torch", "./torch"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("by torch: RuntimeError: no"), "{}", stderr(&output));
    assert!(!stderr(&output).contains("another process computes"), "{}", stderr(&output));
    let dataset = node.sandbox.dataset("a.msgpack.zst");
    assert_eq!(dataset.provenance.node["torch"], "2.11.0");
    for solution in &dataset.solutions {
        let (problem, mut times) =
            (&solution.problem, solution.configs.iter().zip(solution.times.iter_nanos()));
        let library = times.find(|(config, _)| dataset.configs.get(**config).is_library());
        let nanos = library.map(|(_, time)| time.0);
        match problem.op {
            Op::GroupedMm => assert_eq!(nanos, Some(51_000.0)),
            Op::FusedMoe | Op::ScaledGroupedMm => assert_eq!(nanos, None),
            _ => assert_ne!(nanos, Some(51_000.0)),
        }
    }
    let without = stderr(&node.collect(&node.sound(), &["--torch", "/bin/false", "--resume"]));
    assert!(without.contains("--torch: /bin/false has no torch that sees GPU 0"), "{without}");
}

#[test]
fn two_gpus_share_the_problems() {
    for vendor in [Vendor::Nvidia, Vendor::Amd] {
        let node = Node::new(vendor, &problems());
        let mut script = node.sound();
        script.gpus.push(script.gpus[0].clone());
        let dataset = node.collected(&script, &["--device", "all"]);
        assert_whole(&dataset, vendor, 10);
        assert_eq!(node.starts(), 2);
    }
}

#[test]
fn few_kernels_are_loaded_at_once() {
    let sides = [16, 32, 64];
    let tiles = sides.into_iter().flat_map(|m| sides.map(|n| [m, n]));
    let tiles = tiles.flat_map(|[m, n]| sides.map(|k| [m, n, k]));
    let configs: Vec<String> =
        tiles.flat_map(|tile| (1..=5).map(move |stages| config(tile, stages))).collect();
    assert_eq!(configs.len(), 135);
    // The first problem is timed in groups of launches, the second launch by launch.
    let sizes = [[16, 16, 16], [64, 96, 128]];
    let problems =
        sizes.map(|size| ProblemFields::plain(Op::Mm, 1, size[0], size[1], size[2], DType::BFloat16));
    let problems = serde_json::to_string(&problems).unwrap();
    for vendor in [Vendor::Nvidia, Vendor::Amd] {
        let node = Node::with_configs(vendor, &problems, &configs);
        let mut script = node.sound();
        // 112 kernels of configs, and the kernels that fill, compute the reference and compare.
        script.gpus[0].kernels = 115;
        let dataset = node.collected(&script, &[]);
        assert_eq!(node.starts(), 1, "no process was replaced");
        assert_eq!(dataset.solutions.len(), 2);
        for solution in &dataset.solutions {
            assert!(solution.failures.is_empty(), "{:?}", solution.failures);
            assert_eq!(solution.times.len(), configs.len() + 1);
        }
    }
}

#[test]
fn a_pack_is_for_one_vendor() {
    let node = Node::new(Vendor::Amd, &problems());
    let output = node.collect(&node.sound(), &["--backend", "cuda"]);
    let said = stderr(&output);
    assert!(said.contains("test.pack is for gfx942; name a pack for it, or use --backend hip"), "{said}");
    assert_eq!((output.status.code(), node.starts()), (Some(1), 0));
}

#[test]
fn times_name_the_version_of_triton_and_versions_are_not_mixed() {
    let node = Node::new(Vendor::Nvidia, &problems());
    let refused = stderr(&node.build("later.pack", "3.8.0", &[]));
    assert!(
        refused.contains("got triton 3.8.0, expected 3.6.0; name the version of a pack with --triton"),
        "{refused}"
    );
    let unknown = stderr(&node.build("later.pack", "3.7.0", &["--triton", "3.7.0"]));
    assert!(unknown.contains("[possible values: 3.6.0, 3.8.0]"), "{unknown}");
    let built = node.build("later.pack", "3.8.0", &["--triton", "3.8.0"]);
    assert!(built.status.success(), "{}", stderr(&built));

    assert_eq!(node.collected(&node.sound(), &[]).provenance.node["triton"], "3.6.0");
    let mixed = stderr(&node.collect(&node.sound(), &["--kernels", "later.pack", "--resume"]));
    assert!(mixed.contains("got packs of Triton 3.6.0 and 3.8.0, expected packs of one version"), "{mixed}");
    let later = node.sandbox.path("later.pack");
    std::fs::rename(later, node.sandbox.path("test.pack")).unwrap();
    std::fs::remove_file(node.sandbox.path("a.msgpack.zst")).unwrap();
    assert_eq!(node.collected(&node.sound(), &[]).provenance.node["triton"], "3.8.0");
}

#[test]
fn amd_gpus_are_detected() {
    let node = Node::new(Vendor::Amd, &problems());
    let script = node.sound();
    // The same environment with another command.
    let collect = node.command(&script, &[]);
    let mut detect = node.sandbox.command(&["detect", "--json"]);
    for (name, value) in collect.get_envs() {
        if let Some(value) = value {
            detect.env(name, value);
        }
    }
    let output = detect.output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["gpus"][0]["hardware"]["slug"], "amd-mi300x", "{report}");
    assert_eq!(report["gpus"][0]["memory_mib"], 4096, "{report}");
}

/// A model whose experts the stand-in multiplies in no time, and the line that measures it.
const MODEL: &str = r#"{"hidden_size": 256, "num_hidden_layers": 2, "num_experts": 8, "num_experts_per_tok": 2,
    "moe_intermediate_size": 128}"#;
const MEASURE: [&str; 9] = [
    "tune",
    "./config.json",
    "--quantization",
    "bf16",
    "--hardware",
    "nvidia-h100",
    "--measure",
    "--picks",
    "1",
];

/// A node with a pack that has the kernels of some tiles for both launches of that model's experts.
fn node_of_experts(tiles: &[String]) -> Node {
    let groups = |stage| Some(Groups { stage: Some(stage), ..Groups::routed(8, 2) });
    let of = |stage, n, k| {
        let plain = ProblemFields::plain(Op::FusedMoe, 1, 16, n, k, DType::BFloat16);
        ProblemFields { groups: groups(stage), ..plain }
    };
    let problems = [of(Stage::GateUp, 256, 256), of(Stage::Down, 256, 128)];
    let node = Node::with_configs(Vendor::Nvidia, &serde_json::to_string(&problems).unwrap(), tiles);
    node.sandbox.write("config.json", MODEL);
    node
}

/// Without Python, `diode tune --measure` times our kernels from a pack. Multiplying many rows takes the stand-in minutes, so
/// that only the batch sizes 1 and 4 are left to time.
#[test]
fn picks_are_timed_from_a_pack() {
    // A stand-in for Python is asked for the times of all candidates, and so names them.
    let asked = node_of_experts(&[config([16, 64, 128], 4)]);
    let timer = include_str!("../measuring/timer.py").replace("NVIDIA H200", "NVIDIA H100 80GB HBM3");
    asked.script("timer", &timer);
    asked.sandbox.ok(&[&MEASURE[..], &["--python", "./timer"]].concat());
    let journal = String::from_utf8(content(&asked.sandbox.path("tuned/measured.jsonl"))).unwrap();
    let (mut tiles, mut left) = (BTreeSet::new(), String::new());
    for line in journal.lines() {
        let mut entry: Value = serde_json::from_str(line).unwrap();
        if entry["batch"] != 1 && entry["batch"] != 4 {
            if entry.get("kernel").is_some() {
                entry["kernel"] = "diode's kernel, from a pack".into();
            }
            left += &format!("{entry}\n");
            continue;
        }
        for launch in entry["launches"].as_array().unwrap() {
            let mut tile: Value = serde_json::from_str(&config([16, 16, 16], 2)).unwrap();
            for field in ["block_m", "block_n", "block_k", "num_stages", "num_warps"] {
                tile[field] = launch[0]["config"][field].clone();
            }
            tiles.insert(tile.to_string());
        }
    }
    let node = node_of_experts(&tiles.into_iter().collect::<Vec<_>>());
    std::fs::create_dir(node.sandbox.path("tuned")).unwrap();
    node.sandbox.write("tuned/measured.jsonl", &left);
    let more = ["--python", "./none", "--kernels", "test.pack", "--resume", "--format", "json"];
    let output = node.program(&node.sound(), &[&MEASURE[..], &more].concat()).output().unwrap();
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("timing diode's kernel, from a pack, at 2 batch sizes"), "{said}");
    let told: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(told["kernel"], "diode's kernel, from a pack");
    let batches = told["layers"][0]["batches"].as_array().unwrap();
    let of = |batch: u64| &batches.iter().find(|one| one["batch_size"] == batch).unwrap()["measured"];
    assert_eq!(batches.iter().filter(|one| one["measured"].is_object()).count(), 18);
    // The stand-in for Python says 100 µs of each launch, the pack what it takes.
    assert_eq!(
        (of(2)["rounds"].as_u64(), of(2)["default_us"].as_f64().map(f64::round)),
        (Some(24), Some(200.0))
    );
    for batch in [1, 4] {
        assert_eq!(of(batch)["rounds"], 8, "{batch}: {}", of(batch));
        let us = of(batch)["default_us"].as_f64().unwrap();
        assert!(us > 0.0 && us.round() != 200.0, "{batch}: {us}");
    }
}

#[test]
fn a_pack_without_the_kernels_of_picks_is_refused() {
    let node = node_of_experts(&[config([16, 64, 128], 4)]);
    let more = ["--python", "./none", "--kernels", "test.pack"];
    let output = node.program(&node.sound(), &[&MEASURE[..], &more].concat()).output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("timing diode's kernel, from a pack, at 18 batch sizes"), "{said}");
    assert!(
        said.contains("the pack was built without fused_moe") && said.contains("build one that has it"),
        "{said}"
    );
    assert!(!node.sandbox.path("tuned/measured.jsonl").exists());
}
