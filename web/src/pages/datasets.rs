//! Datasets: all measurements of a hardware, for download.

mod rows;
mod snapshots;

use std::sync::Arc;

use diode_api::{DATA_LICENCE, HardwareSummary, MAX_IN_OTHERS, MAX_IN_PARQUET};
use diode_core::Method;
use leptos::prelude::*;
use leptos::task::spawn_local;

use crate::components::{
    Citation, Download, Loaded, Missing, Snippet, Stat, Stats, be_the_first, chips, facts, page_head,
    tag_row, unnamed, use_title,
};
use crate::pages::datasets::rows::Rows;
use crate::pages::datasets::snapshots::Snapshots;
use crate::pages::path_part;
use crate::query::server_address;
use crate::remote::remote;
use crate::{api, format};

#[component]
pub(crate) fn DatasetsPage() -> impl IntoView {
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    let cards = |all: Arc<Vec<HardwareSummary>>| {
        let measured: Vec<_> = all.iter().filter(|one| one.timings > 0).map(card).collect();
        if measured.is_empty() {
            return be_the_first("No data yet");
        }
        view! { <div class="cards">{measured}</div> }.into_any()
    };
    view! {
        <main class="page">
            {page_head("/datasets")}
            <Loaded remote=all height="14rem" children=cards />
        </main>
    }
}

fn card(summary: &HardwareSummary) -> impl IntoView + use<> {
    let slug = summary.hardware.slug.to_string();
    let updated = summary.updated_at.as_deref().map(|time| format!("updated {}", format::day(time)));
    view! {
        <div class="card linked">
            <div class="card-head">
                <h2><a class="card-link" href=format!("/datasets/{slug}")>{summary.hardware.name.clone()}</a></h2>
                <span class="hint">{updated}</span>
            </div>
            <Stats inner=true stats=figures(summary) />
        </div>
    }
}

