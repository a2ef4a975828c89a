//! Selects which timings of datasets count.

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use diode_core::hardware::Hardware;
use diode_core::{Dataset, Op};

use super::datasets;
use crate::failure::Usage;

/// Filters of timings.
#[derive(Debug, Default, Args)]
#[command(next_help_heading = "Selection")]
pub(crate) struct Selection {
    /// Use timings of this hardware only: its name or slug, such as nvidia-h200
    #[arg(long, value_name = "NAME")]
    hardware_name: Option<String>,

    /// Use timings of this operator only
    #[arg(long, value_name = "OP")]
    op_name: Option<Op>,
}

impl Selection {
    /// Reads datasets and keeps the timings that the filters name.
    pub(crate) fn read(&self, paths: &[PathBuf]) -> anyhow::Result<Vec<Dataset>> {
        self.keep(datasets::read(paths)?)
    }

    pub(crate) fn keep(&self, mut datasets: Vec<Dataset>) -> anyhow::Result<Vec<Dataset>> {
        if let Some(name) = &self.hardware_name {
            let wanted = Hardware::from_name(name).map_err(Usage::new)?.slug;
            let found = names(datasets.iter().map(|dataset| dataset.hardware.slug.to_string()));
            datasets.retain(|dataset| dataset.hardware.slug == wanted);
            if datasets.is_empty() {
                bail!("--hardware-name: got {wanted}, expected what there are timings of: {found}");
            }
        }
        self.keep_op(datasets)
    }

    /// Keeps the timings of the operator that the filter names, on any hardware.
    pub(crate) fn keep_op(&self, mut datasets: Vec<Dataset>) -> anyhow::Result<Vec<Dataset>> {
        if let Some(wanted) = self.op_name {
            let solutions = datasets.iter().flat_map(|dataset| &dataset.solutions);
            let found = names(solutions.map(|solution| solution.problem.op.to_string()));
            for dataset in &mut datasets {
                dataset.solutions.retain(|solution| solution.problem.op == wanted);
            }
            datasets.retain(|dataset| !dataset.solutions.is_empty());
            if datasets.is_empty() {
                bail!("--op-name: got {wanted}, expected what there are timings of: {found}");
            }
        }
        Ok(datasets)
    }

    /// The hardware that the filter names, as the user wrote it.
    pub(crate) fn hardware_name(&self) -> Option<&str> {
        self.hardware_name.as_deref()
    }

    pub(crate) fn op_name(&self) -> Option<Op> {
        self.op_name
    }
}

/// The distinct names, in alphabetical order.
fn names(names: impl Iterator<Item = String>) -> String {
    let names: std::collections::BTreeSet<String> = names.collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Adds facts of hardware where they are missing: torch-diode's files state only a name, and the
/// catalogue lacks most CPUs. The facts come from `known`, if that is the same hardware.
pub(crate) fn describe(
    datasets: &mut [Dataset],
    known: impl FnOnce() -> anyhow::Result<Hardware>,
) -> anyhow::Result<()> {
    if datasets.iter().all(|dataset| dataset.hardware.facts.is_some()) {
        return Ok(());
    }
    let known = known()?;
    for dataset in datasets {
        if dataset.hardware.facts.is_none() && dataset.hardware.slug == known.slug {
            dataset.hardware = known.clone();
        }
    }
    Ok(())
}
