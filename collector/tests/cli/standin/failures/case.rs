//! One fault, and how a collection with it must end.

use diode_core::{Bias, Config, DType, Dataset, FailureReason, Op, ProblemFields, Solution};
use diode_standin::Script;

use crate::sandbox::{Sandbox, content, stderr};
use crate::standin::node::{Node, TILES, Vendor};

/// Two small problems, and between them one with large matrices and few operations.
fn problems() -> String {
    let plain = |op, m, n| ProblemFields::plain(op, 1, m, n, 64, DType::BFloat16);
    let large = ProblemFields { k: 16, bias: Bias::Vector, ..plain(Op::Addmm, 256, 256) };
    serde_json::to_string(&[plain(Op::Mm, 64, 64), large, plain(Op::Mm, 64, 128)]).unwrap()
}

const ALL: usize = 3;

pub(super) struct Case {
    pub(super) name: &'static str,
    /// The vendors on whose GPUs the fault can happen.
    pub(super) on: &'static [Vendor],
    pub(super) arrange: fn(&mut Arrangement<'_>),
    pub(super) end: End,
    /// What `diode` prints about the fault.
    pub(super) says: &'static str,
}

pub(super) const BOTH: &[Vendor] = &[Vendor::Nvidia, Vendor::Amd];
pub(super) const NVIDIA: &[Vendor] = &[Vendor::Nvidia];
pub(super) const AMD: &[Vendor] = &[Vendor::Amd];

/// A node, and what makes it differ from a sound one.
pub(super) struct Arrangement<'a> {
    pub(super) node: &'a Node,
    pub(super) script: Script,
    pub(super) arguments: Vec<&'static str>,
}

/// How a collection must end.
pub(super) enum End {
    /// Everything is measured, except these configs on every problem.
    Measured(&'static [(&'static str, FailureReason)]),
    /// Everything is measured, except these configs on the large problem.
    Large(&'static [(&'static str, FailureReason)]),
    /// This many problems are skipped and not recorded. The others are measured.
    Skipped(usize),
    /// The collection ends with exit code 1. This many problems are recorded.
    Ended(usize),
}

/// Runs cases one after the other, on one node of each vendor.
pub(super) fn run(cases: &[Case]) {
    for &vendor in BOTH {
        let node = Node::new(vendor, &problems());
        for case in cases.iter().filter(|case| case.on.contains(&vendor)) {
            run_one(&node, case);
            node.repair();
            let left = std::fs::remove_file(node.sandbox.path("a.msgpack.zst"));
            assert!(left.is_ok(), "{}: nothing was collected in the end", case.name);
        }
    }
}

fn run_one(node: &Node, case: &Case) {
    let name = format!("{} ({:?})", case.name, node.vendor);
    let mut arranged = Arrangement { node, script: node.sound(), arguments: Vec::new() };
    (case.arrange)(&mut arranged);
    let output = node.collect(&arranged.script, &arranged.arguments);
    let said = stderr(&output);
    assert!(said.contains(case.says), "{name}: {said}");
    let code = if matches!(case.end, End::Ended(_)) { 1 } else { 0 };
    assert_eq!(output.status.code(), Some(code), "{name}: {said}");
    assert_eq!(
        said.lines().filter(|line| line.starts_with("error: ")).count(),
        code as usize,
        "{name}: {said}"
    );

    let kept = kept(&node.sandbox);
    let solutions = kept.as_ref().map_or(&[][..], |dataset| &dataset.solutions);
    for (solution, dataset) in
        kept.iter().flat_map(|set| set.solutions.iter().map(move |solution| (solution, set)))
    {
        assert_eq!(
            failures(dataset, solution),
            expected(case, solution),
            "{name}: {}",
            solution.problem.canonical()
        );
    }
    let recorded = match case.end {
        End::Measured(_) | End::Large(_) => ALL,
        End::Skipped(skipped) => ALL - skipped,
        End::Ended(recorded) => recorded,
    };
    assert_eq!(solutions.len(), recorded, "{name}: {said}");

    node.repair();
    let before = kept.is_some().then(|| content(&node.sandbox.path("a.msgpack.zst")));
    let resumed = node.collected(&node.sound(), &["--resume"]);
    assert_eq!(resumed.solutions.len(), ALL, "{name}");
    assert_eq!(resumed.solutions[..recorded], *solutions, "{name}: what was measured is kept");
    if recorded == ALL {
        assert_eq!(Some(content(&node.sandbox.path("a.msgpack.zst"))), before, "{name}: nothing was missing");
    }
    for solution in &resumed.solutions[recorded..] {
        assert_eq!(failures(&resumed, solution), [], "{name}");
    }
}

fn kept(sandbox: &Sandbox) -> Option<Dataset> {
    sandbox.path("a.msgpack.zst").exists().then(|| sandbox.dataset("a.msgpack.zst"))
}

/// The configs that failed. Checks that all other configs have times.
fn failures(dataset: &Dataset, solution: &Solution) -> Vec<(String, FailureReason)> {
    solution.validate(&dataset.configs).unwrap();
    let mut failed: Vec<(String, FailureReason)> = solution
        .failures
        .iter()
        .map(|failure| (named(dataset.configs.get(failure.config)), failure.reason))
        .collect();
    failed.sort();
    let timed =
        solution.configs.iter().filter(|&&index| *dataset.configs.get(index) != Config::Library).count();
    let tiles = failed.iter().filter(|(name, _)| name != "aten").count();
    assert_eq!(timed + tiles, TILES.len(), "every tile has a time or a reason");
    failed
}

fn named(config: &Config) -> String {
    config
        .tile()
        .map_or("aten".to_owned(), |tile| format!("{}x{}x{}", tile.block_m, tile.block_n, tile.block_k))
}

fn expected(case: &Case, solution: &Solution) -> Vec<(String, FailureReason)> {
    let expected = match case.end {
        End::Measured(failed) => failed,
        End::Large(failed) if solution.problem.m == 256 => failed,
        End::Large(_) | End::Skipped(_) | End::Ended(_) => &[],
    };
    let mut expected: Vec<(String, FailureReason)> =
        expected.iter().map(|&(config, reason)| (config.to_owned(), reason)).collect();
    expected.sort();
    expected
}
