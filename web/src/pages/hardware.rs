//! A hardware: a summary and a chart, then the leaderboard.

mod board;
mod boards;
mod configs;
mod coverage;
mod filters;
mod sizes;

use std::collections::BTreeSet;
use std::sync::Arc;

use diode_api::{HardwareSummary, Kernels, MAX_POINTS, SnapshotState, SnapshotSummary};
use diode_core::hardware::{Facts, Vendor};
use diode_core::table::TableFormat;
use diode_core::{Comparison, DType, Op, Problem};
use leptos::prelude::*;
use leptos_router::hooks::use_query_map;

use crate::charts::{Point, Shape, Tone};
use crate::components::{
    Deferred, Explained, Loaded, Missing, Nearest, NearestProblems, SHAPE, Skeleton, Stat, Stats, due, empty,
    facts, shape_field, use_title,
};
use crate::pages::datasets::forms_of;
use crate::pages::hardware::board::{Board, verdict};
use crate::pages::hardware::boards::Boards;
use crate::pages::hardware::filters::{Filters, chosen, default_method, filter_parameters};
use crate::pages::list::shape_of_kind;
use crate::pages::path_part;
use crate::query::{link, parameter, parameter_or, problem_page};
use crate::remote::{Load, Remote, remote, remote_list};
use crate::{api, charts, format};

pub(crate) use crate::pages::hardware::configs::config_line;
pub(crate) use crate::pages::hardware::filters::{
    ALIGNMENTS, Filter, Filtered, KernelSwitch, LAYOUTS, Ranges, any_fault, any_of, subject,
};

#[component]
pub(crate) fn HardwarePage() -> impl IntoView {
    let slug = path_part("slug");
    let summary = remote::<HardwareSummary>(move || Some(format!("/hardware/{}", slug.get())));
    use_title(move || summary.value().map_or_else(|| slug.get(), |summary| summary.hardware.name.clone()));
    let missing = move || {
        let sentence = format!("No measurements of {} have been sent to this server.", slug.get());
        view! {
            <Missing heading="Nobody has measured this hardware yet" sentence>
                <a class="button" href="/">"All hardware"</a>
                <a class="button" href="/contribute">"Contribute measurements"</a>
            </Missing>
        }
    };
    view! {
        <main class="page">
            <Loaded
                remote=summary
                height="42rem"
                missing
                children=move |summary| view! { <Measured summary /> }
            />
        </main>
    }
}

#[component]
fn Measured(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let models = link("/models", [("hardware", slug.clone())]);
    let models_text = format::counted(summary.models, "model");
    let next = if summary.timings == 0 {
        view! { <a class="button primary" href="/contribute">"Contribute measurements"</a> }.into_any()
    } else if summary.models > 0 {
        let predict = link("/predict", [("hardware", slug)]);
        view! {
            <a class="button" href=models>{models_text}</a>
            <a class="button primary" href=predict>"Predict a shape"</a>
        }
        .into_any()
    } else {
        view! { <a class="button primary" href=format!("{models}#train")>"Train a model"</a> }.into_any()
    };
    view! {
        <div class="page-head">
            <div>
                <h1>{summary.hardware.name.clone()} {unconfirmed(&summary)}</h1>
                <p class="lede">{contents(&summary)}</p>
            </div>
            <div class="row">{next}</div>
        </div>
        <Stats stats=headline(&summary) />
        <Boards summary />
    }
}

/// The problems: how to find one, the filters, the chart and the leaderboard.
#[component]
fn Problems(summary: Arc<HardwareSummary>) -> impl IntoView {
    let points = use_points(Arc::clone(&summary));
    let chart = Arc::clone(&summary);
    let boards = Arc::clone(&summary);
    let compared = RwSignal::new(None::<Comparison>);
    let library = format::library(summary.hardware.vendor);
    // Turns are taken in the order in which they are requested. The chart must come before the other parts. Points that
    // are there already are drawn at once.
    let is_chart_due = if points.is_there() { RwSignal::new(true) } else { due() };
    let are_boards_due = are_boards_due(points, is_chart_due);
    let chart = move || match is_chart_due.get() {
        true => view! { <ProblemChart summary=Arc::clone(&chart) points /> }.into_any(),
        false => view! { <Skeleton height="31rem" /> }.into_any(),
    };
    view! {
        {later("max(4rem, 16rem - 16vw)", &summary, |summary| view! { <Filters summary /> }.into_any())}
        <div class="said">{move || compared.get().and_then(|compared| verdict(&compared, library))}</div>
        {later("4rem", &summary, |summary| view! { <ShapeSearch summary /> }.into_any())}
        <details open=is_wide()>
            <summary>"Chart, facts and downloads"</summary>
            <div class="split">
                {chart}
                {later("31rem", &summary, |summary| view! { <FactsCard summary /> }.into_any())}
            </div>
        </details>
        {move || {
            if are_boards_due.get() {
                let summary = Arc::clone(&boards);
                view! { <Deferred height="46rem"><Board summary=Arc::clone(&summary) compared /></Deferred> }.into_any()
            } else {
                view! { <Skeleton height="46rem" /> }.into_any()
            }
        }}
    }
}

