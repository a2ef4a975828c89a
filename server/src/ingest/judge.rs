//! Checks a decoded upload and encodes it into rows. Checks that need no store are in
//! `diode_api::upload_check`.

use std::collections::BTreeMap;

use diode_api::upload_check::UploadCheck;
use diode_api::{HardwareReceipt, LibraryVersion, UploadLicence};
use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{AccountId, Digest, HardwareSlug, UploadId};
use diode_core::{Dataset, Invalid, Provenance, Solution};
use diode_formats::{Decoded, SolutionDigests};

use crate::solutions::Encoder;
use crate::store::{KnownHardware, NewSolution, NewUpload};

/// What is known of an upload beside its timings.
pub struct UploadFacts {
    pub id: UploadId,
    pub digest: Digest,
    pub bytes: u64,
    pub received_at: String,
    /// The sender; `None` if the upload was sent without an account.
    pub account: Option<AccountId>,
    pub licence: UploadLicence,
}

/// Makes rows of an upload. Fails only if nothing of the upload can be accepted. Timings that cannot be true
/// are left out, and the receipt says why. `known` is the hardware that the store already has.
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
    let mut check = UploadCheck::default();
    for dataset in &decoded.datasets {
        let known = known.get(&dataset.hardware.slug);
        let given = as_known(&dataset.hardware, known);
        hardware.entry(given.slug.clone()).or_insert_with(|| describe(&given, known));
        let facts = vouched_for(&given, known);
        let receipt = add(&mut check, &mut upload, &hardware[&given.slug], facts.as_ref(), known, dataset)?;
        upload.receipts.push(receipt);
    }
    check.end()?;
    // The hardware is in the order of slugs, so that two uploads never wait for each other's locks.
    upload.hardware = hardware.into_values().collect();
    Ok(upload)
}

/// The hardware of a file. If it was merged into another hardware, the result has the name of that one.
fn as_known(given: &Hardware, known: Option<&KnownHardware>) -> Hardware {
    match known {
        Some(KnownHardware { hardware, .. }) if hardware.slug != given.slug => {
            Hardware { facts: given.facts, ..hardware.clone() }
        }
        _ => given.clone(),
    }
}

/// The description of the hardware to store. It comes from the catalogue, else from an administrator's
/// confirmation, else from the file. The store keeps the first description.
fn describe(given: &Hardware, known: Option<&KnownHardware>) -> Hardware {
    if let Some(listed) = given.listed() {
        return listed;
    }
    match known {
        Some(KnownHardware { hardware, confirmed: true }) => hardware.clone(),
        Some(KnownHardware { hardware, .. }) => Hardware { facts: given.facts, ..hardware.clone() },
        None => given.clone(),
    }
}

/// The facts by which times are judged. An upload's own facts are not used: they could lower the floor for its
/// own times, or raise the floor for the times of others.
fn vouched_for(given: &Hardware, known: Option<&KnownHardware>) -> Option<Facts> {
    match (given.listed(), known) {
        (Some(listed), _) => listed.facts,
        (None, Some(KnownHardware { hardware, confirmed: true })) => hardware.facts,
        (None, _) => None,
    }
}

/// Checks a dataset and makes rows of it.
fn add(
    check: &mut UploadCheck,
    upload: &mut NewUpload,
    hardware: &Hardware,
    facts: Option<&Facts>,
    known: Option<&KnownHardware>,
    dataset: &Dataset,
) -> Result<HardwareReceipt, Invalid> {
    let mut rows = Rows {
        hardware: &hardware.slug,
        encoder: Encoder::new(&dataset.configs),
        // The digests are made with the slug in the file, so that the same timings have the same digest after a
        // merge, too.
        digests: SolutionDigests::new(&dataset.hardware.slug, &dataset.configs),
    };
    let contents = check.dataset(dataset, facts, |kept| rows.add(upload, &kept))?;
    let before = hardware.listed().or_else(|| known.map(|known| known.hardware.clone()));
    let before = before.and_then(|before| before.facts);
    let facts_differ = matches!((before, dataset.hardware.facts), (Some(a), Some(b)) if a != b);
    let Provenance { node, tool, collected_at } = &dataset.provenance;
    Ok(HardwareReceipt {
        slug: hardware.slug.clone(),
        name: contents.name,
        problems: contents.problems,
        timings: contents.timings,
        failures: contents.failures,
        set_apart: contents.set_apart,
        confirmed: facts.is_some(),
        facts_differ,
        library: LibraryVersion::of(&dataset.provenance),
        driver: node.get("driver").map(String::as_str).map(brief),
        tool: tool.as_deref().map(brief),
        collected_at: collected_at.as_deref().map(brief),
    })
}

/// The start of a text, short enough for one line. Files may have longer texts.
fn brief(text: &str) -> String {
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
