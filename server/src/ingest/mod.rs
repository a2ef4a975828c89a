//! From the bytes of an upload to durable rows: decode, check, store.

mod judge;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use diode_core::Invalid;
use diode_core::api::{Receipt, UploadLicence};
use diode_core::ids::{AccountId, Digest, UploadId};
use diode_core::upload_check::check_problems;
use diode_formats::{Decoded, FormatError};
use tokio::time::timeout;

pub use judge::{UploadFacts, prepare};

use crate::backend::{Backend, NoRoom};
use crate::blobs::{BlobError, BlobKind};
use crate::store::{ForLease, Now, StoreError};
use crate::storing::Turn;

/// How long a client waits for the file of its upload to be removed, where the database may be busy or gone.
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

    /// The quota is used up.
    #[error("upload: {0}")]
    Full(#[from] NoRoom),

    #[error(transparent)]
    Store(#[from] StoreError),

    #[error(transparent)]
    Blob(#[from] BlobError),

    #[error("the upload could not be processed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Stores an upload. The receipt means that everything is durable.
///
/// It belongs to `account`, if one is given, and is given under the licence that Diode states.
/// The same bytes again change nothing and give the same receipt.
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

/// Who sends an upload.
#[derive(Debug, Clone)]
pub struct Sender {
    /// `None` without an account.
    pub account: Option<AccountId>,
    /// Under which it is given.
    pub licence: UploadLicence,
}

/// The same for the result of a lease, if one is given. Of the same bytes again, terms that the sender has agreed to
/// since are noted.
///
/// `None` if there are more timings than may be decoded beside another upload. Nothing has been done then; the bytes need
/// not wait in memory until the turn is alone.
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
    // The blob first: after a crash no row may name a blob that is not there.
    backend.blobs.put(BlobKind::Upload, &digest, bytes.clone()).await?;
    let receipt = match backend.store.store_upload(&upload).await {
        Ok(receipt) => receipt,
        Err(error) => {
            // A disk that is full would be fuller with each upload that it has no room for. Before the answer, so that
            // it is over when the client tries again.
            let forgotten = timeout(FORGETTING, backend.forget(vec![(BlobKind::Upload, digest)]));
            if !matches!(forgotten.await, Ok(Ok(()))) {
                tracing::warn!("the file of an upload that could not be stored stays until it is swept");
            }
            return Err(error.into());
        }
    };
    // Also of an upload that came at the same time: its sender may not have stored the file anew yet.
    backend.restore(BlobKind::Upload, &digest, bytes).await?;
    Ok(Some(receipt))
}

/// `None` if there are more timings than the turn allows, and one that is alone may allow them.
async fn decode(turn: &Turn, bytes: &Bytes) -> Result<Option<Decoded>, IngestError> {
    let (raw, timings) = (bytes.clone(), turn.timings());
    match tokio::task::spawn_blocking(move || diode_formats::decode_within(&raw, timings)).await? {
        Ok(decoded) => Ok(Some(decoded)),
        Err(error) if !turn.is_alone() && error.has_more_timings_than(timings) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