/// Whether the window has room for more than the answer. On phones, charts and long forms are folded until the reader opens
/// them.
pub(crate) fn is_wide() -> bool {
    let query = window().match_media("(max-width: 40rem)").ok().flatten();
    query.is_none_or(|query| !query.matches())
}

/// Whether the chart is drawn, or will never have points. The boards wait for this: they are below the first screenful,
/// and their rows would keep a slow computer from drawing the chart.
fn are_boards_due(points: Points, is_chart_due: RwSignal<bool>) -> RwSignal<bool> {
    let any_fault = any_fault();
    // If the points are there already, the boards are too: a reader who went back needs the page's old height at once.
    let are_due = RwSignal::new(points.is_there());
    Effect::new(move |_| {
        let is_settled = any_fault.get() || !matches!(points.get(), Load::Waiting);
        if is_chart_due.get() && is_settled && !are_due.get_untracked() {
            // The chart is drawn at the beginning of the next frame.
            request_animation_frame(move || {
                are_due.try_set(true);
            });
        }
    });
    are_due
}

/// A part of the page that is made after the parts before it.
fn later(
    height: &'static str,
    summary: &Arc<HardwareSummary>,
    part: fn(Arc<HardwareSummary>) -> AnyView,
) -> impl IntoView + use<> {
    let summary = Arc::clone(summary);
    view! { <Deferred height>{part(Arc::clone(&summary))}</Deferred> }
}

/// A mark on hardware whose facts are only what its first upload said.
pub(crate) fn unconfirmed(summary: &HardwareSummary) -> Option<AnyView> {
    let why = "Its facts are what the first upload said; nobody has confirmed them";
    (!summary.confirmed)
        .then(|| view! { <span class="tag"><Explained text="unconfirmed" why /></span> }.into_any())
}

fn contents(summary: &HardwareSummary) -> String {
    let updated = summary.updated_at.as_deref().map(|time| format!(", updated {}", format::day(time)));
    format!(
        "{} of {}{}",
        format::counted(summary.timings, "timing"),
        format::counted(summary.problems, "problem"),
        updated.unwrap_or_default()
    )
}

fn headline(summary: &HardwareSummary) -> [Stat; 3] {
    let [wins, ratio, _, all] = gains(summary);
    [wins, ratio, all]
}

/// How much faster Triton is, and in comparison with what.
pub(crate) fn gains(summary: &HardwareSummary) -> [Stat; 4] {
    let Comparison { problems, wins, ratio, .. } = summary.comparison;
    let wins = (problems > 0).then(|| format!("{} of {}", format::count(wins), format::count(problems)));
    let library = format::library(summary.hardware.vendor);
    [
        Stat::maybe(format!("Problems where Triton beats {library}"), wins)
            .explained("Problems where the best Triton config is faster, of those where both were timed"),
        Stat::maybe(format!("Triton vs {library}, on average"), ratio.map(format::against))
            .explained("Geometric mean over problems: how much longer the slower of the two takes"),
        Stat::maybe("Triton alone vs Inductor's defaults", summary.triton_gain_over_defaults.map(format::against))
            .explained("The best Triton config against the best of Inductor's default configs; geometric mean over problems"),
        Stat::maybe(format!("Triton or {library} vs Inductor's defaults"), summary.gain_over_defaults.map(format::against))
            .explained("The faster of both against the best of Inductor's default Triton configs; geometric mean over problems"),
    ]
}

#[component]
fn ShapeSearch(summary: Arc<HardwareSummary>) -> impl IntoView {
    let text = parameter(SHAPE);
    let hardware = summary.hardware.clone();
    let dtypes = summary.dtypes.clone();
    let (op, dtype) = (parameter("op"), parameter("dtype"));
    let found = Memo::new(move |_| {
        let text = text.get();
        (!text.trim().is_empty())
            .then(|| shape(&text, op.get().parse().ok(), dtype.get().parse().ok(), &dtypes))
    });
    let problem = Signal::derive(move || found.get().and_then(Result::ok));
    let fault = Memo::new(move |_| found.get().and_then(Result::err));
    view! {
        {shape_field("shape-search", "Find a shape", "M×N×K, such as 4096x4096x4096 fp16", move || fault.get())}
        <NearestProblems nearest=Nearest::to(move || Some((hardware.clone(), problem.get()?))) />
    }
}

