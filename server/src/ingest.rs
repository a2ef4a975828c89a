//! From the bytes of an upload to durable rows: decode, check, store.

mod judge;

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Bytes;
use diode_api::upload_check::check_problems;
use diode_api::{Receipt, UploadLicence};
use diode_core::Invalid;
use diode_core::ids::{AccountId, Digest, UploadId};
use diode_formats::{Decoded, FormatError};
use tokio::time::timeout;

pub use judge::{UploadFacts, prepare};

use crate::backend::{Backend, NoRoom};
use crate::blobs::{BlobError, BlobKind};
use crate::store::{ForLease, Now, StoreError};
use crate::storing::Turn;

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
