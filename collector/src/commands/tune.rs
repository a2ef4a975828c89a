//! Writes the files from which servers of models read kernel configs.

mod check;
mod journal;
mod log;
mod measuring;
mod model;
mod pack;
mod report;
mod timer;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use diode_compat::AnyModel;
use diode_core::Table;
use diode_core::ids::ModelId;
use diode_core::table::inductor::InductorOptions;
use diode_model::{Model, ModelError, Question, Ranker};
use diode_workloads::file_body::BATCH_SIZES;
use diode_workloads::file_names::{Consumer, DenseKey, DtypeWord, FileKey, device_name};
use diode_workloads::layers::{DenseLayer, ExpertsLayer, LayersError, Serving};
use diode_workloads::model_config::Quantization;
use diode_workloads::tuning::{Tuned, TuningError};

use crate::commands::tune::journal::Question as Asked;
use crate::commands::tune::measuring::{Layer, MeasureArgs, Measuring};
use crate::commands::tune::model::Named;
use crate::commands::tune::report::{Report, Written};
use crate::failure::Usage;
use crate::input::arguments::size;
use crate::input::{models, published};
use crate::output::{self, files};

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
                  diode tune ./config.json --tp 8 --for sglang --out tuned\n  \
                  diode tune Llama-3.1-8B --for inductor --hardware nvidia-h100\n  diode tune --log serve.log\n  \
                  diode tune --check tuned"
)]
pub(crate) struct Tune {
    /// Model: its name, or its config.json
    #[arg(required_unless_present_any = ["log", "check"])]
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
    #[arg(long = "for", value_enum)]
    reader: Option<Reader>,

    /// Write the files that this log of vLLM or SGLang says are missing
    #[arg(long, value_name = "FILE", conflicts_with_all = ["check", "reader", "quantization", "tp", "ep"])]
    log: Option<PathBuf>,

    /// Judge the files of this folder instead of writing any
    #[arg(long, value_name = "DIR", conflicts_with_all = ["model", "quantization", "tp", "ep", "out", "force"])]
    check: Option<PathBuf>,

    /// Folder to write into [default: tuned]
    #[arg(long, value_name = "DIR", default_value = "tuned", hide_default_value = true)]
    out: PathBuf,

    /// Replace files that exist
    #[arg(long)]
    force: bool,

    /// Folder of an installed vLLM or SGLang, whose files are compared [default: the one that --measure times, or the newest
    /// that `diode import` has read]
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["check", "log"])]
    published: Option<PathBuf>,

    #[command(flatten)]
    measuring: MeasureArgs,

    /// What to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Reader {
    Vllm,
    Sglang,
    Inductor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
}