/// Reads a shape in the notation of all pages: `4096x4096x4096`, `8x512x512x64 fp16`. An op or a type that the text
/// does not name comes from the filters, or else is the most usual one.
fn shape(text: &str, op: Option<Op>, dtype: Option<DType>, measured: &[DType]) -> Result<Problem, String> {
    let usual = Some(DType::BFloat16).filter(|usual| measured.contains(usual));
    let dtype = dtype.or(usual).or(measured.first().copied()).unwrap_or(DType::BFloat16);
    shape_of_kind(text, op.unwrap_or(Op::Mm), dtype)
}

type Points = Remote<Vec<Point>>;

/// The points of the filtered problems.
fn use_points(summary: Arc<HardwareSummary>) -> Points {
    let (map, any_fault) = (use_query_map(), any_fault());
    remote_list(move || {
        let given = map.with(|map| filter_parameters(&summary, map));
        (!any_fault.get()).then(|| link(&format!("/hardware/{}/problems", summary.hardware.slug), given))
    })
}

#[component]
fn ProblemChart(summary: Arc<HardwareSummary>, points: Points) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let kernels = chosen();
    let library = format::library(summary.hardware.vendor);
    let chart = move |points: Arc<Vec<Point>>| {
        let slug = slug.clone();
        move || drawn(&points, kernels.get(), &slug)
    };
    view! {
        <section class="card" class:busy=move || points.busy() && points.value().is_some() aria-label="Chart of the problems">
            <div class="card-head">
                <h2>"Share of the roofline"</h2>
                <span class="hint">{move || subject(kernels.get(), library)}</span>
            </div>
            <Filtered remote=points height="24rem" children=chart />
        </section>
    }
}

fn drawn(points: &Arc<Vec<Point>>, kernels: Kernels, slug: &str) -> AnyView {
    if points.is_empty() {
        return empty("No problem to draw", "No problem that the filters leave has a rate.");
    }
    let slug = slug.to_owned();
    let page_of = move |point: &Point| problem_page(&point.problem_id, &slug, point.method);
    let is_sample = points.len() >= MAX_POINTS as usize;
    let sampled = || {
        format!(
            "Of so many problems, the chart shows an even sample of {}.",
            format::count(MAX_POINTS.into())
        )
    };
    view! {
        {charts::roofline(points, kernels, Box::new(page_of))}
        {legend(points)}
        {is_sample.then(|| view! { <p class="hint">{sampled()}</p> })}
    }
    .into_any()
}

/// The meaning of the colours and shapes that occur in the chart.
fn legend(points: &[Point]) -> impl IntoView + use<> {
    let tones: BTreeSet<Tone> = points.iter().map(|point| Tone::of(point.triton_over_library)).collect();
    let dtypes: BTreeSet<_> = points.iter().map(|point| point.problem.a_dtype).collect();
    let tones = tones.into_iter().map(|tone| (Shape::Circle, tone, tone.words().to_owned()));
    let dtypes = dtypes.into_iter().map(|dtype| (Shape::of(dtype), Tone::Plain, dtype.to_string()));
    view! { <div class="legends">{charts::legend(tones.collect())} {charts::legend(dtypes.collect())}</div> }
}

/// The hardware's facts, and downloads of everything measured.
#[component]
fn FactsCard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let mut rows =
        summary.hardware.facts.map(|facts| rows(summary.hardware.vendor, &facts)).unwrap_or_default();
    let is_unknown = rows.is_empty();
    let measured = [
        ("Highest rate, any kernel", summary.best_tflops.map(format::rate_text)),
        ("Median of the roofline", summary.median_roofline_share.map(format::percent)),
        ("Triton alone vs Inductor", summary.triton_gain_over_defaults.map(format::against)),
    ];
    rows.extend(measured.into_iter().filter_map(|(name, value)| Some((name, value?))));
    let unknown = is_unknown.then(|| {
        view! { <p class="hint">"Nobody has described this hardware yet, so there is no roofline to compare with."</p> }
    });
    view! {
        <aside class="card" aria-label="Facts">
            <h2>"Facts"</h2>
            {unknown}
            {facts(rows)}
            <Downloads summary />
        </aside>
    }
}

