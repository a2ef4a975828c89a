//! Snapshots with their files, and how to refer to them.

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::Response;
use diode_api::bibtex::{AUTHOR, Cited};
use diode_api::query::from_text;
use diode_api::{Citation, Job, NewSnapshot, SnapshotDetail, SnapshotName, SnapshotState, SnapshotSummary};
use diode_core::ids::HardwareSlug;
use serde::Deserialize;

use crate::accounts::{Admin, Authorized};
use crate::admin::acts::snapshot;
use crate::app::App;
use crate::blobs::BlobKind;
use crate::http::stored_file::{StoredFile, WHILE_THERE};
use crate::http::{ApiFault, ApiResult, FromPath, InPath, Lookup, StrictQuery, json_body, lookup, media};
use crate::store::{Store, StoreResult, StoredSnapshot};

/// How many snapshots are listed: more than anybody reads at once.
const MAX_LISTED: u32 = 500;

impl Lookup for StoredSnapshot {
    type Id = SnapshotName;
    const KIND: &'static str = "snapshot";
    const HINT: &'static str = "/api/v1/snapshots lists what there is";

    async fn find(store: &Store, name: &SnapshotName) -> StoreResult<Option<Self>> {
        store.snapshot(name).await
    }
}

#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct SnapshotQuery {
    #[serde(default, deserialize_with = "from_text")]
    #[param(value_type = Option<HardwareSlug>)]
    hardware: Option<HardwareSlug>,
}

/// The snapshots, or those of one hardware, newest first; the newest 500.
#[utoipa::path(
    get, path = "/snapshots", tag = "snapshots", params(SnapshotQuery),
    responses((status = 200, body = Vec<SnapshotSummary>)),
)]
pub(crate) async fn list(
    State(app): State<App>,
    StrictQuery(query): StrictQuery<SnapshotQuery>,
) -> ApiResult<Json<Vec<SnapshotSummary>>> {
    Ok(Json(app.backend.store.snapshots(query.hardware.as_ref(), MAX_LISTED).await?))
}

/// Asks for a snapshot of everything that counts of a hardware. The worker makes it when its turn comes; if
/// nothing has changed since the newest, that one is the job's.
#[utoipa::path(
    post, path = "/snapshots", tag = "snapshots", request_body = NewSnapshot,
    responses(
        (status = 202, body = Job),
        (status = 401),
        (status = 403, description = "Not an administrator, or a token without the scope"),
        (status = 415, description = "Not said to be JSON"),
        (status = 422, description = "There is nothing to freeze"),
        (status = 429, description = "As many jobs wait as may, or the account has as many as it may"),
    ),
)]
pub(crate) async fn create(
    State(app): State<App>,
    admin: Authorized<Admin>,
    headers: HeaderMap,
    body: Body,
) -> ApiResult<(StatusCode, Json<Job>)> {
    let request: NewSnapshot = json_body(&headers, body).await?;
    let (store, slug) = (&app.backend.store, &request.hardware);
    let summary = store.hardware_summary(slug).await?.filter(|summary| summary.timings > 0);
    let summary = summary.ok_or_else(|| {
        ApiFault::refused(format!(
            "nothing has been measured on `{slug}`; /api/v1/hardware lists what there is"
        ))
    })?;
    let request = NewSnapshot { hardware: summary.hardware.slug, ..request };
    Ok((StatusCode::ACCEPTED, Json(snapshot(&app.backend, &request, admin.by()?).await?)))
}

/// One snapshot: what is in it, its files, whether what is in it still counts, and how to cite it.
#[utoipa::path(
    get, path = "/snapshots/{name}", tag = "snapshots", params(("name" = String, Path)),
    responses((status = 200, body = SnapshotDetail)),
)]
pub(crate) async fn get(
    State(app): State<App>,
    FromPath(StoredSnapshot { summary, files }): FromPath<StoredSnapshot>,
) -> ApiResult<Json<SnapshotDetail>> {
    let models = app.backend.store.models_of_snapshot(&summary.name).await?;
    let citation = cite(&summary, &app.policy().public_url);
    Ok(Json(SnapshotDetail { summary, files, models, citation }))
}

