//! torch-diode's commands that measure nothing, and the flags that several of its commands take. What they compute is in
//! `diode-compat`.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::{Arg, Args, Command, ValueEnum};
use diode_compat::{AnyModel, NOT_KEPT, Speedups, Validation, is_predecessors, parse_search_mode};
use diode_core::Op;
use diode_core::ids::{Digest, ModelId};
use diode_formats::Format;
use diode_train::{Evaluation, TrainingSet, judge};
use serde::Serialize;

use crate::evaluation::words::{speedups_in_words, validation_in_words};
use crate::failure::{Usage, one_line};
use crate::input::arguments::{at_least_one, whole};
use crate::input::datasets::Selection;
use crate::input::models;
use crate::output::files;
use crate::{evaluation, output};

/// The commands that accept `--search-mode`. torch-diode passed its value to `torch.compile`; Diode
/// times kernels itself.
const WITH_SEARCH_MODE: [&str; 4] = ["collect", "collect-shapeset", "create-validation", "collect-and-train"];

/// Adds the flag to the commands above.
pub(crate) fn accept_search_mode(cli: Command) -> Command {
    let flag = || Arg::new("search_mode").long("search-mode").hide(true).value_parser(parse_search_mode);
    WITH_SEARCH_MODE.iter().fold(cli, |cli, name| cli.mut_subcommand(name, |command| command.arg(flag())))
}

/// torch-diode's two formats.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DatasetFormat {
    Json,
    Msgpack,
}

impl DatasetFormat {
    pub(crate) const fn extension(self) -> &'static str {
        match self {
            Self::Json => "json",
            Self::Msgpack => "msgpack",
        }
    }

    /// The file to write. It gets this format's extension if it has none or has that of
    /// torch-diode's other format. Other extensions are refused.
    pub(crate) fn applied(format: Option<Self>, path: &Path) -> Result<PathBuf, Usage> {
        let Some(format) = format else { return Ok(path.to_owned()) };
        let ending = path.extension().map(|ending| ending.to_string_lossy().to_lowercase());
        match ending.as_deref() {
            Some(ending) if ending == format.extension() => Ok(path.to_owned()),
            None | Some("json" | "msgpack") => {
                let renamed = path.with_extension(format.extension());
                say!("note: writing {}, since --format is {}", renamed.display(), format.extension());
                Ok(renamed)
            }
            Some(_) => Err(Usage::new(format!(
                "{}: got --format {}, expected none, since the extension names another format",
                path.display(),
                format.extension()
            ))),
        }
    }
}

/// torch-diode counted rows of a batch; results never depend on it.
#[derive(Debug, Default, Args)]
pub(crate) struct BatchSize {
    #[arg(long, hide = true, value_parser = at_least_one)]
    batch_size: Option<usize>,
}

impl BatchSize {
    /// The value, for commands where it has an effect.
    pub(crate) fn get(&self) -> Option<usize> {
        self.batch_size
    }

    /// If the flag was given, prints that it has no effect, and what is done instead.
    pub(crate) fn mention(&self, instead: &str) {
        if self.batch_size.is_some() {
            say!("note: --batch-size changes nothing: {instead}");
        }
    }
}

/// Prints what files under these names will not hold, once for all of them.
pub(crate) fn mention_losses(paths: &[&Path]) {
    let is_lossy = |path: &&&Path| Format::from_path(path).is_ok_and(is_predecessors);
    let lossy: Vec<String> = paths.iter().filter(is_lossy).map(|path| path.display().to_string()).collect();
    if !lossy.is_empty() {
        say!("note: {} will not hold {NOT_KEPT}; a .msgpack.zst would", lossy.join(" and "));
    }
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

/// Measure a model's errors on a dataset, and show its worst predictions
///
/// All timings of the dataset count. Errors are of the logarithm of the time, as
/// torch-diode trained on; the table of picks says what they cost.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode validate-model --model cpu.safetensors --dataset validation.msgpack.zst --top-n-worst 5"
)]
pub(crate) struct ValidateModel {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// How many of the worst predictions and picks to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = whole::<usize>)]
    top_n_worst: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    batch_size: BatchSize,
}