fn rows(vendor: Vendor, facts: &Facts) -> Vec<(&'static str, String)> {
    let (units, cache, cache_bandwidth, scratch) = match vendor {
        Vendor::Nvidia => ("SMs", "L2 cache", "L2 bandwidth", "Shared memory, block"),
        Vendor::Amd => ("Compute units", "L2 cache", "L2 bandwidth", "LDS, workgroup"),
        Vendor::Cpu => ("Cores", "Last-level cache", "Last-level bandwidth", "Private cache per core"),
    };
    let p = &facts.peaks;
    let peaks = [
        ("FP8 peak", p.fp8),
        ("FP16, BF16 peak", p.fp16),
        ("TF32 peak", p.tf32),
        ("FP32 peak", p.fp32),
        ("FP64 peak", p.fp64),
        ("INT8 peak", p.int8),
    ];
    let mut rows: Vec<_> =
        peaks.into_iter().filter_map(|(name, peak)| Some((name, format::rate_text(peak?.0)))).collect();
    rows.extend([
        ("DRAM bandwidth", format!("{}\u{a0}GB/s", format::count(facts.dram_gbps as u64))),
        (cache_bandwidth, format!("{}\u{a0}GB/s", format::count(facts.l2_gbps as u64))),
        (cache, format::bytes(facts.l2_bytes)),
        (units, format::count(facts.sms.into())),
        ("Highest clock", format!("{}\u{a0}MHz", format::count(facts.max_clock_mhz.into()))),
        (scratch, format!("{}\u{a0}KiB", facts.smem_per_block / 1024)),
    ]);
    rows
}

/// Links to all timings and to tables of the best configs. No links if nothing was measured.
#[component]
fn Downloads(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let file = |href: Signal<String>, text: String| view! { <a class="chip" href=href rel="external" download>{text}</a> };
    let dataset = |ending: &str| {
        file(Signal::stored(api::url(&format!("/datasets/{slug}.{ending}"))), ending.to_owned())
    };
    let datasets = forms_of(&summary).map(|form| dataset(form.ending)).collect_view();
    let path = link("/snapshots", [("hardware", slug.clone())]);
    let snapshots = remote::<Vec<SnapshotSummary>>(move || Some(path.clone()));
    // A snapshot stays as it is, so it can be cited.
    let parquet = move || {
        let listed = snapshots.value()?;
        let newest = listed.iter().find(|snapshot| snapshot.state != SnapshotState::Removed)?;
        let name = newest.name.to_string();
        let href = api::url(&format!("/snapshots/{name}/files/{name}.parquet"));
        Some(file(Signal::stored(href), format!("parquet, snapshot {name}")))
    };
    // A table has times of one method only: the method that the leaderboard shows.
    let default = default_method(&summary).map(|method| method.to_string()).unwrap_or_default();
    let method = parameter_or("method", default);
    let table = move |format: TableFormat, name: &str| {
        let path = format!("/tables/{slug}.json");
        let href = move || api::url(&link(&path, [("format", format.to_string()), ("method", method.get())]));
        file(Signal::derive(href), name.to_owned())
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

#[cfg(test)]
mod search_tests {
    use super::*;

    #[test]
    fn shapes_are_read_with_the_filters_op_and_type() {
        let read = |text, op| shape(text, op, None, &[DType::Float16, DType::BFloat16]);
        let problem = read("16x4096×1024", Some(Op::Addmm)).unwrap();
        assert_eq!(
            (problem.op, problem.dims().as_str(), problem.a_dtype),
            (Op::Addmm, "16×4096×1024", DType::BFloat16)
        );
        assert_eq!(read("8*16*32*64", None).unwrap().op, Op::Bmm);
        assert_eq!(read("8*16*32*64", Some(Op::Addmm)).unwrap().op, Op::Baddbmm);
        assert_eq!(read("16x32x64", Some(Op::Bmm)).unwrap().op, Op::Mm);
        let named = read("1x28672x4096 fp16 addmm", None).unwrap();
        assert_eq!((named.op, named.a_dtype), (Op::Addmm, DType::Float16));
        assert_eq!(read("4096, 4096, 1024", None).unwrap().dims(), "4096×4096×1024");
        for (text, word) in [("4096", "sizes: got 1,"), ("1x2", "M×N×K"), ("1x2xk", "1x2xk"), ("0x2x3", "M")]
        {
            let fault = read(text, None).unwrap_err();
            assert!(fault.contains(word), "{text}: {fault}");
        }
    }
}
