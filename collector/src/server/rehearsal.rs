//! Checks an upload as a server would, without a server.

use std::collections::BTreeMap;

use diode_core::api::{SetApart, SetApartReason};
use diode_core::hardware::find;
use diode_core::ids::HardwareSlug;
use diode_core::{Dataset, Invalid, physics};
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

/// Judges timings by the facts that come with `diode`. A server may know of more hardware, and may take simulated times.
/// Fails where nothing would be stored.
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
    dataset.hardware.validate()?;
    let slug = &dataset.hardware.slug;
    let facts = find(slug.as_str()).filter(|listed| listed.slug == *slug).and_then(|listed| listed.facts);
    let mut set_apart: BTreeMap<SetApartReason, SetApart> = BTreeMap::new();
    for config in dataset.configs.iter() {
        config.validate()?;
    }
    for solution in &dataset.solutions {
        solution.validate(&dataset.configs)?;
        if solution.configs.is_empty() && solution.failures.is_empty() {
            return Err(Invalid::new(
                format!("timings of {} {}", solution.problem.op, solution.problem.dims()),
                "none",
                "at least one timing or failure; leave problems out that were not measured",
            ));
        }
        for (reason, error) in physics::faults(facts.as_ref(), solution, &dataset.configs).into_values() {
            let example = || SetApart { reason, timings: 0, example: error.to_string() };
            set_apart.entry(reason).or_insert_with(example).timings += 1;
        }
    }
    Ok(Rehearsed {
        hardware: slug.clone(),
        problems: dataset.solutions.len(),
        timings: dataset.timings(),
        failures: dataset.failures(),
        set_apart: set_apart.into_values().collect(),
    })
}
