//! Puts stored solutions together into a dataset again.

use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, Dataset, Provenance};

use crate::store::{PackedSolutions, StoreError, StoreResult};

/// Everything stored for a hardware, in the order in which it arrived. Long
/// work: not for an async task.
pub(crate) fn rebuild(hardware: Hardware, packed: &PackedSolutions) -> StoreResult<Dataset> {
    let mut configs = ConfigDictionary::default();
    let mut solutions = Vec::with_capacity(packed.solutions.len());
    for (id, method, measured) in packed.unpack()? {
        let problem = packed.problems.get(&id).cloned();
        let problem = problem.ok_or_else(|| StoreError::damaged("solution")(format!("no problem {id}")))?;
        solutions.push(measured.into_solution(problem, method, &mut configs));
    }
    Ok(Dataset { hardware, provenance: Provenance::default(), configs, solutions })
}
