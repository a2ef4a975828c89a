use std::fs;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;

use super::collecting::{CollectingArgs, problems_of};
use super::datasets::mention_losses;
use super::flags::DatasetFormat;
use crate::input::arguments::at_least_one;
use crate::input::generator::GeneratorArgs;
use crate::interrupt::Interrupt;

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
            Some(shapeset) => problems_of(shapeset, &self.generator.ops)?,
            None => self.generator.problems()?,
        };
        if in_folder {
            fs::create_dir_all(&self.output)
                .with_context(|| format!("cannot create {}", self.output.display()))?;
        }
        let (seed, interrupt) = (self.generator.seed, Interrupt::install()?);
        self.collecting.collect(&output, self.chunk_size, &problems, seed, &interrupt)
    }

    /// The path to write to if the output names a folder. It does if `--chunk-size` is given and
    /// the output has no extension.
    fn in_folder(&self) -> PathBuf {
        let format = self.collecting.format.unwrap_or(DatasetFormat::Json);
        self.output.join("validation_dataset").with_extension(format.extension())
    }
}