impl Tune {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        if let Some(folder) = &self.check {
            return check::run(folder, self.reader, self.hardware.as_deref(), self.format);
        }
        let named = self.model.as_deref().map(Named::read).transpose()?;
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
            quantization: named.quantization(self.quantization.as_deref(), reader)?,
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
        let consumer = match reader {
            Reader::Inductor => {
                Usage::refuse_if(
                    self.measuring.measure,
                    "--measure: got --for inductor, expected vllm or sglang; torch.compile times its own kernels",
                )?;
                self.lookup_table(&named, &serving, &model, &mut report)?;
                if let Some(form) = named.shipped_otherwise() {
                    report.notes.insert(format!(
                        "the model's weights are {form}; the table is of its dense layers in bf16"
                    ));
                }
                return self.write(&mut report);
            }
            Reader::Vllm => Consumer::Vllm,
            Reader::Sglang => Consumer::Sglang,
        };
        let job = Job { named: &named, serving, model: &model, consumer };
        let dense = reader == Reader::Sglang && named.architecture.experts.is_none();
        let planned = if dense { self.dense(&job)? } else { self.experts(&job)? };
        // Declared first, so that it is dropped after the journal.
        let _made;
        let mut measuring = None;
        if self.measuring.measure {
            let paths = planned.iter().flat_map(Planned::paths);
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
        self.settle(&job, planned, measuring.as_mut(), &mut report)?;
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

    /// Compares the planned files with published ones, measures them if that is wanted, and adds them to the report.
    fn settle(
        &self,
        job: &Job<'_>,
        planned: Vec<Planned>,
        mut measuring: Option<&mut Measuring<'_>>,
        report: &mut Report<'_>,
    ) -> anyhow::Result<()> {
        let Job { model, consumer, .. } = *job;
        let mut release = match &self.published {
            Some(folder) => Some(published::installed(consumer, folder)?),
            None => None,
        };
        for mut one in planned {
            if release.is_none() {
                let package = match &mut measuring {
                    Some(measuring) => {
                        let file = one.file.clone();
                        let (layer, tuned) = one.parts();
                        measuring.package(layer, &file, tuned)?
                    }
                    None => None,
                };
                // A package without files, such as one built from source, has none to compare.
                let installed = package.and_then(|folder| published::installed(consumer, &folder).ok());
                release = installed.map_or_else(|| published::newest(consumer), |found| Ok(Some(found)))?;
            }
            if let Some(release) = &release {
                let added = match &one.key {
                    Key::Experts(layer, key) => one.tuned.add_published_experts(model, layer, key, release),
                    Key::Dense(layer, key) => one.tuned.add_published_dense(model, layer, key, release),
                };
                added.map_err(|error| self.untuned(job.named, error))?;
                report.release = Some(release.to_string());
            }
            if let Some(measuring) = &mut measuring {
                let file = one.file.clone();
                let (layer, tuned) = one.parts();
                measuring.settle(layer, &file, tuned)?;
                report.kernel = measuring.kernel().map(str::to_owned);
            }
            match &one.key {
                Key::Experts(layer, key) => {
                    self.add_experts(layer, key, &one.tuned, consumer, consumer.triton(), report);
                }
                Key::Dense(layer, _) => {
                    report.layer(format!("{}: {}×{}", layer.name, layer.n, layer.k), &one.tuned);
                    report.written.push(Written::new(self.out.join(&one.file), one.tuned.body().to_text()));
                    report.dense_files_go_to(consumer);
                    report.notes.insert(
                        "on Hopper and later GPUs, SGLang runs most of these layers by DeepGEMM, which reads no files"
                            .to_owned(),
                    );
                }
            }
        }
        Ok(())
    }

    /// The file of the model's layer of experts.
    fn experts(&self, job: &Job<'_>) -> anyhow::Result<Vec<Planned>> {
        let Job { named, serving, model, consumer } = job;
        if named.architecture.experts.is_none() {
            return Err(Usage::new(format!(
                "{}: got a model without experts, expected one with them: {} reads no files for dense layers on CUDA; \
                 --for inductor writes a table for torch.compile",
                named.name,
                consumer.title()
            ))
            .into());
        }
        let layer = named
            .architecture
            .experts_layer(serving, *consumer)
            .map_err(|error| self.refused(named, error))?;
        let tuned = Tuned::experts(model, &layer, *consumer, &BATCH_SIZES)
            .map_err(|error| self.untuned(named, error))?;
        let key = layer.key(device_name(&model.metadata().hardware, *consumer, false), *consumer);
        let folder = self.out.join(consumer.folder(consumer.triton()));
        let file = key.name(*consumer);
        Ok(vec![Planned { folder, file, key: Key::Experts(layer, key), tuned }])
    }

    /// Adds the files of a layer of experts, and says where the server looks for them.
    fn add_experts(
        &self,
        layer: &ExpertsLayer,
        key: &FileKey,
        tuned: &Tuned,
        consumer: Consumer,
        triton: &str,
        report: &mut Report<'_>,
    ) {
        let folder = self.out.join(consumer.folder(triton));
        let path = folder.join(key.name(consumer));
        // A log names the files of both multiplications.
        if report.written.iter().any(|known| known.path == path) {
            return;
        }
        let name = format!(
            "{} experts of {}, {} of them for each token, hidden size {}",
            layer.experts, layer.n, layer.top_k, layer.hidden
        );
        report.layer(name, tuned);
        if let Some(down) = tuned.down_body() {
            let key = FileKey { down: true, ..key.clone() };
            report.written.push(Written::new(folder.join(key.name(consumer)), down.to_text()));
        }
        report.written.push(Written::new(path, tuned.body().to_text()));
        report.variable = Some((consumer.variable(), absolute(&self.out)));
        if consumer == Consumer::Sglang {
            report.notes.insert(format!(
                "the variable replaces SGLang's own files: copy those that you need from {} into {}",
                consumer.experts_folder(),
                self.out.join("configs").display()
            ));
        }
    }

    /// SGLang's files of a dense model's multiplications.
    fn dense(&self, job: &Job<'_>) -> anyhow::Result<Vec<Planned>> {
        let Job { named, serving, model, consumer } = job;
        Usage::refuse_if(
            serving.quantization != Quantization::Fp8Block,
            format_args!(
                "{}: got a model without experts in {}, expected fp8-block, which is what SGLang reads files for; add \
                 --quantization fp8-block, or --for inductor for torch.compile",
                named.name, serving.quantization
            ),
        )?;
        let layers = named.architecture.dense_layers(serving).map_err(|error| self.refused(named, error))?;
        let device = device_name(&model.metadata().hardware, *consumer, true);
        let mut planned: Vec<Planned> = Vec::new();
        for layer in layers.into_iter().filter(|layer| layer.quantized) {
            let block = [128, 128];
            if let Some(odd) = [layer.n, layer.k].into_iter().find(|size| !size.is_multiple_of(128)) {
                return Err(Usage::new(format!(
                    "{}: got {odd} rows or columns of {} on each GPU, expected a multiple of 128, as SGLang needs for \
                     fp8-block",
                    named.name, layer.name
                ))
                .into());
            }
            let tuned = Tuned::dense(model, &layer, *consumer, &BATCH_SIZES)
                .map_err(|error| self.untuned(named, error))?;
            let word = DtypeWord::Fp8W8A8;
            let key = DenseKey { n: layer.n, k: layer.k, device: device.clone(), word, block: Some(block) };
            let file = key.name(*consumer);
            if planned.iter().all(|known| known.file != file) {
                planned.push(Planned { folder: self.out.clone(), file, key: Key::Dense(layer, key), tuned });
            }
        }
        Ok(planned)
    }

    /// Inductor's lookup table of the model's multiplications.
    fn lookup_table(
        &self,
        named: &Named,
        serving: &Serving,
        model: &Model,
        report: &mut Report<'_>,
    ) -> anyhow::Result<()> {
        Usage::refuse_if(
            serving.quantization != Quantization::Bf16,
            format_args!(
                "--quantization: got {} with --for inductor, expected bf16: Inductor's lookup table has no scaled \
                 multiplications",
                serving.quantization
            ),
        )?;
        let layers = named.architecture.dense_layers(serving).map_err(|error| self.refused(named, error))?;
        let mut ranker = Ranker::new(model);
        let mut choices = Vec::new();
        let question = Question { picks: 1, ..Question::default() };
        let mut seen = HashSet::new();
        let apart = layers.iter().flat_map(DenseLayer::apart);
        for layer in apart.filter(|layer| seen.insert((layer.n, layer.k, layer.rows))) {
            for batch in BATCH_SIZES {
                let problem =
                    layer.problem(batch, Quantization::Bf16).map_err(|error| self.refused(named, error))?;
                let answer = ranker.answer(&problem, &question)?;
                let picks = answer.picks.iter().map(|pick| pick.config).collect::<Vec<_>>();
                report.caveats.extend(answer.caveat);
                choices.push((problem, picks));
            }
        }
        let problems = choices.len();
        let table = Table::from_choices(report.hardware.clone(), choices)?;
        let table = serde_json::to_string_pretty(&table.to_inductor(&InductorOptions::default())?)
            .context("cannot encode the table as JSON")?;
        report.written.push(Written::new(self.out.join("lookup.json"), table + "\n"));
        report.notes.insert(format!(
            "{problems} multiplications of {}; give torch.compile the options lookup_table.table = json.load(…), \
             max_autotune_gemm = True and inductor_choices_class = LookupTableChoices",
            output::count(seen.len(), "layer")
        ));
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
    consumer: Consumer,
}

/// A layer with its configs as predicted, and the file that gets them.
struct Planned {
    folder: PathBuf,
    /// The file's name. Experts may have a second one for down.
    file: String,
    key: Key,
    tuned: Tuned,
}

enum Key {
    Experts(ExpertsLayer, FileKey),
    Dense(DenseLayer, DenseKey),
}

impl Planned {
    fn paths(&self) -> Vec<PathBuf> {
        let mut paths = vec![self.folder.join(&self.file)];
        if let (Key::Experts(_, key), true) = (&self.key, self.tuned.down_body().is_some()) {
            paths.push(self.folder.join(FileKey { down: true, ..key.clone() }.name(Consumer::Sglang)));
        }
        paths
    }

    /// The layer, and its configs.
    fn parts(&mut self) -> (Layer<'_>, &mut Tuned) {
        let layer = match &self.key {
            Key::Experts(layer, _) => Layer::Experts(layer),
            Key::Dense(layer, _) => Layer::Dense(layer),
        };
        (layer, &mut self.tuned)
    }
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

/// The path from the root, which a variable needs.
fn absolute(path: &Path) -> String {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).display().to_string()
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