/// A file of a snapshot, or a part of it: the manifest, the checksums, or the data in one of the formats.
#[utoipa::path(
    get, path = "/snapshots/{name}/files/{file}", tag = "snapshots",
    params(("name" = String, Path), ("file" = String, Path)),
    responses(
        (status = 200, body = Vec<u8>, content_type = "application/octet-stream"),
        (status = 206, body = Vec<u8>, content_type = "application/octet-stream", description = "The part that `Range` asks for"),
        (status = 304, description = "The client has it already"),
        (status = 410, description = "Its files were removed"),
        (status = 416, description = "The file has no such part"),
    ),
)]
pub(crate) async fn file(
    State(app): State<App>,
    InPath((name, file)): InPath<(String, String)>,
    method: Method,
    headers: HeaderMap,
) -> ApiResult<Response> {
    let StoredSnapshot { summary, files } = lookup(&app, &name).await?;
    if summary.state == SnapshotState::Removed {
        return Err(ApiFault::removed(format!(
            "the files of snapshot `{}` were removed: {}; /api/v1/snapshots lists what there is",
            summary.name, summary.reason
        )));
    }
    let found = files.iter().find(|one| one.name == file);
    let found = found.ok_or_else(|| {
        ApiFault::not_found(format!("no file `{file}`; /api/v1/snapshots/{} lists them", summary.name))
    })?;
    let saved_as = match found.format.as_str() {
        "manifest" | "checksums" => format!("{}-{}", summary.name, found.name),
        _ => found.name.clone(),
    };
    let stored = StoredFile {
        kind: BlobKind::Snapshot,
        sha256: &found.sha256,
        bytes: found.bytes,
        name: &saved_as,
        media: media(&found.name),
        caching: WHILE_THERE,
    };
    stored.answer(&app, &method, &headers).await
}

/// The citation of a snapshot, on the server at `public_url`.
pub(crate) fn cite(snapshot: &SnapshotSummary, public_url: &str) -> Citation {
    let SnapshotSummary { name, digest, hardware_name, created_at, licence, .. } = snapshot;
    let url = format!("{public_url}/api/v1/snapshots/{name}");
    let year = created_at.get(..4).unwrap_or_default();
    let version = name.version;
    let title = format!("Timings of matrix multiplication kernels on {hardware_name}, version {version}");
    let about = format!("{} problems, {} timings, SHA-256 {digest}", snapshot.problems, snapshot.timings);
    let text = format!("{AUTHOR} ({year}). {title} [data set; {about}]. {licence}. {url}");
    let bibtex = Cited {
        key: &format!("diode:{}:{version}", name.hardware),
        title: &title,
        made_at: created_at,
        url: &url,
        note: &format!("{about}, {licence}"),
    }
    .bibtex();
    Citation { url, text, bibtex }
}

#[cfg(test)]
mod citation_tests {
    use diode_api::SnapshotState;
    use diode_core::ids::Digest;

    use super::*;

    fn summary(hardware_name: &str) -> SnapshotSummary {
        SnapshotSummary {
            name: "nvidia-h200@3".parse().unwrap(),
            digest: Digest::of(b"manifest"),
            hardware_name: hardware_name.to_owned(),
            created_at: "2026-11-23T08:00:00Z".to_owned(),
            licence: "MIT OR Apache-2.0".to_owned(),
            problems: 209,
            timings: 320_606,
            failures: 0,
            contributors: 2,
            uploads: 5,
            bytes: 1,
            state: SnapshotState::Whole,
            reason: String::new(),
            withdrawn_uploads: 0,
        }
    }

    #[test]
    fn a_citation_names_version_date_digest_and_address() {
        let cited = cite(&summary("NVIDIA H200"), "https://d.example");
        let digest = Digest::of(b"manifest");
        assert_eq!(cited.url, "https://d.example/api/v1/snapshots/nvidia-h200@3");
        assert_eq!(
            cited.text,
            format!(
                "The Diode contributors (2026). Timings of matrix multiplication kernels on NVIDIA H200, version 3 [data \
                 set; 209 problems, 320606 timings, SHA-256 {digest}]. MIT OR Apache-2.0. \
                 https://d.example/api/v1/snapshots/nvidia-h200@3"
            )
        );
        let expected = format!(
            "@misc{{diode:nvidia-h200:3,\n  author = {{{{The Diode contributors}}}},\n  title = {{{{Timings of matrix \
             multiplication kernels on NVIDIA H200, version 3}}}},\n  year = {{2026}},\n  month = nov,\n  url = \
             {{https://d.example/api/v1/snapshots/nvidia-h200@3}},\n  note = {{209 problems, 320606 timings, SHA-256 \
             {digest}, MIT OR Apache-2.0}}\n}}\n"
        );
        assert_eq!(cited.bibtex, expected);
    }

    #[test]
    fn a_name_cannot_end_its_field() {
        let cited = cite(&summary("X} , note = {\\input{/etc/passwd} 50% & $1_0"), "https://d.example");
        let title = "on X\\textbraceright{} , note = \\textbraceleft{}\\textbackslash{}input\\textbraceleft{}/etc/passwd\\textbraceright{} 50\\% \\& \\$1\\_0, version";
        assert!(cited.bibtex.contains(title), "{}", cited.bibtex);
    }
}
