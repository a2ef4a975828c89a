//! Small datasets with plausible times.

use diode_core::hardware::{Hardware, find, roofline};
use diode_core::problem::problems_in;
use diode_core::space::config_for;
use diode_core::{
    Config, ConfigDictionary, DType, Dataset, Failure, FailureReason, Method, Op, Problem, ProblemFields,
    Provenance, Solution, Tile, TimeColumn,
};
use diode_formats::{Format, encode};

/// Two of Inductor's default tiles and four others.
const TILES: [(u32, u32, u32, u32, u32); 6] = [
    (128, 128, 64, 3, 4),
    (64, 64, 32, 2, 4),
    (128, 256, 64, 3, 8),
    (256, 128, 64, 3, 8),
    (64, 256, 64, 4, 4),
    (128, 64, 128, 3, 4),
];

pub(crate) fn h200() -> Hardware {
    find("nvidia-h200").unwrap()
}

pub(crate) fn mm(m: u64, n: u64, k: u64) -> Problem {
    problem(Op::Mm, m, n, k, DType::BFloat16)
}

pub(crate) fn problem(op: Op, m: u64, n: u64, k: u64, dtype: DType) -> Problem {
    Problem::new(ProblemFields::plain(op, 1, m, n, k, dtype)).unwrap()
}

/// What models are served with: fp8 scaled by row, by tensor and by block, int8, groups, and the two
/// multiplications of a layer of experts.
pub(crate) fn served() -> Vec<Problem> {
    let text =
        "16x4096x14336 fp8 row, 16x4096x14336 fp8 tensor, 64x4096x7168 fp8 block, 16x4096x14336 int8 row";
    let grouped = "grouped 512x1536x2048 groups 128 top8, moe 128x768x2048 top8 64 tokens fp8 block";
    let read = |text: &str| problems_in(text, DType::BFloat16).unwrap();
    text.split(", ").chain(grouped.split(", ")).flat_map(read).collect()
}

/// Configs and times of a problem. If there is a library kernel, it comes last.
pub(crate) fn solution(problem: &Problem, factor: f64, configs: &mut ConfigDictionary) -> Solution {
    let roof = roofline(&h200().facts.unwrap(), problem, false).unwrap().nanos().0;
    // Which tile is best, and by how much, differs between problems.
    let lean = (problem.m / 64 + problem.n / 32 + problem.k / 16) % 5;
    let tiles =
        TILES.map(|(m, n, k, s, w)| config_for(problem.op, Tile::new(m, n, k, s, w).for_k(problem.k)));
    let times = (0..tiles.len() as u64).map(|i| roof * factor * (1.2 + 0.07 * ((i * 3 + lean) % 7) as f64));
    Solution {
        problem: problem.clone(),
        method: Method::Unspecified,
        configs: tiles.into_iter().map(|config| configs.intern(config)).collect(),
        times: TimeColumn::from_nanos(times.map(|t| t as u64 + 1_000).collect()).unwrap(),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
    }
}

pub(crate) fn dataset(hardware: Hardware, problems: &[Problem], factor: f64) -> Dataset {
    let mut configs = ConfigDictionary::default();
    let solutions = problems.iter().map(|problem| solution(problem, factor, &mut configs)).collect();
    Dataset { hardware, provenance: Provenance::default(), configs, solutions }
}

/// Seven problems. Two have the same rate and differ only in their names.
pub(crate) fn seven() -> Dataset {
    let mut problems: Vec<Problem> =
        [(256, 512, 1024), (1024, 1024, 1024), (2048, 512, 4096), (4096, 4096, 4096), (1, 4096, 4096)]
            .map(|(m, n, k)| mm(m, n, k))
            .into();
    problems.push(problem(Op::Addmm, 512, 512, 512, DType::Float16));
    problems.push(problem(Op::Mm, 512, 512, 512, DType::Float16));
    dataset(h200(), &problems, 1.0)
}

/// One problem in the form of Diode's own collector: with a method, a time of the library and a failed
/// config.
pub(crate) fn collected() -> Dataset {
    let mut dataset = dataset(h200(), &[mm(4096, 4096, 4096)], 1.1);
    let library = dataset.configs.intern(Config::Library);
    let failed = dataset.configs.intern(Config::Mm(Tile::new(256, 256, 128, 5, 8).for_k(4096)));
    let solution = &mut dataset.solutions[0];
    let mut times: Vec<u64> = solution.times.iter_nanos().map(|t| t.0 as u64).collect();
    times.push(150_000);
    solution.configs.push(library);
    solution.times = TimeColumn::from_nanos(times).unwrap();
    solution.failures.push(Failure { config: failed, reason: FailureReason::OutOfResources });
    solution.method = Method::MEDIAN_COLD_EVENT;
    dataset
}

pub(crate) fn columnar(dataset: &Dataset) -> Vec<u8> {
    encode(Format::Columnar, std::slice::from_ref(dataset)).unwrap()
}

pub(crate) fn json(dataset: &Dataset) -> Vec<u8> {
    encode(Format::PredecessorJson, std::slice::from_ref(dataset)).unwrap()
}
