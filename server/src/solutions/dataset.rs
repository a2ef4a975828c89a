use diode_core::hardware::Hardware;
use diode_core::{ConfigDictionary, Dataset, Provenance};

use super::stored::{Damaged, StoredSolutions};

/// The dataset, and why some solutions are left out of it.
pub(crate) struct Rebuilt {
    pub(crate) dataset: Dataset,
    pub(crate) left_out: Vec<Damaged>,
}

/// Everything stored for a hardware as one dataset, in the order in which it arrived. A damaged row loses
/// only its own solution. This takes long, so it must not run on an async thread.
pub(crate) fn rebuild(hardware: Hardware, stored: StoredSolutions) -> Rebuilt {
    let mut configs = ConfigDictionary::default();
    let mut solutions = Vec::with_capacity(stored.solutions.len());
    let decoded = stored.decode();
    let mut left_out = decoded.damaged;
    for (row, columns) in decoded.solutions {
        match stored.problems.get(&row.problem) {
            Some(problem) => {
                solutions.push(columns.into_solution(problem.clone(), row.method, &mut configs));
            }
            None => left_out.push(Damaged::new("solution", format_args!("no problem {}", row.problem))),
        }
    }
    left_out.extend(stored.damaged);
    for damaged in &left_out {
        tracing::error!(hardware = %hardware.slug, "left out: {damaged}");
    }
    let dataset = Dataset { hardware, provenance: Provenance::default(), configs, solutions };
    Rebuilt { dataset, left_out }
}
