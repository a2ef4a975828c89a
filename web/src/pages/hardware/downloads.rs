//! Downloads of what was measured on the hardware.

use std::sync::Arc;

use diode_api::{HardwareSummary, SnapshotState, SnapshotSummary};
use diode_core::table::TableFormat;
use leptos::prelude::*;

use super::filters::default_method;
use crate::api;
use crate::pages::datasets::forms_of;
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
    let datasets = forms_of(&summary).map(|form| dataset(form.ending)).collect_view();
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
