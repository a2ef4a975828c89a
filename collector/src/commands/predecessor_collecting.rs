//! What three of torch-diode's commands share: `collect-shapeset`, `create-validation` and `collect-and-train` all measure
//! problems and write the results to files.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_compat::Validation;
use diode_core::ids::ProblemId;
use diode_core::space::SpaceName;
use diode_core::{Op, Problem};
use diode_formats::Format;
use diode_train::{Evaluation, TrainingSet};

use crate::collect::bench::DeviceArgs;
use crate::collect::collection::Output;
use crate::collect::{Collecting, ConfigArgs, STOPPING};
use crate::commands::predecessor::{DatasetFormat, mention_losses};
use crate::evaluation::words::validation_in_words;
use crate::failure::Usage;
use crate::input::arguments::{at_least_one, whole};
use crate::input::datasets::{Selection, describe};
use crate::input::generator::GeneratorArgs;
use crate::input::problems::chosen;
use crate::input::{arguments, datasets};
use crate::interrupt::Interrupt;
use crate::node::Node;
use crate::output::files;
use crate::server::PackServerArgs;
use crate::training::recipe::{Recipe, check_model_name};
use crate::{evaluation, output};

/// How to measure and what to write.
#[derive(Debug, Args)]
#[command(next_help_heading = "Measuring", mut_arg("backend", |backend| backend.help("What to measure on")))]
struct CollectingArgs {
    /// Which configs to time: EXHAUSTIVE or DEFAULT as Inductor calls them, or full
    #[arg(long, alias = "space", default_value = "EXHAUSTIVE", value_name = "SPACE", value_parser = arguments::space)]
    search_space: SpaceName,

    /// Write torch-diode's JSON or MessagePack, whatever the extension of the output
    #[arg(long, value_enum)]
    pub(crate) format: Option<DatasetFormat>,

    /// Go on with existing output: problems that are in it are skipped
    #[arg(long)]
    pub(crate) resume: bool,

    #[command(flatten)]
    devices: DeviceArgs,

    #[command(flatten)]
    packs: PackServerArgs,
}

impl CollectingArgs {
    /// The path of the file to write for a name that the user gives. Refuses formats that these commands do not
    /// write.
    pub(crate) fn output(&self, path: &Path) -> Result<PathBuf, Usage> {
        let path = DatasetFormat::applied(self.format, path)?;
        match Format::from_path(&path).map_err(Usage::new)? {
            Format::Csv | Format::Parquet => Err(Usage::new(format!(
                "{}: expected a name that ends in .json, .msgpack or .msgpack.zst; `diode convert` makes the others",
                path.display()
            ))),
            _ => Ok(path),
        }
    }

    /// Measures problems into one file, or with `chunk_size` into numbered files with that many problems each:
    /// `name_1.json`, `name_2.json` …
    pub(crate) fn collect(
        &self,
        output: &Path,
        chunk_size: Option<usize>,
        problems: &[Problem],
        seed: u32,
        interrupt: &Interrupt,
    ) -> anyhow::Result<()> {
        let files = Output::new(output, chunk_size, true)?;
        files.check(self.resume)?;
        let collecting = Collecting {
            output: files,
            resume: self.resume,
            configs: ConfigArgs::all_of(self.search_space),
            devices: self.devices.clone(),
            pack_server: self.packs.clone(),
            seed: seed.into(),
            budget: None,
        };
        let in_files = collecting.run(problems, interrupt)?.in_file;
        if in_files == 0 {
            bail!("{}: nothing was measured", output.display());
        }
        Ok(())
    }
}

/// Time every config on the problems of a shape set
///
/// Ops, batches and outputs are measured as the set has them. `collect --shapeset`
/// does the same and keeps more of what was measured.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode collect-shapeset --shapeset shapes.json --output shapes.msgpack --operations mm bmm"
)]
pub(crate) struct CollectShapeset {
    /// Shape set: torch-diode's JSON, MessagePack or CSV
    #[arg(long, value_name = "FILE")]
    shapeset: PathBuf,

    /// File to write: .msgpack, .json or .msgpack.zst
    #[arg(long, value_name = "FILE", default_value = "operation_shapeset_data.msgpack")]
    output: PathBuf,

    /// Operators to measure [default: all in the set]
    #[arg(long, alias = "ops", value_name = "OPS", value_delimiter = ',', num_args = 1..)]
    operations: Vec<Op>,

