//! What a collection holds when nothing goes wrong.

use diode_core::{Bias, Config, DType, Dataset, Layout, Method, Op, ProblemFields};

use super::node::{Node, TILES};
use crate::sandbox::{content, stderr};

/// Every op, type, layout, alignment and form of bias, and a problem so short that it is timed in groups.
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
    let node = Node::new(&problems());
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
    let node = Node::new(&problems());
    let mut script = node.sound();
    script.gpus.push(script.gpus[0].clone());
    let dataset = node.collected(&script, &["--device", "all"]);
    assert_whole(&dataset, 10);
    assert_eq!(node.starts(), 2);
}
