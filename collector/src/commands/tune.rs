//! Writes the files from which servers of models read kernel configs.

mod check;
mod journal;
mod log;
mod measuring;
mod pack;
mod report;
mod timer;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use diode_compat::AnyModel;
use diode_core::ids::ModelId;
use diode_model::{Model, ModelError};
use diode_workloads::file_names::Consumer;
use diode_workloads::files::{Files, FilesError, none_read};
use diode_workloads::layers::{LayersError, Serving};
use diode_workloads::named::Named;
use diode_workloads::served::{Reader, ServedLayer};
use diode_workloads::tuning::{Tuned, TuningError};

use crate::commands::tune::journal::Question as Asked;
use crate::commands::tune::measuring::{MeasureArgs, Measuring};
use crate::commands::tune::report::{Report, Written};
use crate::failure::Usage;
use crate::input::arguments::size;
use crate::input::{models, published, served};
use crate::output::files;

/// Write the kernel configs of a model for vLLM, SGLang or torch.compile
///
/// MODEL is a name such as Qwen3-235B-A22B or Qwen/Qwen3-30B-A3B-FP8, or the path of a config.json in Hugging Face's form.
/// vLLM and SGLang read a file for each layer of experts, with a config for each batch size. What they run
/// without a file stays, unless another config is predicted to be clearly faster, or with --measure found to be on this
/// node's GPU. --log writes the files that a server's log says are missing; --check judges files that exist.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode tune Qwen3-235B-A22B --tp 4 --quantization fp8-block --hardware nvidia-h200\n  \
                  diode tune Qwen3-235B-A22B --tp 4 --measure --python /opt/vllm/bin/python\n  \
                  diode tune ./config.json --tp 8 --for sglang --output tuned\n  \
                  diode tune Llama-3.1-8B --for inductor --hardware nvidia-h100\n  diode tune --log serve.log\n  \
                  diode tune --check tuned\n  diode tune --list qwen3"
)]
pub(crate) struct Tune {
    /// Model: its name, or its config.json
    #[arg(required_unless_present_any = ["log", "check", "list"])]
    model: Option<String>,

    /// GPUs among which every layer is split (tensor parallelism)
    #[arg(long, value_name = "N", default_value = "1", value_parser = size)]
    tp: u64,

    /// GPUs among which experts are spread (expert parallelism)
    #[arg(long, value_name = "N", default_value = "1", value_parser = size)]
    ep: u64,

    /// Form of the weights: bf16, fp8-block, fp8-channel, fp8-tensor, or fp8 for the model's own fp8 [default: as the model's
    /// config or name says]
    #[arg(long, value_name = "FORM")]
    quantization: Option<String>,

    /// Hardware that serves, such as nvidia-h200 [default: this node's GPU]
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,

    /// What reads the files [default: vllm, or what the log or the files' names tell]
    #[arg(long = "for", value_name = "READER", value_parser = reader())]
    reader: Option<Reader>,

    /// Write the files that this log of vLLM or SGLang says are missing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "reader", "quantization", "tp", "ep"])]
    log: Option<PathBuf>,

    /// Check the files of this folder, for MODEL if it is given, and write none
    #[arg(long, value_name = "DIR", conflicts_with_all = ["quantization", "tp", "ep", "out", "force"])]
    check: Option<PathBuf>,

    /// List models by name: those with the word MODEL in their names, kinds or weights, or all
    #[arg(long, conflicts_with_all = ["log", "check", "measure", "quantization", "tp", "ep", "out", "force", "hardware", "reader"])]
    list: bool,

    /// Folder to write into [default: tuned]
    #[arg(
        long = "output",
        alias = "out",
        value_name = "DIR",
        default_value = "tuned",
        hide_default_value = true
    )]
    out: PathBuf,

    /// Replace files that exist
    #[arg(long)]
    force: bool,

    /// Folder of an installed vLLM or SGLang, whose files are compared [default: the one that --measure times, or the newest
    /// that `diode import` has read]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["check", "log"])]
    published: Option<PathBuf>,

    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,

    #[command(flatten)]
    measuring: MeasureArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

