//! Checks a decoded upload and encodes it into rows. Which times cannot be true is decided in
//! `diode_core::physics`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use diode_core::api::{HardwareReceipt, LibraryVersion, SetApart, SetApartReason, UploadLicence};
use diode_core::hardware::{self, Facts, Hardware};
use diode_core::ids::{AccountId, Digest, HardwareSlug, UploadId};
use diode_core::{Dataset, Invalid, Solution, physics};
use diode_formats::{Decoded, SolutionDigests};

use crate::solutions::Encoder;
use crate::store::{KnownHardware, NewSolution, NewUpload};

/// What is known of the bytes that were decoded.
pub struct UploadFacts {
    pub id: UploadId,
    pub digest: Digest,
    pub bytes: u64,
    pub received_at: String,
    /// Whose it is; `None` if it was sent without an account.
    pub account: Option<AccountId>,
    pub licence: UploadLicence,
}

/// Makes rows of an upload, or says why it cannot be accepted: only if nothing of it can. Timings that
/// cannot be true are set apart, and the receipt says why. `known` is the hardware that the store has seen
/// before.
pub fn prepare(
    source: UploadFacts,
    decoded: Decoded,
    known: &BTreeMap<HardwareSlug, KnownHardware>,
) -> Result<NewUpload, Invalid> {
    let UploadFacts { id, digest, bytes, received_at, account, licence } = source;
    let format = decoded.format.to_string();
    let mut hardware: BTreeMap<HardwareSlug, Hardware> = BTreeMap::new();
    let mut upload = NewUpload {
        id,
        digest,
        bytes,
        format,
        received_at,
        account,
        licence,
        lease: None,
        receipts: Vec::new(),
        hardware: Vec::new(),
        problems: BTreeMap::new(),
        config_lists: BTreeMap::new(),
        solutions: Vec::new(),
    };
    let mut checked = CheckedSoFar::default();
    for dataset in &decoded.datasets {
        dataset.hardware.validate()?;
        let known = known.get(&dataset.hardware.slug);
        let given = as_known(&dataset.hardware, known);
        hardware.entry(given.slug.clone()).or_insert_with(|| describe(&given, known));
        let facts = vouched_for(&given, known);
        checked.add(&mut upload, &hardware[&given.slug], facts.as_ref(), known, dataset)?;
    }
    if upload.solutions.is_empty() {
        return Err(checked.first_fault.unwrap_or_else(|| {
            Invalid::new("upload", "no timings at all", "a dataset with at least one measured problem")
        }));
    }
    upload.receipts = checked.receipts;
    // In the order of slugs, so that two uploads never wait for each other's locks.
    upload.hardware = hardware.into_values().collect();
    Ok(upload)
}

/// The hardware of a file, under the name of the one that it was merged into, if it was.
fn as_known(given: &Hardware, known: Option<&KnownHardware>) -> Hardware {
    match known {
        Some(KnownHardware { hardware, .. }) if hardware.slug != given.slug => {
            Hardware { facts: given.facts, ..hardware.clone() }
        }
        _ => given.clone(),
    }
}

/// The description of the hardware to store: that of the catalogue, else one that an administrator has
/// confirmed, else what the file says; the store keeps the first.
fn describe(given: &Hardware, known: Option<&KnownHardware>) -> Hardware {
    if let Some(listed) = listed(given) {
        return listed;
    }
    match known {
        Some(KnownHardware { hardware, confirmed: true }) => hardware.clone(),
        Some(KnownHardware { hardware, .. }) => Hardware { facts: given.facts, ..hardware.clone() },
        None => given.clone(),
    }
}

fn listed(given: &Hardware) -> Option<Hardware> {
    hardware::find(given.slug.as_str()).filter(|listed| listed.slug == given.slug)
}

/// The facts that times are judged by. What an upload says of its own hardware is none of them: it could
/// lower the floor that its own times are checked against, or raise that of others.
fn vouched_for(given: &Hardware, known: Option<&KnownHardware>) -> Option<Facts> {
    match (listed(given), known) {
        (Some(listed), _) => listed.facts,
        (None, Some(KnownHardware { hardware, confirmed: true })) => hardware.facts,
        (None, _) => None,
    }
}

/// What was checked so far.
#[derive(Default)]
struct CheckedSoFar {
    receipts: Vec<HardwareReceipt>,
    first_fault: Option<Invalid>,
}

