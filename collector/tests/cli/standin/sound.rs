//! What a collection holds when nothing goes wrong.

use diode_core::{Config, Dataset, Method};

use super::node::{Node, TILES};
use crate::sandbox::{content, stderr};

/// Every op, type, layout, alignment and form of bias, and problems so short that they are timed in groups.
const PROBLEMS: &str = r#"[
    {"op": "mm", "b": 1, "m": 64, "n": 96, "k": 128, "dtype": "bfloat16"},
    {"op": "mm", "b": 1, "m": 16, "n": 16, "k": 16, "dtype": "bfloat16"},
    {"op": "mm", "b": 1, "m": 33, "n": 51, "k": 71, "dtype": "float16"},
    {"op": "mm", "b": 1, "m": 64, "n": 34, "k": 70, "dtype": "bfloat16", "a_layout": "column"},
    {"op": "mm", "b": 1, "m": 100, "n": 72, "k": 64, "dtype": "float32", "b_layout": "column"},
    {"op": "addmm", "b": 1, "m": 48, "n": 64, "k": 80, "dtype": "float16", "bias": "vector"},
    {"op": "addmm", "b": 1, "m": 48, "n": 64, "k": 80, "dtype": "bfloat16", "bias": "matrix"},
    {"op": "bmm", "b": 5, "m": 32, "n": 40, "k": 64, "dtype": "bfloat16", "b_layout": "column"},
    {"op": "bmm", "b": 3, "m": 40, "n": 40, "k": 40, "dtype": "float32"},
    {"op": "baddbmm", "b": 2, "m": 24, "n": 33, "k": 48, "dtype": "float16", "bias": "matrix"}
]"#;

fn assert_whole(dataset: &Dataset, problems: usize) {
    assert_eq!(dataset.hardware.slug.as_str(), "nvidia-h100");
    assert_eq!(dataset.solutions.len(), problems);
    for solution in &dataset.solutions {
        let name = solution.problem.canonical();
        solution.validate(&dataset.configs).unwrap();
        assert_eq!(solution.method, Method::MEDIAN_COLD_EVENT);
        assert!(solution.failures.is_empty(), "{name}: {:?}", solution.failures);
        assert_eq!(solution.times.len(), TILES.len() + 1, "{name}");
        let library = solution.configs.iter().any(|&index| *dataset.configs.get(index) == Config::Library);
        assert!(library, "{name}: the library was timed");
        // Four rounds: of two groups of launches, or of five or eight launches.
        let repeats = solution.repeats.as_ref().unwrap();
        assert!(repeats.iter().all(|repeats| [8, 20, 32].contains(repeats)), "{name}: {repeats:?}");
    }
}

#[test]
fn every_kind_of_problem_is_measured_and_each_run_gives_the_same_bytes() {
    let node = Node::new(PROBLEMS);
    let first = node.collect(&node.sound(), &[]);
    let said = stderr(&first);
    assert!(first.status.success() && said.contains("measured 10 problems and 50 configs"), "{said}");
    assert_eq!(node.starts(), 1);
    let dataset = node.sandbox.dataset("a.msgpack.zst");
    assert_whole(&dataset, 10);
    assert_eq!(dataset.provenance.node["driver"], "580.00.01");
    assert_eq!(dataset.provenance.node["cublas"], "130002");

    let bytes = content(&node.sandbox.path("a.msgpack.zst"));
    node.collected(&node.sound(), &["--resume"]);
    assert_eq!(content(&node.sandbox.path("a.msgpack.zst")), bytes, "nothing new, nothing written");
    std::fs::remove_file(node.sandbox.path("a.msgpack.zst")).unwrap();
    node.collected(&node.sound(), &[]);
    assert_eq!(content(&node.sandbox.path("a.msgpack.zst")), bytes);
}

#[test]
fn two_gpus_share_the_problems() {
    let node = Node::new(PROBLEMS);
    let mut script = node.sound();
    script.gpus.push(script.gpus[0].clone());
    let dataset = node.collected(&script, &["--device", "all"]);
    assert_whole(&dataset, 10);
    assert_eq!(node.starts(), 2);
}