    /// Seed of the inputs that kernels are run on
    #[arg(long, default_value_t = 42, value_parser = whole::<u32>)]
    seed: u32,

    #[command(flatten)]
    collecting: CollectingArgs,
}

impl CollectShapeset {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let output = self.collecting.output(&self.output)?;
        mention_losses(&[&output]);
        let problems = chosen(&self.shapeset, &self.operations)?;
        self.collecting.collect(&output, None, &problems, self.seed, &Interrupt::install(STOPPING)?)
    }
}

/// Time problems to judge models by
///
/// The default seed is not that of `collect`, so a model is judged by problems
/// that it was not trained on.
#[derive(Debug, Args)]
#[command(
    mut_arg("seed", |seed| seed.default_value("43")),
    mut_arg("num_shapes", |count| count.default_value("30")),
    after_help = "Example:\n  diode create-validation --output validation.msgpack.zst --num-shapes 10 --max-size 512"
)]
pub(crate) struct CreateValidation {
    /// File to write: .json, .msgpack or .msgpack.zst
    #[arg(long, value_name = "FILE", default_value = "matmul_validation_dataset.json")]
    output: PathBuf,

    /// Measure the problems of a shape set instead of drawing them
    #[arg(
        long,
        value_name = "FILE",
        conflicts_with_all = [
            "num_shapes", "log_normal", "power_of_two", "min_size", "max_size", "no_rectangular", "no_odd_sizes", "dtypes", "transformer", "convolution"
        ]
    )]
    shapeset: Option<PathBuf>,

    /// Write files of so many problems each: name_1.json, name_2.json …
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    chunk_size: Option<usize>,

    #[command(flatten)]
    collecting: CollectingArgs,

    #[command(flatten)]
    generator: GeneratorArgs,
}

impl CreateValidation {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let in_folder = self.chunk_size.is_some() && self.output.extension().is_none();
        let output = if in_folder { self.in_folder() } else { self.output.clone() };
        let output = self.collecting.output(&output)?;
        mention_losses(&[&output]);
        let problems = match &self.shapeset {
            Some(shapeset) => chosen(shapeset, &self.generator.ops)?,
            None => self.generator.problems()?,
        };
        if in_folder {
            fs::create_dir_all(&self.output)
                .with_context(|| format!("cannot create {}", self.output.display()))?;
        }
        let (seed, interrupt) = (self.generator.seed, Interrupt::install(STOPPING)?);
        self.collecting.collect(&output, self.chunk_size, &problems, seed, &interrupt)
    }

    /// The path to write to if the output names a folder. It does if `--chunk-size` is given and
    /// the output has no extension.
    fn in_folder(&self) -> PathBuf {
        let format = self.collecting.format.unwrap_or(DatasetFormat::Json);
        self.output.join("validation_dataset").with_extension(format.extension())
    }
}

/// Collect, train a model and judge it by problems it has not seen, in one go
///
/// Validation problems are drawn with the seed after that of the training problems. Of a model's
/// layers, a quarter at most is held out instead: validated by, and not trained on.
#[derive(Debug, Args)]
#[command(
    mut_arg("num_shapes", |count| count.default_value("100")),
    after_help = "Example:\n  diode collect-and-train --num-shapes 40 --validation-shapes 10 --max-size 512 --search-space DEFAULT"
)]
pub(crate) struct CollectAndTrain {
    /// Dataset to train on: .json, .msgpack or .msgpack.zst
    #[arg(long, value_name = "FILE", default_value = "matmul_dataset.json")]
    dataset: PathBuf,

    /// Dataset to judge the model by
    #[arg(long, value_name = "FILE", default_value = "matmul_validation_dataset.json")]
    validation_dataset: PathBuf,

    /// Model file to write (.safetensors)
    #[arg(long, value_name = "FILE", default_value = "matmul_model.safetensors")]
    model: PathBuf,

    /// How many validation problems to draw
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = at_least_one)]
    validation_shapes: usize,

    /// How many of the worst predictions and picks to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = whole::<usize>)]
    top_n_worst: usize,

    /// Train on the dataset that is there
    #[arg(long)]
    skip_collection: bool,

    /// Neither collect validation problems nor judge the model
    #[arg(long)]
    skip_validation: bool,

    /// Only collect
    #[arg(long)]
    skip_training: bool,

    /// Replace the model file if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    collecting: CollectingArgs,

    #[command(flatten)]
    generator: GeneratorArgs,

    #[command(flatten)]
    recipe: Recipe,
}

