//! Writes datasets in torch-diode's formats, which hold less than was measured.

use std::collections::HashMap;
use std::path::Path;

use diode_core::{Dataset, Problem};
use diode_formats::{Format, FormatError};

/// What torch-diode's formats cannot hold, in words for users.
pub const NOT_KEPT: &str = "minimum, spread, repeats, method, column-major inputs, vector biases, reasons of failures, facts of the node and times of library kernels";

/// Whether a format is one of torch-diode's.
pub fn is_predecessors(format: Format) -> bool {
    matches!(format, Format::PredecessorJson | Format::PredecessorMsgpack)
}

/// The problems that stay distinct in a file of this format, in their order. If several become the
/// same problem there, the first is kept, or the one that the file holds without loss.
pub fn told_apart(format: Format, problems: &[Problem]) -> Vec<Problem> {
    let held = |problem: &Problem| diode_formats::held(format, problem);
    let mut kept: HashMap<Problem, &Problem> = HashMap::new();
    for problem in problems {
        let held = held(problem);
        let is_it = held == *problem;
        let entry = kept.entry(held).or_insert(problem);
        if is_it {
            *entry = problem;
        }
    }
    let told_apart: Vec<Problem> =
        problems.iter().filter(|&problem| kept[&held(problem)] == problem).cloned().collect();
    told_apart
}

/// Writes a dataset in a format, without what the format cannot hold.
pub fn write_lossy(path: &Path, format: Format, dataset: &Dataset) -> Result<(), FormatError> {
    diode_formats::write_file(path, &diode_formats::reduce(format, std::slice::from_ref(dataset)).datasets)
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::Hardware;
    use diode_core::{
        Config, ConfigIndex, DType, Failure, FailureReason, Method, Op, Problem, ProblemFields, Provenance,
        Solution, Tile, TimeColumn,
    };

    use super::*;

    #[test]
    fn times_of_tiled_kernels_are_kept_and_the_rest_is_let_go() {
        let kept = Config::Mm(Tile::new(64, 64, 32, 3, 4));
        let dataset = Dataset {
            hardware: Hardware::from_name("NVIDIA H100").unwrap(),
            provenance: Provenance::default(),
            configs: [Config::Library, kept].into_iter().collect(),
            solutions: vec![Solution {
                problem: Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Float16)).unwrap(),
                method: Method::MEDIAN_COLD_EVENT,
                configs: vec![ConfigIndex(0), ConfigIndex(1)],
                times: TimeColumn::Nanos(vec![5_000, 7_000]),
                minimum_ns: Some(vec![4_990, 7_000]),
                spread_ns: Some(vec![10, 10]),
                repeats: Some(vec![3, 3]),
                failures: vec![Failure { config: ConfigIndex(1), reason: FailureReason::Timeout }],
            }],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_lossy(&path, Format::PredecessorJson, &dataset).unwrap();
        let read = diode_formats::read_file(&path).unwrap().datasets.remove(0);
        let solution = &read.solutions[0];
        assert_eq!((solution.method, &solution.spread_ns), (Method::Unspecified, &None));
        assert_eq!(solution.times, TimeColumn::Nanos(vec![7_000]));
        assert_eq!(*read.configs.get(solution.configs[0]), kept);
        assert_eq!(solution.failures[0].reason, FailureReason::NotFinite);
    }
}