/// The size of a dataset.
fn figures(summary: &HardwareSummary) -> [Stat; 3] {
    [
        Stat::new("timings", format::count(summary.timings)),
        Stat::new("problems", format::count(summary.problems)),
        Stat::new("solutions", format::count(summary.solutions))
            .explained("All timings of one problem from one upload are a solution"),
    ]
}

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
                {tag_row(tags(summary))}
            </div>
            <a class="button" href=format!("/hardware/{slug}")>"Leaderboard"</a>
        </div>
    };
    if summary.timings == 0 {
        return view! {
            {head}
            {be_the_first("No timings yet")}
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
                {origin(summary)}
            </section>
            <div class="section">
                <section class="card" data-testid="files"><h2>"Take it"</h2>{files(summary)}</section>
                <section class="card">
                    <h2>"Use it"</h2>
                    <HowToRead summary=Arc::clone(summary) />
                    <span class="hint">"Train a model of your own on it:"</span>
                    <Snippet text=format!("diode train --data {slug}.msgpack.zst --model mine.safetensors") />
                </section>
            </div>
        </div>
        <Snapshots hardware=summary.hardware.slug.clone() />
        <Rows summary=Arc::clone(summary) />
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

fn origin(summary: &HardwareSummary) -> impl IntoView + use<> {
    let list = |names: Vec<String>| names.join(", ");
    let rows = [
        ("Hardware", summary.hardware.name.clone()),
        ("Methods of timing", list(summary.methods.iter().copied().map(method_in_files).collect())),
        ("Licence", DATA_LICENCE.to_owned()),
        ("Newest upload", summary.updated_at.as_deref().map(format::minute).unwrap_or_default()),
    ];
    let contributors = format!("/hardware/{}?board=contributors", summary.hardware.slug);
    view! {
        {facts(rows)}
        <p class="hint">
            <a href=contributors>"Who measured it"</a> " · "
            <a href="/terms" rel="external">"Terms of contributing"</a>
        </p>
    }
}

/// A method of timing, with its name in files.
fn method_in_files(method: Method) -> String {
    match method {
        Method::Unspecified => format!("{} ({method})", format::method(method)),
        stated => stated.to_string(),
    }
}

fn files(summary: &HardwareSummary) -> impl IntoView + use<> {
    let slug = summary.hardware.slug.to_string();
    let mut lengths = Vec::new();
    let rows = forms_of(summary).map(|form| {
        let name = format!("{slug}.{}", form.ending);
        let path = format!("/datasets/{name}");
        let href = api::url(&path);
        let length = RwSignal::new(None::<u64>);
        lengths.push((path, length));
        let size = move || length.get().map(|bytes| format!("{}: ", format::bytes(bytes)));
        view! {
            <li>
                <Download href=Signal::stored(href) name=name.clone() text=name />
                <span class="hint"><span data-testid="size">{size}</span>{form.what}</span>
            </li>
        }
    });
    let rows = rows.collect_view();
    spawn_local(async move {
        for (path, length) in lengths {
            if let Ok(bytes) = api::length(&path).await {
                length.try_set(bytes);
            }
        }
    });
    let contents = format::counted(summary.timings, "timing");
    let csv = (!forms_of(summary).any(|form| form.ending == "csv")).then(|| {
        format!(" As CSV, one file would be too large: diode convert {slug}.parquet {slug}.csv writes it.")
    });
    view! {
        <ul class="files">{rows}</ul>
        <p class="hint">{format!("Each has all {contents} as of now, and a row without a time for each config that failed.")} {csv}</p>
    }
}

/// A file.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub(crate) ending: &'static str,
    pub(crate) what: &'static str,
    /// torch-diode's formats name no method, so the server writes them only if no timing has one.
    is_torch_diodes: bool,
    /// The most timings of one file. More would need several files, which the page does not offer.
    most: u64,
}

const FORMS: [Form; 5] = [
    Form {
        ending: "msgpack.zst",
        what: "columnar MessagePack under zstd; holds everything",
        is_torch_diodes: false,
        most: u64::MAX,
    },
    Form {
        ending: "parquet",
        what: "a row for each timing, for DuckDB, pandas and Polars",
        is_torch_diodes: false,
        most: MAX_IN_PARQUET,
    },
    Form { ending: "csv", what: "the same rows as text", is_torch_diodes: false, most: MAX_IN_OTHERS },
    Form { ending: "msgpack", what: "torch-diode's MessagePack", is_torch_diodes: true, most: MAX_IN_OTHERS },
    Form { ending: "json", what: "torch-diode's JSON", is_torch_diodes: true, most: MAX_IN_OTHERS },
];

/// Ways to read the Parquet file, from afar.
const READERS: [(&str, &str); 4] = [
    ("pandas", "import pandas\nframe = pandas.read_parquet(\"{url}\")"),
    ("Polars", "import polars\nframe = polars.scan_parquet(\"{url}\")"),
    (
        "DuckDB",
        "SELECT op, b, m, n, k, a_dtype, a_layout, b_layout, bias, method,\n  \
         coalesce(a_dtype = 'float32' AND allow_tf32, false) AS tf32,\n  \
         min(time_ns) FILTER (template <> 'aten') / 1e3 AS triton_us,\n  \
         min(time_ns) FILTER (template = 'aten') / 1e3 AS library_us\n\
         FROM '{url}' GROUP BY ALL;",
    ),
    ("datasets", "from datasets import load_dataset\nrows = load_dataset(\"parquet\", data_files=\"{url}\")"),
];

#[component]
fn HowToRead(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let has_parquet = forms_of(&summary).any(|form| form.ending == "parquet");
    let url = format!("{}{}", server_address(), api::url(&format!("/datasets/{slug}.parquet")));
    let chosen = RwSignal::new(READERS[0].0.to_owned());
    let text = move || {
        let reader = READERS.iter().find(|(name, _)| chosen.with(|chosen| chosen == name));
        reader.map(|(_, text)| text.replace("{url}", &url)).unwrap_or_default()
    };
    if !has_parquet {
        return view! {
            <span class="hint">"It is too large for one Parquet file. Convert the columnar one:"</span>
            <Snippet text=format!("diode convert {slug}.msgpack.zst {slug}.parquet") />
        }
        .into_any();
    }
    view! {
        {chips("Read it with", unnamed(READERS.map(|(name, _)| name)), chosen)}
        {move || view! { <Snippet text=text() /> }}
    }
    .into_any()
}

/// The files that the server can write for a hardware.
pub(crate) fn forms_of(summary: &HardwareSummary) -> impl Iterator<Item = Form> + use<> {
    let (timings, unspecified) =
        (summary.timings, summary.methods.iter().all(|method| *method == Method::Unspecified));
    FORMS.into_iter().filter(move |form| timings <= form.most && (unspecified || !form.is_torch_diodes))
}