impl Tune {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if self.list {
            return served::list(self.model.as_deref(), self.format == Format::Json);
        }
        let named = self.model.as_deref().map(served::named).transpose()?;
        if let Some(folder) = &self.check {
            return check::run(folder, named.as_ref(), self.reader, self.hardware.as_deref(), self.format);
        }
        if let Some(log) = &self.log {
            return self.answer_log(log, named.as_ref());
        }
        let Some(named) = named else {
            unreachable!("clap asks for a model unless there is a log or a folder")
        };
        let reader = self.reader.unwrap_or(Reader::Vllm);
        let serving = Serving {
            tensor_parallel: self.tp,
            expert_parallel: self.ep,
            quantization: served::quantization(&named, self.quantization.as_deref(), reader)?,
        };
        named.architecture.check_split(&serving).map_err(|error| self.refused(&named, error))?;
        let (model, id) = predicting(self.hardware.as_deref()).map_err(|error| {
            if self.measuring.measure && self.hardware.is_none() && error.is::<Usage>() {
                return Usage::new("--measure needs a GPU, and this node has none; leave it out to predict")
                    .into();
            }
            error
        })?;
        let hardware = &model.metadata().hardware;
        let mut report = Report::new(&named.name, Some(serving), hardware, id.clone());
        let job = Job { named: &named, serving, model: &model };
        let Some(consumer) = reader.server() else {
            Usage::refuse_if(
                self.measuring.measure,
                "--measure: got --for inductor, expected vllm or sglang; torch.compile times its own kernels",
            )?;
            let mut files = Files::of(&model, &named.architecture, &serving, reader)
                .map_err(|error| self.no_files(&named, error))?;
            if let Some(form) = named.other_form() {
                files.notes.insert(format!(
                    "the model's weights are {form}; the table is of its dense layers in bf16"
                ));
            }
            report.take(files, &self.out);
            return self.write(&mut report);
        };
        let planned = self.plan(&job, reader, consumer)?;
        // Declared first, so that it is dropped after the journal.
        let _made;
        let mut measuring = None;
        if self.measuring.measure {
            let paths = planned.iter().flat_map(|one| one.paths(&self.out));
            _made = check_may_write_all(paths, self.may_replace())?;
            let asked = Asked {
                model: named.name.clone(),
                serving,
                reader: consumer.to_string(),
                hardware: hardware.slug.to_string(),
                predicted_by: id,
                picks: self.measuring.picks.into(),
            };
            measuring =
                Some(Measuring::open(&self.measuring, &self.out, self.force, consumer, hardware, &asked)?);
        }
        self.settle(&job, consumer, planned, measuring.as_mut(), &mut report)?;
        self.write(&mut report)?;
        measuring.map_or(Ok(()), Measuring::finish)
    }

    /// Whether files that exist may be replaced. What goes on replaces its own.
    fn may_replace(&self) -> bool {
        self.force || self.measuring.resume
    }

    fn write(&self, report: &mut Report<'_>) -> anyhow::Result<()> {
        write_all(&mut report.written, self.may_replace())?;
        report.print(self.format)
    }

    /// The layers whose configs the server reads from files, with those that the model predicts.
    fn plan(&self, job: &Job<'_>, reader: Reader, consumer: Consumer) -> anyhow::Result<Vec<Planned>> {
        let Job { named, serving, model } = job;
        let layers = named.architecture.served_layers(serving, reader, &model.metadata().hardware);
        let mut planned: Vec<Planned> = Vec::new();
        for served in layers.map_err(|error| self.refused(named, error))? {
            // Layers of the same sizes share a file.
            if served.files.is_empty() || planned.iter().any(|known| known.served.files == served.files) {
                continue;
            }
            let tuned =
                Tuned::of(model, &served.layer, consumer).map_err(|error| self.untuned(named, error))?;
            planned.push(Planned { served, tuned });
        }
        Usage::refuse_if(
            planned.is_empty(),
            format_args!(
                "{}: {}; --for inductor writes a table for torch.compile",
                named.name,
                none_read(consumer, serving)
            ),
        )?;
        Ok(planned)
    }

    /// Compares the planned files with published ones, measures them if that is wanted, and adds them to the report.
    fn settle(
        &self,
        job: &Job<'_>,
        consumer: Consumer,
        planned: Vec<Planned>,
        mut measuring: Option<&mut Measuring<'_>>,
        report: &mut Report<'_>,
    ) -> anyhow::Result<()> {
        let mut release = match &self.published {
            Some(folder) => Some(published::installed(consumer, folder).context("--published")?),
            None => None,
        };
        let mut files = Files::default();
        for Planned { served, mut tuned } in planned {
            if release.is_none() {
                let package = match &mut measuring {
                    Some(measuring) => measuring.package(&served, &tuned)?,
                    None => None,
                };
                // A package without files, such as one built from source, has none to compare.
                let installed = package.and_then(|folder| published::installed(consumer, &folder).ok());
                release = installed.map_or_else(|| published::newest(consumer), |found| Ok(Some(found)))?;
            }
            if let Some(release) = &release {
                tuned
                    .add_published(&job.model.metadata().hardware, Some(job.model), &served.layer, release)
                    .map_err(|error| self.untuned(job.named, error))?;
                report.release = Some(release.to_string());
            }
            if let Some(measuring) = &mut measuring {
                measuring.settle(&served, &mut tuned)?;
                report.kernel = measuring.kernel().map(str::to_owned);
            }
            files.add(&served.layer, &served.files, consumer, tuned);
        }
        report.take(files, &self.out);
        Ok(())
    }

    /// A model that cannot be split or scaled as the flags say.
    fn refused(&self, named: &Named, error: LayersError) -> anyhow::Error {
        let flag = match &error {
            LayersError::Spread { .. } => format!("--ep {}", self.ep),
            LayersError::NotDivisible { what: "experts", .. } => format!("--ep {}", self.ep),
            LayersError::NotDivisible { .. } => format!("--tp {}", self.tp),
            LayersError::Blocks { .. } => format!("--tp {} with fp8-block", self.tp),
            _ => return Usage::new(format!("{}: {error}", named.name)).into(),
        };
        Usage::new(format!("{flag}: {}: {error}", named.name)).into()
    }

    fn no_files(&self, named: &Named, error: FilesError) -> anyhow::Error {
        match error {
            FilesError::Tuning(error) => self.untuned(named, error),
            error => Usage::new(format!("{}: {error}", named.name)).into(),
        }
    }

    fn untuned(&self, named: &Named, error: TuningError) -> anyhow::Error {
        match error {
            TuningError::Layers(error) => self.refused(named, error),
            TuningError::Model(error @ (ModelError::NoUnit { .. } | ModelError::NoServing { .. })) => {
                Usage::new(format!("{}: {error}", named.name)).into()
            }
            TuningError::Model(error) => anyhow::Error::new(error).context(named.name.clone()),
            error @ TuningError::Unmeasured { .. } => Usage::new(format!("{}: {error}", named.name)).into(),
        }
    }
}

