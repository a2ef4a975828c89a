//! Confirms the facts of a hardware.

use diode_api::HardwareConfirmation;
use diode_core::hardware::Facts;
use diode_core::ids::{HardwareSlug, UploadId};

use crate::backend::Backend;
use crate::blobs::BlobKind;
use crate::http::{ApiFault, ApiResult};
use crate::store::Now;

/// Confirms the facts of a hardware that the server has or, if an upload is named, that the upload states.
pub(crate) async fn confirm(backend: &Backend, request: &HardwareConfirmation, who: &str) -> ApiResult<()> {
    let HardwareConfirmation { hardware, upload, reason } = request;
    let facts = match upload {
        None => None,
        Some(upload) => Some(stated(backend, hardware, upload).await?),
    };
    match backend.store.confirm_hardware(hardware, facts.as_ref(), reason, who, Now::read()).await? {
        true => Ok(()),
        false => {
            Err(ApiFault::refused(format!("nobody has described `{hardware}`; name an upload that does")))
        }
    }
}

/// The facts of a hardware in the file of an upload.
async fn stated(backend: &Backend, slug: &HardwareSlug, upload: &UploadId) -> ApiResult<Facts> {
    let receipt = backend.store.receipt(upload).await?.ok_or_else(|| {
        ApiFault::not_found(format!("no upload `{upload}`; GET /api/v1/uploads lists the uploads"))
    })?;
    let bytes = backend.blobs.get(BlobKind::Upload, &receipt.digest).await?;
    // Takes its turn with the uploads that arrive, because memory has room for few decoded files.
    let turn = backend.storing.turn().await;
    let decoded = tokio::task::spawn_blocking(move || diode_formats::decode(&bytes)).await?;
    let decoded = decoded.map_err(|error| {
        ApiFault::internal(anyhow::anyhow!("the file of the upload cannot be read any more: {error}"))
    })?;
    drop(turn);
    let stated = decoded.datasets.into_iter().map(|dataset| dataset.hardware);
    stated
        .filter(|hardware| hardware.slug == *slug)
        .find_map(|hardware| hardware.facts)
        .ok_or_else(|| ApiFault::refused(format!("upload `{upload}` does not describe `{slug}`")))
}
