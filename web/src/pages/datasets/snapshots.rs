//! The snapshots of a dataset, to download and to cite. They no longer change.

use std::sync::Arc;

use diode_api::{SnapshotDetail, SnapshotFile, SnapshotState, SnapshotSummary};
use diode_core::ids::HardwareSlug;
use leptos::prelude::*;

use crate::api;
use crate::components::{Download, Loaded, Snippet, empty, head, is_open, num, table};
use crate::format;
use crate::query::{link, server_address};
use crate::remote::remote;

/// The number of snapshots that are shown until the reader wants all.
const FIRST: usize = 5;

/// The formats and their descriptions.
const FORMATS: [(&str, &str); 7] = [
    ("columnar", "columnar MessagePack under zstd; holds everything"),
    ("parquet", "for pandas, Polars or DuckDB"),
    ("csv", "one row per timing"),
    ("torch-diode-msgpack", "torch-diode's MessagePack"),
    ("torch-diode-json", "torch-diode's JSON"),
    ("manifest", "what is in it, from which uploads"),
    ("checksums", "for sha256sum --check"),
];

#[component]
pub(super) fn Snapshots(hardware: HardwareSlug) -> impl IntoView {
    let path = link("/snapshots", [("hardware", hardware.to_string())]);
    let listed = remote::<Vec<SnapshotSummary>>(move || Some(path.clone()));
    view! {
        <section class="section" data-testid="snapshots" aria-labelledby="snapshots-title">
            <h2 id="snapshots-title">"Snapshots"</h2>
            <p class="hint">
                "A snapshot no longer changes: its number, its bytes and its checksums stay. "
                <a href="/docs/guides/snapshots.html" rel="external">"How they are made"</a> "."
            </p>
            <Loaded remote=listed height="7rem" children=|listed| list(&listed) />
        </section>
    }
}

fn list(listed: &[SnapshotSummary]) -> AnyView {
    if listed.is_empty() {
        return empty("No snapshot yet", "An administrator of this server makes them.");
    }
    let all = RwSignal::new(listed.len() <= FIRST);
    let rest = listed.len().saturating_sub(FIRST) as u64;
    let one = |(place, summary): (usize, &SnapshotSummary)| {
        let summary = summary.clone();
        let is_shown = move || place < FIRST || all.get();
        view! { <div class:hidden=move || !is_shown()><Snapshot summary /></div> }
    };
    view! {
        {listed.iter().enumerate().map(one).collect_view()}
        <button type="button" class="button small more" class:hidden=move || all.get() on:click=move |_| all.set(true)>
            {format!("Show {} more", format::count(rest))}
        </button>
    }
    .into_any()
}

/// One snapshot. Its files are listed once the reader opens it.
#[component]
fn Snapshot(summary: SnapshotSummary) -> impl IntoView {
    let SnapshotSummary {
        name, created_at, problems, timings, bytes, state, reason, withdrawn_uploads, ..
    } = summary;
    let opened = RwSignal::new(false);
    let path = format!("/snapshots/{name}");
    let detail = remote::<SnapshotDetail>(move || opened.get().then(|| path.clone()));
    let figures = format!(
        "{}, {}, {}",
        format::counted(problems, "problem"),
        format::counted(timings, "timing"),
        format::bytes(bytes)
    );
    let withdrawn = (withdrawn_uploads > 0).then(|| {
        let uploads = format::counted(withdrawn_uploads, "upload");
        view! { <p class="note">{format!("{uploads} in it no longer count on this server. The snapshot is as it was.")}</p> }
    });
    let removed = (state == SnapshotState::Removed).then(|| {
        view! { <p class="note">{format!("Its files were removed: {reason}.")}</p> }
    });
    let shown = move || {
        opened
            .get()
            .then(|| view! { <Loaded remote=detail height="26rem" children=|detail| files_of(&detail) /> })
    };
    view! {
        <details class="card" on:toggle=move |event| opened.set(is_open(&event)) data-snapshot=name.to_string()>
            <summary>
                <code>{name.to_string()}</code> " "
                <span class="hint">{format!("{}, {figures}", format::minute(&created_at))}</span>
            </summary>
            <div class="section further">{withdrawn} {removed} {shown}</div>
        </details>
    }
}

fn files_of(detail: &Arc<SnapshotDetail>) -> impl IntoView + use<> {
    let name = detail.summary.name.to_string();
    let rows = detail.files.iter().map(|file| row(&name, file)).collect_view();
    let server = server_address();
    let digest = detail.summary.digest.to_string();
    let take = (!detail.files.is_empty()).then(|| {
        // Parquet, because most programs can read it.
        let command =
            format!("diode datasets pull {name} --format parquet --digest {digest} --server {server}");
        view! {
            {table([
                head("File"), num("Size"), head("What it is"), head("SHA-256"),
            ]).testid("snapshot-files").rows(rows)}
            <span class="hint">"From the command line, which compares every file with its checksum:"</span>
            <Snippet text=command />
        }
    });
    let citation = &detail.citation;
    view! {
        {take}
        <span class="hint">{format!("Licence {}. To cite it:", detail.summary.licence)}</span>
        <p class="wrap">{citation.text.clone()}</p>
        <Snippet text=citation.bibtex.trim_end() />
    }
}

fn row(name: &str, file: &SnapshotFile) -> impl IntoView + use<> {
    let href = api::url(&format!("/snapshots/{name}/files/{}", file.name));
    let known = FORMATS.iter().find(|(format, _)| *format == file.format);
    let what = known.map_or_else(|| file.format.clone(), |(_, what)| (*what).to_owned());
    view! {
        <tr>
            <td><Download href=Signal::stored(href) name=file.name.clone() text=file.name.clone() /></td>
            <td class="num">{format::bytes(file.bytes)}</td>
            <td class="wrap">{what}</td>
            <td class="mono wrap digest">{file.sha256.to_string()}</td>
        </tr>
    }
}
