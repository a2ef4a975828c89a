//! Checks an upload like a server, without a server.

use diode_api::SetApart;
use diode_api::upload_check::UploadCheck;
use diode_core::ids::HardwareSlug;
use diode_core::{Dataset, Invalid};
use serde::Serialize;

/// What a file holds for one kind of hardware.
#[derive(Debug, Serialize)]
pub(crate) struct Rehearsed {
    pub(crate) hardware: HardwareSlug,
    pub(crate) problems: usize,
    pub(crate) timings: usize,
    pub(crate) failures: usize,
    /// Timings that a server would not store, by reason.
    pub(crate) set_apart: Vec<SetApart>,
}

/// Judges timings by the facts that come with `diode`. A real server may have facts of more hardware, and may accept
/// simulated times. An error if nothing would be stored.
pub(crate) fn rehearse(datasets: &[Dataset]) -> Result<Vec<Rehearsed>, Invalid> {
    let rehearsed = datasets.iter().map(one).collect::<Result<Vec<_>, _>>()?;
    let apart = rehearsed.iter().flat_map(|of| &of.set_apart).map(|part| part.timings).sum::<u64>();
    if rehearsed.iter().map(|of| of.timings as u64).sum::<u64>() > apart {
        return Ok(rehearsed);
    }
    let given = match rehearsed.iter().find_map(|of| of.set_apart.first()) {
        Some(part) => format!("no time that can be true; {}", part.example),
        None => "no timings at all".to_owned(),
    };
    Err(Invalid::new("upload", given, "a dataset with at least one measured problem"))
}

fn one(dataset: &Dataset) -> Result<Rehearsed, Invalid> {
    let facts = dataset.hardware.listed().and_then(|listed| listed.facts);
    let contents = UploadCheck::default().dataset(dataset, facts.as_ref(), |_| {})?;
    Ok(Rehearsed {
        hardware: dataset.hardware.slug.clone(),
        problems: dataset.solutions.len(),
        timings: dataset.timings(),
        failures: dataset.failures(),
        set_apart: contents.set_apart,
    })
}
