//! Checks a decoded upload and encodes it into rows.

use std::collections::BTreeMap;

use diode_core::api::HardwareReceipt;
use diode_core::hardware::{self, Hardware};
use diode_core::ids::{AccountId, Digest, HardwareSlug, UploadId};
use diode_core::{Dataset, Invalid, Solution};
use diode_formats::{Decoded, solution_digest};

use super::physics;
use crate::solutions::encode;
use crate::store::{NewSolution, NewUpload};

/// What is known of the bytes that were decoded.
pub struct Source {
    pub id: UploadId,
    pub digest: Digest,
    pub bytes: u64,
    pub received_at: String,
    /// Whose it is; `None` if it was sent without an account.
    pub account: Option<AccountId>,
}

/// Makes rows of an upload, or says why it cannot be accepted. `known` is the
/// hardware that the store has seen before.
pub fn prepare(
    source: Source,
    decoded: Decoded,
    known: &BTreeMap<HardwareSlug, Hardware>,
) -> Result<NewUpload, Invalid> {
    let Source { id, digest, bytes, received_at, account } = source;
    let format = decoded.format.to_string();
    let mut hardware: BTreeMap<HardwareSlug, Hardware> = BTreeMap::new();
    let mut upload = NewUpload {
        id,
        digest,
        bytes,
        format,
        received_at,
        account,
        receipts: Vec::new(),
        hardware: Vec::new(),
        problems: BTreeMap::new(),
        config_lists: BTreeMap::new(),
        solutions: Vec::new(),
    };
    for dataset in &decoded.datasets {
        let slug = &dataset.hardware.slug;
        if !hardware.contains_key(slug) {
            hardware.insert(slug.clone(), trusted(&dataset.hardware, known.get(slug))?);
        }
        add_dataset(&mut upload, &hardware[slug], dataset)?;
    }
    if upload.solutions.is_empty() {
        return Err(Invalid::new(
            "upload",
            "no timings at all",
            "a dataset with at least one measured problem",
        ));
    }
    // In the order of slugs, so that two uploads never wait for each other's locks.
    upload.hardware = hardware.into_values().collect();
    Ok(upload)
}

/// The description of the hardware that counts: that of the catalogue, else the
/// first that was uploaded. Otherwise an upload could lower the floor that its own
/// times are checked against.
fn trusted(given: &Hardware, known: Option<&Hardware>) -> Result<Hardware, Invalid> {
    given.validate()?;
    if let Some(listed) = hardware::find(given.slug.as_str()).filter(|listed| listed.slug == given.slug) {
        return Ok(listed);
    }
    Ok(match known {
        Some(known) if known.facts.is_some() => known.clone(),
        Some(known) => Hardware { facts: given.facts, ..known.clone() },
        None => given.clone(),
    })
}

fn add_dataset(upload: &mut NewUpload, hardware: &Hardware, dataset: &Dataset) -> Result<(), Invalid> {
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
        physics::check(hardware.facts.as_ref(), solution, &dataset.configs)?;
        add_solution(upload, hardware, dataset, solution);
    }
    upload.receipts.push(HardwareReceipt {
        slug: hardware.slug.clone(),
        name: dataset.hardware.name.clone(),
        problems: dataset.solutions.len() as u64,
        timings: dataset.timings() as u64,
        failures: dataset.failures() as u64,
    });
    Ok(())
}

fn add_solution(upload: &mut NewUpload, hardware: &Hardware, dataset: &Dataset, solution: &Solution) {
    let (list, columns) = encode(solution, &dataset.configs);
    let problem = solution.problem.id();
    upload.solutions.push(NewSolution {
        digest: solution_digest(&hardware.slug, solution, &dataset.configs),
        hardware: hardware.slug.clone(),
        problem: problem.clone(),
        method: solution.method,
        config_list: list.digest.clone(),
        columns,
        timings: solution.configs.len() as u64,
        failures: solution.failures.len() as u64,
        best_ns: solution.times.fastest().map(|row| solution.times.nanos(row).0),
    });
    upload.problems.entry(problem).or_insert_with(|| solution.problem.clone());
    upload.config_lists.entry(list.digest).or_insert(list.bytes);
}
