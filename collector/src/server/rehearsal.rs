//! What would become of an upload: the checks of a server, without one.

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

/// Judges timings by the facts that come with `diode`. A server may know of more hardware.
pub(crate) fn rehearse(datasets: &[Dataset]) -> Result<Vec<Rehearsed>, Invalid> {
    datasets.iter().map(one).collect()
}

fn one(dataset: &Dataset) -> Result<Rehearsed, Invalid> {
    dataset.hardware.validate()?;
    let slug = &dataset.hardware.slug;
    let facts = find(slug.as_str()).filter(|listed| listed.slug == *slug).and_then(|listed| listed.facts);
    let mut set_apart: BTreeMap<SetApartReason, SetApart> = BTreeMap::new();
    for solution in &dataset.solutions {
        solution.validate(&dataset.configs)?;
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
