//! Kernels that Triton has really compiled for an AMD GPU. They state where their arguments lie, and each
//! launch is compared with this statement. The kernels themselves do not run.

use diode_core::{Bias, Config, DType, FailureReason, Op, ProblemFields};

use super::node::{Node, Vendor};

fn problems() -> String {
    let plain = |op, b, [m, n, k]: [u64; 3]| ProblemFields::plain(op, b, m, n, k, DType::BFloat16);
    let problems = [
        plain(Op::Mm, 1, [64, 96, 128]),
        plain(Op::Mm, 1, [100, 72, 40]),
        ProblemFields { bias: Bias::Vector, ..plain(Op::Addmm, 1, [48, 64, 80]) },
        plain(Op::Bmm, 5, [32, 40, 64]),
    ];
    serde_json::to_string(&problems).unwrap()
}

/// Measures with a pack of two tiles. The larger tile takes more shared memory than the GPU has.
pub(crate) fn launch_compiled(pack: &[u8], tiles: &str) {
    let node = Node::with_pack(Vendor::Amd, pack, tiles, &problems());
    let dataset = node.collected(&node.sound(), &["--backend", "hip"]);
    assert_eq!((dataset.hardware.slug.as_str(), dataset.solutions.len()), ("amd-mi300x", 4));
    for solution in &dataset.solutions {
        let name = solution.problem.canonical();
        let failed: Vec<FailureReason> = solution.failures.iter().map(|failure| failure.reason).collect();
        assert_eq!(failed, [FailureReason::OutOfResources], "{name}");
        let timed: Vec<&Config> = solution.configs.iter().map(|&index| dataset.configs.get(index)).collect();
        assert_eq!(timed.len(), 2, "{name}: the smaller tile and the library: {timed:?}");
    }
}