impl ValidateModel {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.batch_size.mention("all configs of a problem are predicted at once");
        let model = models::read_model(&self.model)?;
        let set = evaluation::read_timings(&model, &self.dataset, None, &self.selection)?;
        evaluation::warn_if_trained_on(&model, &set)?;
        let (evaluation, judged) = Evaluation::new(&model, &set)?;
        let validation = Validation::of(&judged, evaluation.report, self.top_n_worst);
        if self.json {
            output::json(&validation)
        } else {
            output::text_out(&validation_in_words(&validation))
        }
    }
}

/// Compare a model's picks with the configs that max-autotune would try
///
/// A speedup above 1 means: the best of the model's first N picks is faster than
/// the best of the reference configs. Both are looked up among the dataset's timings.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode validate-max-autotune --model h200.safetensors --dataset held_out.msgpack.zst --max-autotune-solution max_autotune.json"
)]
pub(crate) struct ValidateMaxAutotune {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// Reference configs: torch-diode's solution as JSON or CSV
    #[arg(long, value_name = "FILE")]
    max_autotune_solution: PathBuf,

    /// Report to write, as JSON
    #[arg(long, value_name = "FILE", default_value = "model_performance_analysis_by_op.json")]
    output: PathBuf,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    batch_size: BatchSize,
}

/// The report. It has no date, so that the same files give the same bytes.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    speedups: Speedups,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    model_path: String,
    model_id: ModelId,
    validation_dataset_path: String,
    validation_dataset_digest: Digest,
    max_autotune_solution_path: String,
    hardware_name: String,
    op_name_filter: String,
    device: &'static str,
    time_unit: &'static str,
    ops_present: Vec<Op>,
    notes: Vec<String>,
}

impl ValidateMaxAutotune {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.batch_size.mention("all configs of a problem are predicted at once");
        files::check_may_write(&self.output, true)?;
        files::check_not_input(&self.output, [&self.model, &self.dataset, &self.max_autotune_solution])?;
        files::check_replaces_report(&self.output, "{")?;
        let configs = diode_compat::read_reference_configs(&self.max_autotune_solution)?;
        let model = models::read_model(&self.model)?;
        let set = evaluation::read_timings(&model, &self.dataset, None, &self.selection)?;
        evaluation::warn_if_trained_on(&model, &set)?;
        let path = &self.max_autotune_solution;
        let comparison = evaluation::compare_with(path, &configs, &judge(&model, &set)?)?;
        let text = speedups_in_words(&comparison.speedups);
        let metadata = self.metadata(&model, &set, comparison.ops, comparison.notes)?;
        let mut bytes = serde_json::to_vec_pretty(&Report { speedups: comparison.speedups, metadata })?;
        bytes.push(b'\n');
        files::write(&self.output, &bytes)?;
        output::text_out(&format!("{text}\n{}: the report\n", self.output.display()))
    }

    fn metadata(
        &self,
        model: &AnyModel,
        set: &TrainingSet,
        ops_present: Vec<Op>,
        notes: Vec<String>,
    ) -> anyhow::Result<Metadata> {
        Ok(Metadata {
            model_path: self.model.display().to_string(),
            model_id: models::model_id(&self.model, model)?,
            validation_dataset_path: self.dataset.display().to_string(),
            validation_dataset_digest: set.digest(),
            max_autotune_solution_path: self.max_autotune_solution.display().to_string(),
            hardware_name: self.selection.hardware_name().unwrap_or("all").to_owned(),
            op_name_filter: self.selection.op_name().map_or("none".to_owned(), |op| op.to_string()),
            device: "cpu",
            time_unit: "ms",
            ops_present,
            notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_decides_the_extension() {
        let applied = |format, name: &str| DatasetFormat::applied(format, Path::new(name));
        let (json, msgpack) = (Some(DatasetFormat::Json), Some(DatasetFormat::Msgpack));
        assert_eq!(applied(None, "a.x").unwrap(), Path::new("a.x"));
        assert_eq!(applied(msgpack, "d/a.json").unwrap(), Path::new("d/a.msgpack"));
        assert_eq!(applied(json, "a.JSON").unwrap(), Path::new("a.JSON"));
        assert!(applied(json, "a.msgpack.zst").unwrap_err().to_string().contains("--format json"));
    }
}