/// What is tuned for what.
struct Job<'a> {
    named: &'a Named,
    serving: Serving,
    model: &'a Model,
}

/// A layer whose configs are read from files, with those that are predicted.
struct Planned {
    served: ServedLayer,
    tuned: Tuned,
}

impl Planned {
    fn paths(&self, out: &Path) -> Vec<PathBuf> {
        let launches = if self.tuned.down_body().is_some() { 2 } else { 1 };
        self.served.files.iter().take(launches).map(|file| out.join(file)).collect()
    }
}

/// Takes one of the readers' names.
fn reader() -> impl TypedValueParser<Value = Reader> {
    PossibleValuesParser::new(Reader::ALL.iter().map(|reader| reader.as_str()))
        .try_map(|name| name.parse::<Reader>())
}

/// The model that comes with diode for this hardware, and its identity.
fn predicting(hardware: Option<&str>) -> anyhow::Result<(Box<Model>, ModelId)> {
    let model = models::shipped_model(hardware)?;
    let id = models::file_id(None, &model)?;
    match model {
        AnyModel::Ranking(model) => Ok((model, id)),
        AnyModel::Predecessor(_) => unreachable!("no model of torch-diode comes with diode"),
    }
}

/// Folders that were made. Those that are empty at the end are removed.
struct NewFolders(Vec<PathBuf>);

impl NewFolders {
    fn make(&mut self, folder: &Path) -> anyhow::Result<()> {
        let new = folder.ancestors().take_while(|folder| !folder.as_os_str().is_empty() && !folder.exists());
        let above = self.0.len();
        self.0.extend(new.map(Path::to_owned));
        self.0[above..].reverse();
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))
    }
}

impl Drop for NewFolders {
    fn drop(&mut self) {
        for folder in self.0.iter().rev() {
            // A folder that is not empty stays.
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Makes the files' folders, and refuses files that may not be written.
fn check_may_write_all(paths: impl Iterator<Item = PathBuf>, force: bool) -> anyhow::Result<NewFolders> {
    let mut made = NewFolders(Vec::new());
    for path in paths {
        if let Some(folder) = path.parent() {
            made.make(folder)?;
        }
        files::check_may_write(&path, force)?;
    }
    Ok(made)
}

/// Writes each file whole. If one cannot be written, those that were new are taken back, so that no half of a pair is
/// left.
fn write_all(all: &mut [Written], force: bool) -> anyhow::Result<()> {
    for one in all.iter_mut() {
        let there = std::fs::read(&one.path).ok();
        one.unchanged = there.as_deref() == Some(one.text.as_bytes());
    }
    let changed = all.iter().filter(|one| !one.unchanged);
    let _made = check_may_write_all(changed.map(|one| one.path.clone()), force)?;
    let mut new: Vec<&Path> = Vec::new();
    for one in all.iter().filter(|one| !one.unchanged) {
        let was_there = files::is_there(&one.path);
        if let Err(error) = files::write_checked(&one.path, one.text.as_bytes(), force) {
            for path in new {
                // The error to report is the first one.
                let _ = std::fs::remove_file(path);
            }
            return Err(error);
        }
        if !was_there {
            new.push(&one.path);
        }
    }
    Ok(())
}
