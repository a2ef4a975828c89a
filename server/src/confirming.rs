//! Confirms the facts of a hardware.

use diode_api::HardwareConfirmation;
use diode_core::hardware::Facts;
use diode_core::ids::{HardwareSlug, UploadId};
use diode_formats::FormatError;

use crate::backend::Backend;
use crate::blobs::{BlobError, BlobKind};
use crate::store::{Now, StoreError};

/// Why no facts are confirmed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotConfirmed {
    #[error("no upload `{0}`; GET /api/v1/uploads lists the uploads")]
    NoUpload(UploadId),

    #[error("upload `{0}` does not describe `{1}`")]
    NotDescribed(UploadId, HardwareSlug),

    #[error("nobody has described `{0}`; name an upload that does")]
    NoFacts(HardwareSlug),

    #[error(transparent)]
    Store(#[from] StoreError),

    #[error(transparent)]
    Blob(#[from] BlobError),

    #[error("the file of the upload cannot be read any more: {0}")]
    Format(#[from] FormatError),

    #[error("the file of the upload could not be read: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// Confirms the facts of a hardware that the server has or, if an upload is named, that the upload states.
pub(crate) async fn confirm(
    backend: &Backend,
    request: &HardwareConfirmation,
    who: &str,
) -> Result<(), NotConfirmed> {
    let HardwareConfirmation { hardware, upload, reason } = request;
    let facts = match upload {
        None => None,
        Some(upload) => Some(stated(backend, hardware, upload).await?),
    };
    match backend.store.confirm_hardware(hardware, facts.as_ref(), reason, who, Now::read()).await? {
        true => Ok(()),
        false => Err(NotConfirmed::NoFacts(hardware.clone())),
    }
}

/// The facts of a hardware in the file of an upload.
async fn stated(backend: &Backend, slug: &HardwareSlug, upload: &UploadId) -> Result<Facts, NotConfirmed> {
    let receipt = backend.store.receipt(upload).await?;
    let receipt = receipt.ok_or_else(|| NotConfirmed::NoUpload(upload.clone()))?;
    let bytes = backend.blobs.get(BlobKind::Upload, &receipt.digest).await?;
    // Takes its turn with the uploads that arrive, because memory has room for few decoded files.
    let turn = backend.storing.turn().await;
    let decoded = tokio::task::spawn_blocking(move || diode_formats::decode(&bytes)).await??;
    drop(turn);
    let stated = decoded.datasets.into_iter().map(|dataset| dataset.hardware);
    stated
        .filter(|hardware| hardware.slug == *slug)
        .find_map(|hardware| hardware.facts)
        .ok_or_else(|| NotConfirmed::NotDescribed(upload.clone(), slug.clone()))
}
