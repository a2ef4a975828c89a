mod lookup;

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::bail;
use clap::{Args, Subcommand};
use diode_core::hardware::Hardware;
use diode_core::ids::HardwareSlug;
use diode_core::table::TableFormat;
use diode_core::table::inductor::{InductorOptions, PythonNumber, Scalars, TorchVersion};
use diode_core::{Invalid, Method};

use crate::failure::Usage;
use crate::input::arguments::at_least_one;
use crate::input::{datasets, tables};
use crate::output::{self, files};
use lookup::Lookup;

/// Make a table of the best known configs of each problem, or look one up
///
/// A table in diode's format is JSON with one object per problem, in order of
/// preference; edit it as you like and give it to this command again. torch-diode's lookup
/// tables are read too. Inductor's format is the value of torch._inductor.config.lookup_table.table.
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Example:\n  diode table h200.msgpack.zst --output table.json --top 5\n  \
                  diode table table.json --output lookup.json --format inductor\n  \
                  diode table lookup table.json --op mm --m 512 --n 4096 --k 4096 --dtype bfloat16 --nearest"
)]
pub(crate) struct Table {
    #[command(subcommand)]
    command: Option<TableCommand>,

    /// Datasets, folders of datasets, or one table to edit further
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    /// File to write
    #[arg(long, value_name = "FILE", required = true)]
    output: Option<PathBuf>,

    /// Keep only the best N configs of each problem [default: all]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    top: Option<usize>,

    /// Which of the hardware in the files
    #[arg(long, value_name = "SLUG")]
    hardware: Option<HardwareSlug>,

    /// Which of the methods of timing in the files [default: the one with most timings]
    #[arg(long)]
    method: Option<Method>,

    /// Which form to write: diode, or inductor for PyTorch's lookup table
    #[arg(long, default_value = "diode")]
    format: TableFormat,

    /// Replace the output if it exists
    #[arg(long)]
    force: bool,

    #[command(flatten)]
    inductor: InductorArgs,
}

#[derive(Debug, Subcommand)]
enum TableCommand {
    Lookup(Lookup),
}

/// They need `--format inductor`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Inductor's format")]
struct InductorArgs {
    /// Leave the device's name out of the keys, so that they apply to every device
    #[arg(long)]
    device_agnostic: bool,

    /// Void the table for any other version of torch than this one: 2.11.0
    #[arg(long, value_name = "VERSION")]
    torch: Option<TorchVersion>,

    /// The alpha of addmm and baddbmm as the model's code gives it; 1 and 1.0 differ [default: 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    alpha: Option<PythonNumber>,

    /// The beta of addmm and baddbmm as the model's code gives it; 1 and 1.0 differ [default: 1]
    #[arg(long, value_name = "NUMBER", allow_negative_numbers = true)]
    beta: Option<PythonNumber>,
}

impl InductorArgs {
    fn any(&self) -> bool {
        self.device_agnostic || self.torch.is_some() || self.alpha.is_some() || self.beta.is_some()
    }

    fn options(self) -> InductorOptions {
        let usual = Scalars::default();
        InductorOptions {
            device_agnostic: self.device_agnostic,
            torch: self.torch,
            scalars: Scalars {
                alpha: self.alpha.unwrap_or(usual.alpha),
                beta: self.beta.unwrap_or(usual.beta),
            },
        }
    }
}

impl Table {
    pub(crate) fn run(mut self) -> anyhow::Result<()> {
        if let Some(TableCommand::Lookup(lookup)) = self.command {
            return lookup.run();
        }
        let Some(path) = self.output.take() else { return Err(Usage::new("--output: got none").into()) };
        if self.format == TableFormat::Diode && self.inductor.any() {
            let flags = "--device-agnostic, --torch, --alpha and --beta";
            return Err(Usage::new(format!("{flags} are for --format inductor only")).into());
        }
        files::check_may_write(&path, self.force)?;
        files::check_not_input(&path, &self.files)?;
        let table = self.read()?;
        let configs: usize = table.iter().map(|(_, configs)| configs.len()).sum();
        let (problems, slug, method) = (table.len(), table.hardware().slug.clone(), table.method());
        let text = match self.format {
            TableFormat::Diode => serde_json::to_string_pretty(&table)?,
            TableFormat::Inductor => {
                serde_json::to_string_pretty(&table.to_inductor(&self.inductor.options())?)?
            }
        };
        files::write(&path, (text + "\n").as_bytes())?;
        output::text_out(&format!(
            "{}: {}, {} on {slug} ({method})\n",
            path.display(),
            output::count(problems, "problem"),
            output::count(configs, "config"),
        ))
    }

    fn read(&self) -> anyhow::Result<diode_core::Table> {
        if self.files.iter().any(|file| tables::is_table(file)) {
            return self.read_table();
        }
        let datasets = datasets::read(&self.files)?;
        let datasets = self.of_one_hardware(datasets, |dataset| &dataset.hardware)?;
        let table = diode_core::Table::from_datasets(&datasets, self.method, self.top)?;
        if table.is_empty() {
            bail!("no problem has a time: every config failed");
        }
        Ok(table)
    }

    fn read_table(&self) -> anyhow::Result<diode_core::Table> {
        let [file] = self.files.as_slice() else {
            let files = self.files.len();
            return Err(Usage::new(format!("files: got a table among {files}, expected it alone")).into());
        };
        let tables = self.of_one_hardware(tables::read_tables(file)?, diode_core::Table::hardware)?;
        let names: Vec<&str> = tables.iter().map(|table| table.hardware().name.as_str()).collect();
        if names.len() > 1 {
            bail!("{}: got one hardware under {}, expected one name", file.display(), names.join(" and "));
        }
        let Some(table) = tables.into_iter().next().filter(|table| !table.is_empty()) else {
            bail!("{}: no problem has a config that can compute it", file.display());
        };
        if let Some(wanted) = self.method.filter(|wanted| *wanted != table.method()) {
            return Err(no_such("method", wanted, &table.method().to_string()).into());
        }
        Ok(match self.top {
            Some(top) => table.top(top),
            None => table,
        })
    }

    /// Keeps the items of the requested hardware. If none was requested, all items must be of one
    /// hardware.
    fn of_one_hardware<T>(&self, mut all: Vec<T>, of: impl Fn(&T) -> &Hardware) -> anyhow::Result<Vec<T>> {
        let slugs: BTreeSet<String> = all.iter().map(|one| of(one).slug.to_string()).collect();
        if let Some(wanted) = &self.hardware {
            all.retain(|one| of(one).slug == *wanted);
            if all.is_empty() {
                let there: Vec<String> = slugs.into_iter().collect();
                return Err(no_such("hardware", wanted, &there.join(" or ")).into());
            }
        } else if slugs.len() > 1 {
            let slugs: Vec<String> = slugs.into_iter().collect();
            bail!("hardware: got {}, expected one; choose with --hardware", slugs.join(" and "));
        }
        Ok(all)
    }
}

fn no_such(what: &str, wanted: impl std::fmt::Display, there: &str) -> Invalid {
    Invalid::new(what, format_args!("`{wanted}`"), format!("{there}, as there is"))
}
