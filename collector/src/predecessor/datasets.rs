//! Writes datasets in torch-diode's formats, which hold less than was measured.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_core::{Dataset, Problem};
use diode_formats::{Format, FormatError};

use crate::failure::one_line;
use crate::output;
use crate::output::files;

/// What torch-diode's formats cannot hold, in words for users.
pub(crate) const NOT_KEPT: &str = "minimum, spread, repeats, method, column-major inputs, vector biases, reasons of failures, facts of the node and times of library kernels";

/// Whether a format is one of torch-diode's.
pub(crate) fn is_predecessors(format: Format) -> bool {
    matches!(format, Format::PredecessorJson | Format::PredecessorMsgpack)
}

/// Prints what files under these names will not hold, once for all of them.
pub(crate) fn mention_losses(paths: &[&Path]) {
    let is_lossy = |path: &&&Path| Format::from_path(path).is_ok_and(is_predecessors);
    let lossy: Vec<String> = paths.iter().filter(is_lossy).map(|path| path.display().to_string()).collect();
    if !lossy.is_empty() {
        say!("note: {} will not hold {NOT_KEPT}; a .msgpack.zst would", lossy.join(" and "));
    }
}

/// The problems that stay distinct in a file of this format, in their order. If several become the
/// same problem there, the first is kept, or the one that the file holds without loss. Prints how
/// many are left out, before hours are spent on measuring.
pub(crate) fn told_apart(path: &Path, format: Format, problems: &[Problem]) -> Vec<Problem> {
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
    let left_out = problems.len() - told_apart.len();
    if left_out > 0 {
        say!(
            "note: {} left out, because only their layout or bias differs from another's, and {} does not tell \
             them apart; a .msgpack.zst would",
            output::count(left_out, "problem"),
            path.display()
        );
    }
    told_apart
}

/// Writes a dataset in a format, without what the format cannot hold.
pub(crate) fn write_file(path: &Path, format: Format, dataset: &Dataset) -> Result<(), FormatError> {
    diode_formats::write_file(path, &diode_formats::reduce(format, std::slice::from_ref(dataset)).datasets)
}

/// Convert torch-diode's JSON datasets to its MessagePack
///
/// `convert` does the same for one file of any format. A file that cannot be
/// converted does not keep the others from it.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode convert-json-to-msgpack --input-files a.json b.json --output-dir packed"
)]
pub(crate) struct ConvertJsonToMsgpack {
    /// Datasets to convert
    #[arg(long, required = true, num_args = 1.., value_name = "FILE")]
    input_files: Vec<PathBuf>,

    /// Folder to write to; created if needed [default: beside each file]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,

    /// Replace files that exist
    #[arg(long)]
    overwrite: bool,
}

impl ConvertJsonToMsgpack {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(folder) = &self.output_dir {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
        }
        let mut failed = 0;
        let mut written = HashSet::new();
        for input in &self.input_files {
            let output = self.output(input);
            if !written.insert(output.clone()) {
                let output = output.display();
                say!("not converted: {}: {output} was written for another input", input.display());
                failed += 1;
                continue;
            }
            match self.convert(input, output) {
                Ok(written) => output::text_out(&format!("{} → {}\n", input.display(), written.display()))?,
                Err(error) => {
                    say!("not converted: {}", one_line(&error));
                    failed += 1;
                }
            }
        }
        if failed > 0 {
            bail!("{failed} of {} not converted", output::count(self.input_files.len(), "file"));
        }
        Ok(())
    }

    fn output(&self, input: &Path) -> PathBuf {
        let name = input.with_extension("msgpack");
        match (&self.output_dir, name.file_name()) {
            (Some(folder), Some(name)) => folder.join(name),
            _ => name,
        }
    }

    fn convert(&self, input: &Path, written: PathBuf) -> anyhow::Result<PathBuf> {
        if files::is_there(&written) && !self.overwrite {
            bail!("{} exists; add --overwrite to replace it", written.display());
        }
        let decoded = diode_formats::read_file(input)?;
        if decoded.format != Format::PredecessorJson {
            bail!("{}: got {}, expected JSON; use `diode convert`", input.display(), decoded.format);
        }
        let bytes = diode_formats::encode(Format::PredecessorMsgpack, &decoded.datasets)
            .with_context(|| input.display().to_string())?;
        files::write(&written, &bytes)?;
        Ok(written)
    }
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
        write_file(&path, Format::PredecessorJson, &dataset).unwrap();
        let read = diode_formats::read_file(&path).unwrap().datasets.remove(0);
        let solution = &read.solutions[0];
        assert_eq!((solution.method, &solution.spread_ns), (Method::Unspecified, &None));
        assert_eq!(solution.times, TimeColumn::Nanos(vec![7_000]));
        assert_eq!(*read.configs.get(solution.configs[0]), kept);
        assert_eq!(solution.failures[0].reason, FailureReason::NotFinite);
    }
}
