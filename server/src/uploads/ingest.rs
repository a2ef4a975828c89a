//! From the bytes of an upload to durable rows: wait for a turn, decode, check, store. `diode_api::upload_check` has the
//! rules, since the dashboard and the command line check by them, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use diode_api::upload_check::{UploadCheck, check_problems};
use diode_api::{HardwareReceipt, LibraryVersion, MAX_UPLOAD_TIMINGS, Receipt, Standing, UploadLicence};
use diode_core::hardware::{Facts, Hardware};
use diode_core::ids::{AccountId, Digest, HardwareSlug, UploadId};
use diode_core::{Config, DType, Dataset, Invalid, Provenance, Solution};
use diode_formats::{Decoded, FormatError, SolutionDigests};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout, timeout_at};

use crate::backend::Backend;
use crate::blobs::{BlobError, BlobKind};
use crate::store::{ForLease, KnownHardware, NewUpload, Now, StoreError, StoreResult};
use crate::uploads::solutions::{Encoder, StoredSolution};

/// The quota for files is used up.
#[derive(Debug, thiserror::Error)]
#[error(
    "the server keeps at most {} MB of files and has {} MB; its operator may raise max_stored_mb",
    limit / 1_000_000, stored / 1_000_000
)]
pub struct NoRoom {
    stored: u64,
    limit: u64,
}

impl Backend {
    /// Fails if a file of this size does not fit in the quota.
    pub(crate) async fn room_for(&self, bytes: usize) -> StoreResult<Result<(), NoRoom>> {
        let (stored, limit) = (self.store.stored_bytes().await?, self.max_stored);
        let fits = stored.saturating_add(bytes as u64) <= limit;
        Ok(if fits { Ok(()) } else { Err(NoRoom { stored, limit }) })
    }

    /// Fails for simulated hardware, unless this server accepts it.
    pub(crate) fn refuse_simulated(&self, hardware: &Hardware) -> Result<(), Invalid> {
        if self.accept_simulated || !hardware.is_simulated() {
            return Ok(());
        }
        Err(Invalid::new(
            "hardware",
            format_args!("`{}`, whose times are made up", hardware.slug),
            "real hardware; a server takes simulated times if it is started with --accept-simulated",
        ))
    }