impl CollectAndTrain {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        self.recipe = self.recipe.without_old_flags();
        let dataset = self.collecting.output(&self.dataset)?;
        let validation = self.collecting.output(&self.validation_dataset)?;
        self.check(&dataset, &validation)?;
        if !self.skip_collection {
            mention_losses(&[&dataset, &validation]);
        }
        let seed = self.generator.seed;
        let mut unseen = match self.skip_validation {
            true => Vec::new(),
            false => self.generator.problems_to_judge_by(self.validation_shapes)?,
        };
        let problems = if self.skip_collection {
            let datasets = datasets::read(std::slice::from_ref(&dataset))?;
            datasets.into_iter().flat_map(|d| d.solutions).map(|solution| solution.problem).collect()
        } else {
            self.to_train_on(&unseen)?
        };
        self.leave_out(&mut unseen, &problems)?;
        let interrupt = Interrupt::install(STOPPING)?;

        if !self.skip_collection {
            say!("collecting training problems into {}", dataset.display());
            self.collecting.collect(&dataset, None, &problems, seed, &interrupt)?;
        }
        let is_kept = self.skip_collection && validation.exists();
        if !(self.skip_validation || is_kept) {
            say!("collecting validation problems into {}", validation.display());
            self.collecting.collect(&validation, None, &unseen, seed.wrapping_add(1), &interrupt)?;
        }
        if self.skip_training {
            return Ok(());
        }
        let mut datasets = datasets::read(&[dataset])?;
        describe(&mut datasets, || Node::read().hardware())?;
        let set = TrainingSet::from_datasets(&datasets, None)?;
        let model = self.recipe.train(&set, u64::from(seed), &self.model, &interrupt)?;
        if self.skip_validation {
            return Ok(());
        }
        let set = evaluation::read_timings(&model, &validation, None, &Selection::default())?;
        let (evaluation, judged) = Evaluation::new(&model, &set)?;
        let validation = Validation::of(&judged, evaluation.report, self.top_n_worst);
        output::text_out(&format!("\n{}", validation_in_words(&validation)))
    }

    /// Refuses at once what would otherwise end the run after hours.
    fn check(&self, dataset: &Path, validation: &Path) -> anyhow::Result<()> {
        check_model_name(&self.model)?;
        self.recipe.check()?;
        if dataset == validation && !self.skip_validation {
            bail!("{}: got one file for both, expected another --validation-dataset", dataset.display());
        }
        if self.skip_collection && !dataset.exists() {
            bail!(
                "{}: no such file to train on; leave out --skip-collection to collect it",
                dataset.display()
            );
        }
        if !self.skip_training {
            files::check_may_write(&self.model, self.force)?;
            self.recipe.check_outputs(&self.model, &[dataset.to_owned(), validation.to_owned()])?;
        }
        let new =
            [(dataset, self.skip_collection), (validation, self.skip_collection || self.skip_validation)];
        for (path, is_kept) in new {
            if files::is_there(path) && !is_kept && !self.collecting.resume {
                bail!(
                    "{} exists; add --resume to go on with it, --skip-collection to use it, or choose another name",
                    path.display()
                );
            }
        }
        Ok(())
    }

    fn to_train_on(&self, unseen: &[Problem]) -> anyhow::Result<Vec<Problem>> {
        let mut problems = self.generator.problems()?;
        if self.generator.of_a_model() && !self.skip_validation {
            problems.retain(|problem| !unseen.contains(problem));
            let (held_out, left) = (output::count(unseen.len(), "problem"), problems.len());
            say!("{held_out} of the model held out to judge by, {left} left to train on");
        }
        Ok(problems)
    }

    /// Leaves out the validation problems that the model is trained on.
    fn leave_out(&self, unseen: &mut Vec<Problem>, trained_on: &[Problem]) -> anyhow::Result<()> {
        let trained_on: HashSet<ProblemId> = trained_on.iter().map(Problem::id).collect();
        let drawn = unseen.len();
        unseen.retain(|problem| !trained_on.contains(&problem.id()));
        if unseen.is_empty() && !self.skip_validation {
            bail!(
                "every validation problem is a training problem too; draw fewer, or from a wider range of sizes"
            );
        }
        if unseen.len() < drawn {
            let left_out = output::count(drawn - unseen.len(), "validation problem");
            say!("note: {left_out} left out, since the model is trained on them");
        }
        Ok(())
    }
}