impl CheckedSoFar {
    fn add(
        &mut self,
        upload: &mut NewUpload,
        hardware: &Hardware,
        facts: Option<&Facts>,
        known: Option<&KnownHardware>,
        dataset: &Dataset,
    ) -> Result<(), Invalid> {
        for config in dataset.configs.iter() {
            config.validate()?;
        }
        let mut set_apart: BTreeMap<SetApartReason, SetApart> = BTreeMap::new();
        let (mut problems, mut timings, mut failures) = (0, 0, 0);
        let mut rows = Rows {
            hardware: &hardware.slug,
            encoder: Encoder::new(&dataset.configs),
            // By the name that the file has, so that the same timings are the same after a merge, too.
            digests: SolutionDigests::new(&dataset.hardware.slug, &dataset.configs),
        };
        for solution in &dataset.solutions {
            solution.validate(&dataset.configs)?;
            if solution.configs.is_empty() && solution.failures.is_empty() {
                return Err(Invalid::new(
                    format!("timings of {} {}", solution.problem.op, solution.problem.dims()),
                    "none",
                    "at least one timing or failure; leave problems out that were not measured",
                ));
            }
            let Some(kept) = self.keep(facts, solution, dataset, &mut set_apart) else { continue };
            rows.add(upload, &kept);
            problems += 1;
            timings += kept.configs.len() as u64;
            failures += kept.failures.len() as u64;
        }
        let before = listed(hardware).or_else(|| known.map(|known| known.hardware.clone()));
        let before = before.and_then(|before| before.facts);
        let facts_differ = matches!((before, dataset.hardware.facts), (Some(a), Some(b)) if a != b);
        self.receipts.push(HardwareReceipt {
            slug: hardware.slug.clone(),
            name: dataset.hardware.name.clone(),
            problems,
            timings,
            failures,
            set_apart: set_apart.into_values().collect(),
            confirmed: facts.is_some(),
            facts_differ,
            library: LibraryVersion::of(&dataset.provenance),
            driver: dataset.provenance.node.get("driver").map(brief),
            tool: dataset.provenance.tool.as_ref().map(brief),
            collected_at: dataset.provenance.collected_at.as_ref().map(brief),
        });
        Ok(())
    }

    /// The solution without what is set apart; `None` if nothing is left.
    fn keep<'s>(
        &mut self,
        facts: Option<&Facts>,
        solution: &'s Solution,
        dataset: &Dataset,
        set_apart: &mut BTreeMap<SetApartReason, SetApart>,
    ) -> Option<Cow<'s, Solution>> {
        let faults = physics::faults(facts, solution, &dataset.configs);
        if faults.is_empty() {
            return Some(Cow::Borrowed(solution));
        }
        let rows: Vec<usize> = (0..solution.configs.len()).filter(|row| !faults.contains_key(row)).collect();
        for (reason, error) in faults.into_values() {
            let example = || SetApart { reason, timings: 0, example: error.to_string() };
            set_apart.entry(reason).or_insert_with(example).timings += 1;
            self.first_fault.get_or_insert(error);
        }
        // Failures alone say nothing where no time can be true.
        (!rows.is_empty()).then(|| Cow::Owned(solution.select(&rows)))
    }
}

/// As much of a text as fits a line; files hold longer ones.
fn brief(text: &String) -> String {
    text.chars().take(80).collect()
}

/// Makes rows of the solutions of a dataset.
struct Rows<'d> {
    hardware: &'d HardwareSlug,
    encoder: Encoder<'d>,
    digests: SolutionDigests<'d>,
}

impl Rows<'_> {
    fn add(&mut self, upload: &mut NewUpload, solution: &Solution) {
        let (list, columns) = self.encoder.encode(solution);
        let problem = solution.problem.id();
        upload.solutions.push(NewSolution {
            digest: self.digests.of(solution),
            hardware: self.hardware.clone(),
            problem: problem.clone(),
            method: solution.method,
            config_list: list.digest.clone(),
            columns,
            timings: solution.configs.len() as u64,
            failures: solution.failures.len() as u64,
            best_ns: solution.times.fastest().map(|row| solution.times.nanos(row).0),
        });
        upload.problems.entry(problem).or_insert_with(|| solution.problem.clone());
        if !upload.config_lists.contains_key(&list.digest) {
            upload.config_lists.insert(list.digest.clone(), list.bytes.clone());
        }
    }
}