    /// Stores a file again if it was [forgotten](Self::forget) just before the row that names it was added.
    pub(crate) async fn restore(
        &self,
        kind: BlobKind,
        digest: &Digest,
        bytes: Bytes,
    ) -> Result<(), BlobError> {
        match self.blobs.size(kind, digest).await? {
            Some(_) => Ok(()),
            None => self.blobs.put(kind, digest, bytes).await,
        }
    }
}

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
/// The upload belongs to `account`, and has the licence that Diode states. Without an account it is the operator's own.
/// Sending the same bytes again gives the same receipt.
pub async fn ingest(
    backend: &Backend,
    bytes: Bytes,
    account: Option<AccountId>,
) -> Result<Receipt, IngestError> {
    if account.is_none() && backend.store.removed_file(&Digest::of(&bytes)).await?.is_some() {
        backend.store.welcome_file(&Digest::of(&bytes)).await?;
    }
    let sender = Sender { vouched: account.is_none(), account, licence: UploadLicence::stated() };
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
    /// Whether the operator vouches for it: it is their own, or a release's.
    pub vouched: bool,
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
    let Sender { account, vouched, licence } = sender;
    let received_at = Now::read().rfc3339();
    let (bytes, digest, id) = tokio::task::spawn_blocking(move || {
        let digest = Digest::of(&bytes);
        let id = UploadId::of_digest(&digest);
        (bytes, digest, id)
    })
    .await?;
    if let Some(receipt) = backend.store.receipt(&id).await? {
        if vouched {
            backend.store.vouch_for_stored(&id).await?;
        }
        if account.is_none() && licence.terms.is_none() {
            return Ok(Some(receipt));
        }
        if backend.store.add_sender(&id, account.as_ref(), &licence).await?
            && let Some(receipt) = backend.store.receipt(&id).await?
        {
            return Ok(Some(receipt));
        }
    }
    if let Some(reason) = backend.store.removed_file(&digest).await? {
        let given = format_args!("a file that an administrator has deleted: {reason}");
        return Err(IngestError::Refused(Invalid::new("upload", given, "another file")));
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
    let source =
        UploadFacts { id, digest: digest.clone(), bytes: size, received_at, account, vouched, licence };
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
    pub vouched: bool,
    pub licence: UploadLicence,
}

/// Makes rows of an upload. Fails only if nothing of the upload can be accepted. Timings that cannot be true
/// are left out, and the receipt says why. `known` is the hardware that the store already has.
pub fn prepare(
    source: UploadFacts,
    decoded: Decoded,
    known: &BTreeMap<HardwareSlug, KnownHardware>,
) -> Result<NewUpload, Invalid> {
    let UploadFacts { id, digest, bytes, received_at, account, vouched, licence } = source;
    let format = decoded.format.to_string();
    let mut datasets = decoded.datasets;
    let mut hardware: BTreeMap<HardwareSlug, Hardware> = BTreeMap::new();
    let mut upload = NewUpload {
        id,
        digest,
        bytes,
        format,
        received_at,
        account,
        vouched,
        licence,
        lease: None,
        receipts: Vec::new(),
        hardware: Vec::new(),
        problems: BTreeMap::new(),
        config_lists: BTreeMap::new(),
        solutions: Vec::new(),
    };
    let mut check = UploadCheck::default();
    for dataset in &mut datasets {
        let known = known.get(&dataset.hardware.slug);
        let given = as_known(&dataset.hardware, known);
        hardware.entry(given.slug.clone()).or_insert_with(|| describe(&given, known));
        let facts = vouched_for(&given, known);
        name_library(dataset, facts.as_ref());
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

/// The facts by which times are judged. An upload's own facts are not among them: they could lower the floor for its
/// own times, or raise the floor for the times of others. Where nobody vouches, they bound its own times.
fn vouched_for(given: &Hardware, known: Option<&KnownHardware>) -> Option<Facts> {
    match (given.listed(), known) {
        (Some(listed), _) => listed.facts,
        (None, Some(KnownHardware { hardware, confirmed: true })) => hardware.facts,
        (None, _) => None,
    }
}

/// Gives the library one name for each problem: `allow_tf32` changes nothing if the problem's type or the hardware does not
/// round to TF32. Otherwise one kernel would stand on a board as two configs, and a copy of somebody's timings would have
/// another digest.
fn name_library(dataset: &mut Dataset, facts: Option<&Facts>) {
    let Some(rounding) = dataset.configs.iter().position(|config| *config == Config::RoundingLibrary) else {
        return;
    };
    let plain = dataset.configs.intern(Config::Library);
    let no_tf32 = facts.is_some_and(|facts| facts.peaks.tf32.is_none());
    for solution in &mut dataset.solutions {
        if no_tf32 || solution.problem.a_dtype != DType::Float32 {
            let failed = solution.failures.iter_mut().map(|failure| &mut failure.config);
            for config in solution.configs.iter_mut().chain(failed) {
                if config.0 as usize == rounding {
                    *config = plain;
                }
            }
        }
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
        let ((list, configs), unpacked, columns) = self.encoder.encode(solution);
        let problem = solution.problem.id();
        upload.solutions.push(StoredSolution {
            number: 0,
            digest: self.digests.of(solution),
            hardware: self.hardware.clone(),
            problem: problem.clone(),
            method: solution.method,
            contributor: None,
            vouched: false,
            since: None,
            standing: Standing::Counts,
            config_list: list.clone(),
            columns,
            unpacked: Some(unpacked),
            timings: solution.configs.len() as u64,
            failures: solution.failures.len() as u64,
            best_us: solution.times.fastest().map(|row| solution.times.nanos(row).micros().0),
        });
        upload.problems.entry(problem).or_insert_with(|| solution.problem.clone());
        if !upload.config_lists.contains_key(list) {
            upload.config_lists.insert(list.clone(), configs.clone());
        }
    }
}

/// How many uploads are stored at a time. Each takes memory for its bytes and, while it is decoded and stored, up to 32
/// bytes for each timing.
pub(crate) const AT_ONCE: u32 = 2;

/// The most timings of an upload that is decoded beside another one: three times the largest collection in
/// use.
const TIMINGS_BESIDE: usize = MAX_UPLOAD_TIMINGS / 4;

/// The time without an upload after which other work goes on. Uploads that arrive one after the other leave
/// shorter gaps.
const QUIET: Duration = Duration::from_millis(100);

/// The uploads that are being stored.
#[derive(Clone)]
pub struct Storing {
    uploads: Arc<watch::Sender<Uploads>>,
    turns: Arc<Semaphore>,
}

#[derive(Default)]
struct Uploads {
    under_way: usize,
    /// When an upload last ended.
    ended: Option<Instant>,
}

/// The turn of one upload, which lasts until it is dropped.
pub struct Turn {
    storing: Storing,
    // The semaphore is never closed, so this always gets a permit at last.
    permit: Option<OwnedSemaphorePermit>,
    alone: bool,
}

impl Default for Storing {
    fn default() -> Self {
        Self { uploads: Arc::default(), turns: Arc::new(Semaphore::new(AT_ONCE as usize)) }
    }
}

impl Storing {
    /// Waits until another upload may be decoded and stored.
    pub(crate) async fn turn(&self) -> Turn {
        self.uploads.send_modify(|uploads| uploads.under_way += 1);
        let mut turn = Turn { storing: self.clone(), permit: None, alone: false };
        turn.permit = Arc::clone(&self.turns).acquire_owned().await.ok();
        turn
    }

    /// Waits until no upload is being stored and no further upload begins, but at most for `longest`.
    pub(crate) async fn pause(&self, longest: Duration) {
        let mut uploads = self.uploads.subscribe();
        let quiet = async {
            // The sender lives as long as `self`, so the channel is never closed.
            loop {
                let none = uploads.wait_for(|uploads| uploads.under_way == 0).await;
                let Some(ended) = none.ok().and_then(|uploads| uploads.ended) else { return };
                let next = uploads.wait_for(|uploads| uploads.under_way > 0);
                if timeout_at(ended + QUIET, next).await.is_err() {
                    return;
                }
            }
        };
        let _ = timeout(longest, quiet).await;
    }
}

impl Turn {
    /// How many timings and failures may be decoded in this turn.
    pub(crate) fn timings(&self) -> usize {
        if self.alone { MAX_UPLOAD_TIMINGS } else { TIMINGS_BESIDE }
    }

    pub(crate) fn is_alone(&self) -> bool {
        self.alone
    }

    /// Waits until no other upload is being decoded. Then this upload may have as many timings as any upload
    /// may.
    pub(crate) async fn alone(&mut self) {
        // Two uploads that each kept their permit would deadlock.
        self.permit = None;
        self.permit = Arc::clone(&self.storing.turns).acquire_many_owned(AT_ONCE).await.ok();
        self.alone = true;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.storing.uploads.send_modify(|uploads| {
            uploads.under_way -= 1;
            uploads.ended = Some(Instant::now());
        });
    }
}

#[cfg(test)]
mod storing_tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    #[tokio::test]
    async fn what_can_wait_waits_for_uploads_but_not_for_ever() {
        let storing = Storing::default();
        storing.pause(LONG).await;
        let (first, second) = (storing.turn().await, storing.turn().await);
        storing.pause(Duration::from_millis(1)).await;
        let pausing = tokio::spawn({
            let storing = storing.clone();
            async move { storing.pause(LONG).await }
        });
        drop(first);
        tokio::time::sleep(3 * QUIET).await;
        assert!(!pausing.is_finished(), "one is still being stored");
        drop(second);
        pausing.await.unwrap();
    }

    #[tokio::test]
    async fn large_uploads_are_alone() {
        let storing = Storing::default();
        let (first, mut second) = (storing.turn().await, storing.turn().await);
        assert_eq!(second.timings(), TIMINGS_BESIDE);
        let alone = tokio::spawn(async move {
            second.alone().await;
            (second.is_alone(), second.timings())
        });
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert!(!alone.is_finished(), "another is being stored");
        drop(first);
        assert_eq!(alone.await.unwrap(), (true, MAX_UPLOAD_TIMINGS));
    }
}
