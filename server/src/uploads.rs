//! Uploads: sent, listed and read again. `ingest` decodes and checks the bytes, `upload_store` stores them as rows in one transaction, and
//! `standing_store` decides whether an upload counts.

pub mod ingest;
pub(crate) mod solution_store;
pub mod solutions;
pub(crate) mod standing_store;
pub(crate) mod upload_store;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::upload_check::too_large;
use diode_api::{MAX_UPLOAD_BYTES, Receipt, Standing};
use diode_core::ids::{AccountName, UploadId};
use diode_formats::Format;
use serde::Deserialize;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};

use crate::accounts::{Authorized, Needed, Upload, licence_of};
use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::stored_file::{StoredFile, WHILE_THERE};
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, StrictQuery, essence, receive};
use crate::limits::Client;
use crate::store::{ForLease, Store, StoreResult, UploadFilter};
use crate::uploads::ingest::{IngestError, Sender, ingest_for};

/// The content types of forms. They are refused: a dataset is the body itself, not a field of a form.
const WRAPPERS: [&str; 2] = ["multipart/form-data", "application/x-www-form-urlencoded"];

impl Lookup for Receipt {
    type Id = UploadId;
    const KIND: &'static str = "upload";
    const HINT: &'static str = "/api/v1/uploads lists the newest";

    async fn find(store: &Store, id: &UploadId) -> StoreResult<Option<Self>> {
        store.receipt(id).await
    }
}

/// Stores a dataset: torch-diode's JSON or MessagePack, or the columnar format,
/// each also under zstd, as the raw body.
#[utoipa::path(
    post, path = "/uploads", tag = "uploads",
    params(("diode-terms" = Option<u32>, Header, description = "Agrees to this version of the terms of contributing")),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = Receipt, description = "Stored, and durable"),
        (status = 200, body = Receipt, description = "These very bytes were stored before"),
        (status = 400, description = "Not a dataset"),
        (status = 401, description = "Uploads to this server need an account"),
        (status = 403, description = "A token without the scope, another site's page, or nobody has agreed to the terms: `terms_not_agreed`"),
        (status = 408, description = "Sent too slowly"),
        (status = 409, description = "Another version of the terms is in force: `terms_changed`"),
        (status = 413, description = "Too large"),
        (status = 415, description = "Wrapped in a form or an encoding, or said to be text"),
        (status = 422, description = "A dataset, but not a believable one"),
        (status = 503, description = "Too many uploads at once"),
        (status = 507, description = "The disk or the quota is full"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    Authorized { account, .. }: Authorized<Upload>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<Receipt>)> {
    let licence = licence_of(&app, &headers, account.as_ref(), Needed::Current).await?;
    let vouched = app.policy().vouches_for(account.as_ref());
    let sender = Sender { account: account.map(|account| account.id), vouched, licence };
    let receipt = take_in(&app, &client, &headers, body, sender, None).await??;
    let status = if receipt.already_stored { StatusCode::OK } else { StatusCode::CREATED };
    Ok((status, Json(receipt)))
}

/// Receives a dataset and stores it.
pub(crate) async fn take_in(
    app: &App,
    client: &Client,
    headers: &HeaderMap,
    body: Body,
    sender: Sender,
    lease: Option<ForLease>,
) -> ApiResult<Result<Receipt, IngestError>> {
    refuse_wrapped(headers)?;
    let receiving = app.receiving(&client.0).await.ok_or_else(|| {
        ApiFault::busy("as many uploads arrive as the server takes at a time; try again in a few seconds")
    })?;
    let mut file = app.backend.blobs.scratch().await?;
    receive(headers, body, MAX_UPLOAD_BYTES, Some(&receiving), &mut file)
        .await
        .map_err(|error| error.of_file("the upload", too_large))?;
    // The turn is taken only now, so that a slow client holds none while others have sent everything.
    let mut turn = app.backend.storing.turn().await;
    let taken = loop {
        let bytes = read_back(&mut file).await.map_err(ApiFault::unwritable)?;
        match ingest_for(&app.backend, &turn, bytes, sender.clone(), lease.clone()).await {
            Ok(Some(receipt)) => break Ok(receipt),
            // This upload must be decoded alone, so it waits. Its file is read again afterwards, so that
            // waiting uploads take no memory.
            Ok(None) => turn.alone().await,
            Err(error) => break Err(error),
        }
    };
    drop(receiving);
    match &taken {
        Ok(receipt) => app.metrics.upload(receipt),
        Err(IngestError::Refused(_) | IngestError::Format(_)) => app.metrics.upload_refused(),
        Err(_) => {}
    }
    Ok(taken)
}

pub(crate) async fn read_back(file: &mut File) -> std::io::Result<Bytes> {
    let mut bytes = Vec::new();
    file.rewind().await?;
    file.read_to_end(&mut bytes).await?;
    Ok(bytes.into())
}

/// How many uploads are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct UploadQuery {
    /// The name of an account
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<AccountName>)]
    contributor: Option<AccountName>,
    #[serde(default, deserialize_with = "from_text")]
    standing: Option<Standing>,
}

/// The newest 500 uploads, newest first.
#[utoipa::path(
    get, path = "/uploads", tag = "uploads", params(UploadQuery),
    responses((status = 200, body = Vec<Receipt>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<UploadQuery>,
) -> ApiResult<Json<Vec<Receipt>>> {
    let filter = UploadFilter { contributor: query.contributor, standing: query.standing };
    Ok(Json(app.backend.store.uploads(&filter, MAX_LISTED).await?))
}

/// What was stored.
#[utoipa::path(
    get, path = "/uploads/{id}", tag = "uploads", params(("id" = String, Path)),
    responses((status = 200, body = Receipt)),
)]
pub(crate) async fn get(FromPath(receipt): FromPath<Receipt>) -> Json<Receipt> {
    Json(receipt)
}

/// The file of an upload, as it came.
#[utoipa::path(
    get, path = "/uploads/{id}/download", tag = "uploads", params(("id" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 416, description = "The file has no such part"),
    ),
)]
pub(crate) async fn download(
    State(app): State<App>,
    FromPath(receipt): FromPath<Receipt>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let format = Format::ALL.iter().find(|format| format.as_str() == receipt.format);
    let name = format!("{}{}", receipt.id, format.map_or("", |format| format.ending()));
    let file = StoredFile {
        kind: BlobKind::Upload,
        sha256: &receipt.digest,
        bytes: receipt.bytes,
        name: &name,
        media: "application/octet-stream",
        // An upload may be deleted, so clients ask each time whether it still exists.
        caching: WHILE_THERE,
    };
    file.answer(&app, &method, &headers).await
}

pub(crate) fn refuse_wrapped(headers: &HeaderMap) -> ApiResult<()> {
    let text = |name| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let media = text(header::CONTENT_TYPE);
    let essence = essence(media);
    // A browser lets a page of another site send text without asking the server first.
    if WRAPPERS.contains(&essence.as_str()) || !(media.is_empty() || essence.starts_with("application/")) {
        return Err(ApiFault::unsupported_media(format!(
            "Content-Type: got `{media}`, expected the file itself as the body \
             (curl --data-binary @FILE -H 'Content-Type: application/octet-stream')"
        )));
    }
    let encoding = text(header::CONTENT_ENCODING);
    if !matches!(encoding, "" | "identity") {
        return Err(ApiFault::unsupported_media(format!(
            "Content-Encoding: got `{encoding}`, expected none; a file compressed with zstd is recognised as it is"
        )));
    }
    Ok(())
}
