//! Kernel packs, which agents and people pull. They are executable code, so only an administrator adds them.

use std::fs::File;
use std::io::Seek as _;
use std::path::Path;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use diode_api::query::from_text;
use diode_api::{MAX_PACK_BYTES, PackSummary, PackVariant};
use diode_core::Invalid;
use diode_core::ids::{AccountName, Digest};
use diode_formats::FormatError;
use diode_formats::pack::Pack;
use serde::Deserialize;

use crate::accounts::{Admin, Authorized};
use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::stored_file::{FOREVER, StoredFile};
use crate::http::{ApiFault, ApiResult, FromPath, Lookup, StrictQuery, receive};
use crate::limits::Client;
use crate::store::fields::{from_json, json};
use crate::store::statement::Statement;
use crate::store::{Now, Store, StoreResult};
use crate::uploads::refuse_wrapped;

impl Lookup for PackSummary {
    type Id = Digest;
    const KIND: &'static str = "kernel pack";
    const HINT: &'static str = "/api/v1/packs lists what there is";

    async fn find(store: &Store, digest: &Digest) -> StoreResult<Option<Self>> {
        store.pack(digest).await
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct PackQuery {
    /// Those for this GPU architecture only, such as `sm_90`
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<String>)]
    architecture: Option<String>,
}

/// How many packs are listed: more than any agent looks through.
const MAX_LISTED: u32 = 500;

/// The kernel packs, newest first, with what their kernels compute; 500 at most.
#[utoipa::path(
    get, path = "/packs", tag = "packs", params(PackQuery),
    responses((status = 200, body = Vec<PackSummary>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<PackQuery>,
) -> ApiResult<Json<Vec<PackSummary>>> {
    Ok(Json(app.backend.store.packs(query.architecture.as_deref(), MAX_LISTED).await?))
}

/// A pack's file. Packs are code: who pulls one compares its digest.
#[utoipa::path(
    get, path = "/packs/{digest}", tag = "packs", params(("digest" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 416, description = "The file has no such part"),
    ),
)]
pub(crate) async fn get(
    State(app): State<App>,
    FromPath(pack): FromPath<PackSummary>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let file = StoredFile {
        kind: BlobKind::Pack,
        sha256: &pack.sha256,
        bytes: pack.bytes,
        name: &format!("{:.16}.pack", pack.digest),
        media: "application/octet-stream",
        caching: FOREVER,
    };
    file.answer(&app, &method, &headers).await
}

/// Publishes a kernel pack, the raw body, so that agents and people can pull it.
#[utoipa::path(
    post, path = "/packs", tag = "packs",
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses(
        (status = 201, body = PackSummary, description = "Stored, and durable"),
        (status = 200, body = PackSummary, description = "It was there before"),
        (status = 400, description = "No kernel pack, or a damaged one"),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 408, description = "Sent too slowly"),
        (status = 413, description = "Too large"),
        (status = 415, description = "Wrapped in a form or an encoding, or said to be text"),
        (status = 422, description = "A pack for the exact sizes of some problems"),
        (status = 503, description = "Too many uploads at once"),
        (status = 507, description = "The disk is full"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    admin: Authorized<Admin>,
    client: Client,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<PackSummary>)> {
    refuse_wrapped(&headers)?;
    let _receiving = app.receiving(&client.0).await.ok_or_else(|| {
        ApiFault::busy("as many uploads arrive as the server takes at a time; try again in a few seconds")
    })?;
    let mut file = app.backend.blobs.scratch().await?;
    receive(&headers, body, MAX_PACK_BYTES as usize, None, &mut file).await.map_err(|error| {
        error.of_file("the pack", || {
            format!(
                "pack: more than {} MiB; build packs of fewer operators, types or layouts",
                MAX_PACK_BYTES >> 20
            )
        })
    })?;
    let copy = file.try_clone().await.map_err(ApiFault::unwritable)?.into_std().await;
    let by = admin.account.as_ref().map(|account| account.name.clone());
    let examined = tokio::task::spawn_blocking(move || {
        (&copy).rewind()?;
        examine(copy, by, Now::read())
    });
    let pack = examined.await?.map_err(refuse_pack)?;
    // The blob is stored first, since after a crash no row may name a missing blob.
    app.backend.blobs.put_file(BlobKind::Pack, &pack.sha256, file).await?;
    if app.backend.store.add_pack(&pack).await? {
        admin.by()?.write_down(&app.backend.store, &format!("publish pack {}", pack.digest)).await?;
        return Ok((StatusCode::CREATED, Json(pack)));
    }
    let Some(stored) = app.backend.store.pack(&pack.digest).await? else {
        return Err(ApiFault::busy("the same pack was withdrawn at the same moment; send it again"));
    };
    Ok((StatusCode::OK, Json(PackSummary { already_stored: true, ..stored })))
}

