//! From the bytes of an upload to durable rows: decode, check, store. `diode_api::upload_check` has the
//! rules, since the dashboard and the command line check by them, too.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use diode_api::upload_check::{UploadCheck, check_problems};
use diode_api::{HardwareReceipt, LibraryVersion, Receipt, UploadLicence};
use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{AccountId, Digest, HardwareSlug, UploadId};
use diode_core::{Dataset, Invalid, Provenance, Solution};
use diode_formats::{Decoded, FormatError, SolutionDigests};
use tokio::time::timeout;

use crate::backend::{Backend, NoRoom};
use crate::blobs::{BlobError, BlobKind};
use crate::store::{ForLease, KnownHardware, NewSolution, NewUpload, Now, StoreError};
use crate::uploads::solutions::Encoder;
use crate::uploads::storing::Turn;

/// How long the answer to a failed upload waits until the upload's file is removed. The database may be busy or away.
const FORGETTING: Duration = Duration::from_secs(2);

/// Why an upload was not stored. Nothing of a refused upload is kept.
#[derive(Debug, thiserror::Error)]
pub enum IngestError {
    /// The bytes are not a dataset.
    #[error(transparent)]
    Format(#[from] FormatError),

    /// The bytes are a dataset that must not be stored.
    #[error("{0}")]
    Refused(Invalid),

    /// The quota for files is used up.
    #[error("upload: {0}")]
    Full(#[from] NoRoom),

    #[error(transparent)]
    Store(#[from] StoreError),

    #[error(transparent)]
    Blob(#[from] BlobError),

    #[error("the upload could not be processed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Stores an upload. Once this returns a receipt, everything is durable.
///
/// The upload belongs to `account`, if there is one, and has the licence that Diode states. Sending the same bytes
/// again changes nothing and gives the same receipt.
pub async fn ingest(
    backend: &Backend,
    bytes: Bytes,
    account: Option<AccountId>,
) -> Result<Receipt, IngestError> {
    let sender = Sender { account, licence: UploadLicence::stated() };
    let mut turn = backend.storing.turn().await;
    loop {
        match ingest_for(backend, &turn, bytes.clone(), sender.clone(), None).await? {
            Some(receipt) => return Ok(receipt),
            None => turn.alone().await,
        }
    }
}

/// The sender of an upload.
#[derive(Debug, Clone)]
pub struct Sender {
    /// `None` without an account.
    pub account: Option<AccountId>,
    /// The licence under which the upload is given.
    pub licence: UploadLicence,
}

/// Stores an upload, which may be the result of a lease. If the same bytes come again, stores the terms that the
/// sender has agreed to since.
///
/// `None` if there are more timings than may be decoded beside another upload. Nothing has been stored then, and the
/// caller can drop the bytes until the turn is alone.
pub async fn ingest_for(
    backend: &Backend,
    turn: &Turn,
    bytes: Bytes,
    sender: Sender,
    lease: Option<ForLease>,
) -> Result<Option<Receipt>, IngestError> {
    let Sender { account, licence } = sender;
    let received_at = Now::read().rfc3339();
    let (bytes, digest, id) = tokio::task::spawn_blocking(move || {
        let digest = Digest::of(&bytes);
        let id = UploadId::of_digest(&digest);
        (bytes, digest, id)
    })
    .await?;
    if let Some(receipt) = backend.store.receipt(&id).await? {
        if account.is_none() && licence.terms.is_none() {
            return Ok(Some(receipt));
        }
        if backend.store.add_sender(&id, account.as_ref(), &licence).await?
            && let Some(receipt) = backend.store.receipt(&id).await?
        {
            return Ok(Some(receipt));
        }
    }
    backend.room_for(bytes.len()).await??;
    let Some(decoded) = decode(turn, &bytes).await? else { return Ok(None) };
    check_problems(&decoded.datasets).map_err(IngestError::Refused)?;
    let mut known = BTreeMap::new();
    for dataset in &decoded.datasets {
        backend.refuse_simulated(&dataset.hardware).map_err(IngestError::Refused)?;
        let slug = &dataset.hardware.slug;
        if let Some(hardware) = backend.store.known_hardware(slug).await? {
            known.insert(slug.clone(), hardware);
        }
    }
    let size = bytes.len() as u64;
    let source = UploadFacts { id, digest: digest.clone(), bytes: size, received_at, account, licence };
    let mut upload = tokio::task::spawn_blocking(move || prepare(source, decoded, &known))
        .await?
        .map_err(IngestError::Refused)?;
    upload.lease = lease;
    // The blob is stored first, since after a crash no row may name a missing blob.
    backend.blobs.put(BlobKind::Upload, &digest, bytes.clone()).await?;
    let receipt = match backend.store.store_upload(&upload).await {
        Ok(receipt) => receipt,
        Err(error) => {
            // If the file stayed, each upload that does not fit on a full disk would fill the disk further. The file
            // is removed before the answer, so that it is gone when the client tries again.
            let forgotten = timeout(FORGETTING, backend.forget(vec![(BlobKind::Upload, digest)]));
            if !matches!(forgotten.await, Ok(Ok(()))) {
                tracing::warn!("the file of an upload that could not be stored stays until it is swept");
            }
            return Err(error.into());
        }
    };
    // Needed if `Backend::forget` has just removed the file of an upload with the same bytes.
    backend.restore(BlobKind::Upload, &digest, bytes).await?;
    Ok(Some(receipt))
}

/// `None` if there are more timings than the turn allows, but a turn that is alone may allow them.
async fn decode(turn: &Turn, bytes: &Bytes) -> Result<Option<Decoded>, IngestError> {
    let (raw, timings) = (bytes.clone(), turn.timings());
    match tokio::task::spawn_blocking(move || diode_formats::decode_within(&raw, timings)).await? {
        Ok(decoded) => Ok(Some(decoded)),
        Err(error) if !turn.is_alone() && error.has_more_timings_than(timings) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

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
