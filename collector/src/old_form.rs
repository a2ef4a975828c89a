//! Datasets in torch-diode's formats, which hold less than was measured.

use std::path::Path;

use diode_core::space::config_for;
use diode_core::{ConfigIndex, Dataset, Failure, FailureReason, Method, Solution, TimeColumn};
use diode_formats::{Format, FormatError};

/// What torch-diode's formats have no place for, as it is told to users.
pub(crate) const NOT_KEPT: &str =
    "spread, repeats, method, reasons of failures, facts of the node and times of library kernels";

/// Says what will not be in files under these names, once for all of them.
pub(crate) fn mention_losses(paths: &[&Path]) {
    let is_old = |path: &&&Path| !matches!(Format::from_path(path), Ok(Format::Columnar) | Err(_));
    let old: Vec<String> = paths.iter().filter(is_old).map(|path| path.display().to_string()).collect();
    if !old.is_empty() {
        eprintln!("note: {} will not hold {NOT_KEPT}; a .msgpack.zst would", old.join(" and "));
    }
}

/// Writes a dataset in the format that the extension names, without what that
/// format cannot hold.
pub(crate) fn write_file(path: &Path, dataset: &Dataset) -> Result<(), FormatError> {
    match Format::from_path(path)? {
        Format::Columnar => diode_formats::write_file(path, std::slice::from_ref(dataset)),
        Format::TorchDiodeJson | Format::TorchDiodeMsgpack => {
            diode_formats::write_file(path, &[reduced(dataset)])
        }
    }
}

fn reduced(dataset: &Dataset) -> Dataset {
    let solutions = dataset.solutions.iter().map(|solution| reduced_solution(dataset, solution)).collect();
    Dataset { solutions, ..dataset.clone() }
}

fn reduced_solution(dataset: &Dataset, solution: &Solution) -> Solution {
    let op = solution.problem.op;
    let is_kept = |index: ConfigIndex| {
        let config = dataset.configs.get(index);
        config.tile().is_some_and(|tile| tile.rocm.is_none() && config_for(op, *tile) == *config)
    };
    let rows: Vec<usize> =
        (0..solution.configs.len()).filter(|&row| is_kept(solution.configs[row])).collect();
    let failures = solution.failures.iter().filter(|failure| is_kept(failure.config));
    Solution {
        problem: solution.problem.clone(),
        method: Method::Unspecified,
        configs: rows.iter().map(|&row| solution.configs[row]).collect(),
        times: match &solution.times {
            TimeColumn::Nanos(times) => TimeColumn::Nanos(rows.iter().map(|&row| times[row]).collect()),
            TimeColumn::Millis(times) => TimeColumn::Millis(rows.iter().map(|&row| times[row]).collect()),
        },
        spread_ns: None,
        repeats: None,
        failures: failures.map(|f| Failure { reason: FailureReason::NotFinite, ..*f }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use diode_core::hardware::Hardware;
    use diode_core::{Config, DType, Op, Problem, ProblemFields, Provenance, Tile};

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
                spread_ns: Some(vec![10, 10]),
                repeats: Some(vec![3, 3]),
                failures: vec![Failure { config: ConfigIndex(1), reason: FailureReason::Timeout }],
            }],
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.json");
        write_file(&path, &dataset).unwrap();
        let read = diode_formats::read_file(&path).unwrap().datasets.remove(0);
        let solution = &read.solutions[0];
        assert_eq!((solution.method, &solution.spread_ns), (Method::Unspecified, &None));
        assert_eq!(solution.times, TimeColumn::Nanos(vec![7_000]));
        assert_eq!(*read.configs.get(solution.configs[0]), kept);
        assert_eq!(solution.failures[0].reason, FailureReason::NotFinite);

        let whole = folder.path().join("a.msgpack.zst");
        write_file(&whole, &dataset).unwrap();
        assert_eq!(diode_formats::read_file(&whole).unwrap().datasets, [dataset]);
    }
}
