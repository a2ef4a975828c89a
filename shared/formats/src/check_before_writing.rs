//! Checks datasets before they are written. A file must not contradict itself, and readers must
//! accept it.

use diode_core::{Dataset, Provenance};

use crate::FormatError;
use crate::error_place::Place;
use crate::limits::{
    MAX_CONFIGS, MAX_DATASETS, MAX_NODE_FACTS, MAX_TEXT, MAX_TIMINGS_PER_FILE, MAX_TIMINGS_PER_PROBLEM,
};

pub(crate) fn check(datasets: &[Dataset]) -> Result<(), FormatError> {
    let timings = datasets.iter().map(|dataset| dataset.timings() + dataset.failures()).sum();
    within(&Place::default(), "datasets", datasets.len(), MAX_DATASETS)?;
    within(&Place::default(), "timings", timings, MAX_TIMINGS_PER_FILE)?;
    datasets.iter().try_for_each(check_dataset)
}

fn check_dataset(dataset: &Dataset) -> Result<(), FormatError> {
    let mut place = Place { hardware: Some(dataset.hardware.name.clone()), ..Place::default() };
    let inconsistent = |place: &Place, source| FormatError::Inconsistent { place: place.to_string(), source };
    dataset.hardware.validate().map_err(|source| inconsistent(&place, source))?;
    let longest_text = texts(&dataset.provenance).map(str::len).max().unwrap_or(0);
    within(&place, "configs", dataset.configs.len(), MAX_CONFIGS)?;
    within(&place, "facts of the node", dataset.provenance.node.len(), MAX_NODE_FACTS)?;
    within(&place, "bytes in one text of the provenance", longest_text, MAX_TEXT)?;
    for (number, solution) in (1..).zip(&dataset.solutions) {
        place.op = Some(solution.problem.op);
        place.problem = Some(number);
        solution.validate(&dataset.configs).map_err(|source| inconsistent(&place, source))?;
        within(&place, "timings", solution.configs.len(), MAX_TIMINGS_PER_PROBLEM)?;
        within(&place, "failures", solution.failures.len(), MAX_TIMINGS_PER_PROBLEM)?;
    }
    Ok(())
}

fn within(place: &Place, what: &'static str, given: usize, limit: usize) -> Result<(), FormatError> {
    if given <= limit {
        Ok(())
    } else {
        Err(FormatError::TooLarge { place: place.to_string(), what, given, limit })
    }
}

/// Checks the size of a provenance that was read from a file.
pub(crate) fn check_provenance(provenance: &Provenance) -> Result<(), String> {
    if provenance.node.len() > MAX_NODE_FACTS {
        return Err(format!("more than {MAX_NODE_FACTS} facts of the node"));
    }
    if texts(provenance).any(|text| text.len() > MAX_TEXT) {
        return Err(format!("a text of more than {MAX_TEXT} bytes in the provenance"));
    }
    Ok(())
}

/// Every text of a provenance, including the names of facts.
fn texts(provenance: &Provenance) -> impl Iterator<Item = &str> {
    let Provenance { tool, collected_at, node } = provenance;
    let facts = node.iter().flat_map(|(name, value)| [name, value]);
    tool.iter().chain(collected_at).chain(facts).map(String::as_str)
}
