//! A dataset: its card, then its files.

use std::sync::Arc;

use diode_api::{DATA_LICENCE, HardwareSummary};
use leptos::prelude::*;

use super::figures;
use super::forms::forms_of;
use super::rows::SampleRows;
use super::snapshots::Snapshots;
use crate::api;
use crate::components::{Citation, Download, Empty, Loaded, Missing, Snippet, Stats, use_title};
use crate::format;
use crate::pages::path_part;
use crate::remote::remote;

#[component]
pub(crate) fn DatasetPage() -> impl IntoView {
    let slug = path_part("slug");
    let summary = remote::<HardwareSummary>(move || Some(format!("/hardware/{}", slug.get())));
    use_title(move || {
        format!("Dataset {}", summary.value().map_or_else(|| slug.get(), |one| one.hardware.name.clone()))
    });
    let missing = move || {
        let sentence = format!("No measurements of {} have been sent to this server.", slug.get());
        view! {
            <Missing heading="There is no such dataset" sentence>
                <a class="button" href="/datasets">"All datasets"</a>
            </Missing>
        }
    };
    view! {
        <main class="page">
            <Loaded remote=summary height="42rem" missing children=|summary| content(&summary) />
        </main>
    }
}

fn content(summary: &Arc<HardwareSummary>) -> AnyView {
    let name = summary.hardware.name.clone();
    let slug = summary.hardware.slug.to_string();
    let head = view! {
        <div class="page-head">
            <div>
                <p class="crumbs"><a href="/datasets">"Datasets"</a> " / " <code>{slug.clone()}</code></p>
                <h1>{format!("Matmul timings of {name}")}</h1>
                <div class="tags">
                    {tags(summary).into_iter().map(|tag| view! { <span class="tag">{tag}</span> }).collect_view()}
                </div>
            </div>
            <a class="button" href=format!("/hardware/{slug}")>"Leaderboard"</a>
        </div>
    };
    if summary.timings == 0 {
        return view! {
            {head}
            <Empty heading="No timings yet">"Be the first: " <a href="/contribute">"contribute measurements"</a> "."</Empty>
        }
        .into_any();
    }
    let updated = summary.updated_at.clone().unwrap_or_default();
    let described = format!(
        "{} of {}: how long each config of the Triton templates and the library's kernel take.",
        format::counted(summary.timings, "timing"),
        format::counted(summary.problems, "matrix multiplication")
    );
    view! {
        {head}
        <Stats stats=figures(summary) />
        <div class="split even">
            <section class="card">
                <h2>"What it is"</h2>
                <p>{described}</p>
                {facts(summary)}
            </section>
            <div class="section">
                <section class="card" data-testid="files"><h2>"Take it"</h2>{files(summary)}</section>
                <section class="card">
                    <h2>"Use it"</h2>
                    <span class="hint">"As Parquet, for pandas, Polars or DuckDB:"</span>
                    <Snippet text=format!("diode convert {slug}.msgpack.zst {slug}.parquet") />
                    <span class="hint">"Train a model of your own on it:"</span>
                    <Snippet text=format!("diode train --data {slug}.msgpack.zst --model mine.safetensors") />
                </section>
            </div>
        </div>
        <Snapshots hardware=summary.hardware.slug.clone() />
        <SampleRows summary=Arc::clone(summary) />
        <section class="card" data-testid="citation">
            <h2>"Citation"</h2>
            <p class="hint">
                "The dataset grows with each upload: say when you took it. Or cite a snapshot, which no longer changes: its entry stands with its files above."
            </p>
            <Citation
                key=format!("diode-{slug}")
                title=format!("Diode: matmul timings of {name}")
                made_at=updated.clone()
                path=format!("/datasets/{slug}")
                note=format!("{}, as of {}", format::counted(summary.timings, "timing"), format::day(&updated))
            />
        </section>
    }
    .into_any()
}

fn tags(summary: &HardwareSummary) -> Vec<String> {
    let ops = summary.ops.iter().map(ToString::to_string);
    ops.chain(summary.dtypes.iter().map(ToString::to_string)).collect()
}

fn facts(summary: &HardwareSummary) -> impl IntoView + use<> {
    let list = |names: Vec<String>| names.join(", ");
    let rows = [
        ("Hardware", summary.hardware.name.clone()),
        ("Methods of timing", list(summary.methods.iter().copied().map(format::method).collect())),
        ("Licence", DATA_LICENCE.to_owned()),
        ("Newest upload", summary.updated_at.as_deref().map(format::minute).unwrap_or_default()),
    ];
    let rows = rows.into_iter().map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    let contributors = format!("/hardware/{}?board=contributors", summary.hardware.slug);
    view! {
        <dl class="facts">{rows.collect_view()}</dl>
        <p class="hint">
            <a href=contributors>"Who measured it"</a> " · "
            <a href="/terms" rel="external">"Terms of contributing"</a>
        </p>
    }
}

fn files(summary: &HardwareSummary) -> impl IntoView + use<> {
    let (slug, timings) = (summary.hardware.slug.to_string(), summary.timings);
    let rows = forms_of(summary).map(|form| {
        let name = format!("{slug}.{}", form.ending);
        let href = api::url(&format!("/datasets/{name}"));
        let size = format::bytes(form.bytes(timings));
        view! {
            <li>
                <Download href=Signal::stored(href) name=name.clone() text=name />
                <span class="hint">{format!("about {size}: {}", form.what)}</span>
            </li>
        }
    });
    let contents = format::counted(summary.timings, "timing");
    view! {
        <ul class="files">{rows.collect_view()}</ul>
        <p class="hint">{format!("Each has all {contents}. The server makes it when it is asked for, so the sizes are estimated from other datasets.")}</p>
    }
}
