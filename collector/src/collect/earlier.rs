//! Reads what an earlier collection left, and checks that it is of this node.

use std::path::Path;

use anyhow::{Context as _, bail};
use diode_core::Dataset;
use diode_core::hardware::Hardware;

/// The dataset of a file that a collection goes on with.
pub(super) fn read(path: &Path, hardware: &Hardware) -> anyhow::Result<Dataset> {
    let mut datasets = diode_formats::read_file(path)
        .context("cannot resume; move the file away or choose another --output")?
        .datasets;
    let (Some(mut dataset), true) = (datasets.pop(), datasets.is_empty()) else {
        bail!("{}: expected a dataset of one hardware to resume", path.display());
    };
    check_node(path, &dataset.hardware, hardware)?;
    if dataset.hardware.facts.is_none() {
        dataset.hardware = hardware.clone();
    }
    Ok(dataset)
}

/// Refuses timings of another node: one file never mixes timings of two nodes.
pub(super) fn check_node(path: &Path, given: &Hardware, hardware: &Hardware) -> anyhow::Result<()> {
    let cores = |hardware: &Hardware| hardware.facts.map(|facts| facts.sms);
    // torch-diode's formats hold only the name of a node's hardware.
    let same_cores = given.facts.is_none() || cores(given) == cores(hardware);
    if given.slug != hardware.slug || !same_cores {
        let words = |h: &Hardware| match cores(h) {
            Some(cores) => format!("{} with {cores} cores", h.slug),
            None => h.slug.to_string(),
        };
        bail!(
            "{}: got timings of {}, expected timings of this node ({}) to resume; choose another --output",
            path.display(),
            words(given),
            words(hardware)
        );
    }
    Ok(())
}
