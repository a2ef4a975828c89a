//! Downloads of what was measured on the hardware.

use std::sync::Arc;

use diode_core::Method;
use diode_core::api::{HardwareSummary, MAX_IN_OTHERS, MAX_IN_PARQUET, SnapshotState, SnapshotSummary};
use diode_core::table::TableFormat;
use leptos::prelude::*;

use super::filters::default_method;
use crate::api;
use crate::query::{link, parameter};
use crate::remote::remote;

/// Links to all timings and to tables of the best configs. No links if nothing was measured.
#[component]
pub(super) fn Downloads(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let dataset = |extension: &'static str| {
        let href = api::url(&format!("/datasets/{slug}.{extension}"));
        view! { <a class="chip" href=href rel="external" download>{extension}</a> }
    };
    // torch-diode's formats cannot name a method, so the server writes them only if no timing has one.
    let unspecified = summary.methods.iter().all(|method| *method == Method::Unspecified);
    let extensions = [
        ("msgpack.zst", true, u64::MAX),
        ("parquet", true, MAX_IN_PARQUET),
        ("csv", true, MAX_IN_OTHERS),
        ("msgpack", unspecified, MAX_IN_OTHERS),
        ("json", unspecified, MAX_IN_OTHERS),
    ];
    let written =
        extensions.into_iter().filter(|(_, is_written, most)| *is_written && summary.timings <= *most);
    let datasets = written.map(|(extension, ..)| dataset(extension)).collect_view();
    let snapshots = {
        let path = link("/snapshots", [("hardware", slug.clone())]);
        remote::<Vec<SnapshotSummary>>(move || Some(path.clone()))
    };
    // A snapshot stays as it is, so it can be cited.
    let parquet = move || {
        let listed = snapshots.value()?;
        let newest = listed.iter().find(|snapshot| snapshot.state != SnapshotState::Removed)?;
        let name = newest.name.to_string();
        let href = api::url(&format!("/snapshots/{name}/files/{name}.parquet"));
        let text = format!("parquet, snapshot {name}");
        Some(view! { <a class="chip" href=href rel="external" download>{text}</a> })
    };
    // A table has times of one method only: the method that the leaderboard shows.
    let chosen = parameter("method");
    let default = default_method(&summary).map(|method| method.to_string()).unwrap_or_default();
    let table = move |format: TableFormat, name: &'static str| {
        let (slug, default) = (slug.clone(), default.clone());
        let href = move || {
            let method = Some(chosen.get()).filter(|method| !method.is_empty()).unwrap_or(default.clone());
            let parameters = [("format", format.to_string()), ("method", method)];
            api::url(&link(&format!("/tables/{slug}.json"), parameters))
        };
        view! { <a class="chip" href=href rel="external" download>{name}</a> }
    };
    let about = format!("/datasets/{}", summary.hardware.slug);
    (summary.timings > 0).then(|| {
        view! {
            <h3>"All timings"</h3>
            <div class="chips">{datasets} {parquet}</div>
            <p class="hint"><a href=about>"About this dataset"</a></p>
            <h3>"Tables of the five best configs per problem"</h3>
            <div class="chips">
                {table(TableFormat::Diode, "diode")}
                {table(TableFormat::Inductor, "Inductor lookup_table")}
            </div>
        }
    })
}