fn refuse_pack(error: PackError) -> ApiFault {
    match error {
        PackError::Format(error) => error.into(),
        PackError::Refused(invalid) => ApiFault::refused(invalid.to_string()),
        PackError::Io(error) => ApiFault::internal(error),
    }
}

/// Why a pack is not published.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PackError {
    /// The file is no pack, or is damaged.
    #[error(transparent)]
    Format(#[from] FormatError),

    /// The pack would be of no use to others.
    #[error(transparent)]
    Refused(#[from] Invalid),

    #[error("the pack cannot be read back: {0}")]
    Io(#[from] std::io::Error),
}

/// Reads a whole pack, and returns what is in it.
pub(crate) fn examine(file: File, by: Option<AccountName>, now: Now) -> Result<PackSummary, PackError> {
    let bytes = file.metadata()?.len();
    let mut pack = Pack::read(file, Path::new("pack"))?;
    pack.check()?;
    let refuse = |given: &str, expected: &str| Err(Invalid::new("pack", given, expected).into());
    if pack.is_exact() {
        return refuse("kernels for the exact sizes of some problems", "kernels for all sizes");
    }
    let variants: Vec<PackVariant> =
        pack.variants().into_iter().map(|(variant, kernels)| PackVariant { variant, kernels }).collect();
    if variants.is_empty() {
        return refuse("no multiplication", "at least one");
    }
    let sha256 = pack.file_digest()?;
    let stated = |name: &str| pack.toolchain().get(name).cloned();
    Ok(PackSummary {
        digest: pack.digest().clone(),
        sha256,
        architecture: pack.arch().to_owned(),
        triton: stated("triton"),
        abi: stated("abi"),
        space: stated("space"),
        bytes,
        variants,
        published_at: now.rfc3339(),
        published_by: by,
        already_stored: false,
    })
}

const SELECT_PACKS: &str = "SELECT summary FROM packs";

impl Store {
    /// Adds a pack; `false` if it existed already.
    pub async fn add_pack(&self, pack: &PackSummary) -> StoreResult<bool> {
        let insert = Statement::new(
            "INSERT INTO packs (digest, arch, summary) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
        )
        .bind(pack.digest.as_str())
        .bind(pack.architecture.as_str())
        .bind(json("pack", pack)?);
        let mut tx = self.writer().await?;
        let added = tx.execute(insert).await? == 1;
        tx.commit().await?;
        Ok(added)
    }

    /// The newest packs, for one architecture or for all, the newest first.
    pub async fn packs(&self, architecture: Option<&str>, newest: u32) -> StoreResult<Vec<PackSummary>> {
        let mut select = Statement::new(SELECT_PACKS);
        if let Some(architecture) = architecture {
            select = select.push(" WHERE arch = ").push_bind(architecture);
        }
        let select = select.push(" ORDER BY position DESC LIMIT ").push_bind(i64::from(newest));
        let rows: Vec<(String,)> = self.reader().await?.fetch_all(select).await?;
        Ok(rows.iter().map(|(summary,)| from_json("pack", summary)).collect::<Result<_, _>>()?)
    }

    /// One pack; `None` if there is none with this digest.
    pub async fn pack(&self, digest: &Digest) -> StoreResult<Option<PackSummary>> {
        let select = Statement::new(SELECT_PACKS).push(" WHERE digest = ").push_bind(digest.as_str());
        let row: Option<(String,)> = self.reader().await?.fetch_optional(select).await?;
        Ok(row.map(|(summary,)| from_json("pack", &summary)).transpose()?)
    }

    /// Removes a pack; `false` if there was none.
    pub async fn remove_pack(&self, digest: &Digest) -> StoreResult<bool> {
        let delete = Statement::new("DELETE FROM packs WHERE digest = $1").bind(digest.as_str());
        let mut tx = self.writer().await?;
        let removed = tx.execute(delete).await? == 1;
        tx.commit().await?;
        Ok(removed)
    }
}
