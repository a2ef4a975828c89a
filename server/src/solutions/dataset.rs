use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, Dataset, Provenance};

use super::stored::{Damaged, StoredSolutions};

/// Everything stored for a hardware as one dataset, in the order in which it
/// arrived. Long work: not for an async thread.
pub(crate) fn rebuild(hardware: Hardware, stored: &StoredSolutions) -> Result<Dataset, Damaged> {
    let mut configs = ConfigDictionary::default();
    let mut solutions = Vec::with_capacity(stored.solutions.len());
    for (row, decoded) in stored.solutions.iter().zip(stored.decode()?) {
        let problem = stored.problems.get(&row.problem).cloned();
        let problem =
            problem.ok_or_else(|| Damaged::new("solution", format_args!("no problem {}", row.problem)))?;
        solutions.push(decoded.into_solution(problem, row.method, &mut configs));
    }
    Ok(Dataset { hardware, provenance: Provenance::default(), configs, solutions })
}
