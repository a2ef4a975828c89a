//! The facts of the hardware that rooflines and features are computed from.

use diode_core::api::HardwareSummary;
use diode_core::hardware::Facts;
use leptos::prelude::*;

use crate::api;
use crate::format;

/// Facts, and everything measured for download.
pub(super) fn facts(summary: &HardwareSummary) -> impl IntoView + use<> {
    let rows = summary.hardware.facts.as_ref().map(rows).unwrap_or_default();
    let unknown = rows.is_empty().then(|| {
        view! { <p class="hint">"Nobody has described this hardware yet, so there is no roofline to judge by."</p> }
    });
    let dataset = |extension: &'static str| {
        let href = api::url(&format!("/datasets/{}.{extension}", summary.hardware.slug));
        view! { <a class="chip" href=href rel="external" download>{extension}</a> }
    };
    view! {
        <aside class="card" aria-label="Facts">
            <h2>"Facts"</h2>
            {unknown}
            <dl class="facts">
                {rows.into_iter().map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> }).collect_view()}
            </dl>
            <h3>"All timings"</h3>
            <div class="chips">{["msgpack.zst", "msgpack", "json"].map(dataset)}</div>
        </aside>
    }
}

fn rows(facts: &Facts) -> Vec<(&'static str, String)> {
    let p = &facts.peaks;
    let peaks = [
        ("FP8 peak", p.fp8),
        ("FP16, BF16 peak", p.fp16),
        ("TF32 peak", p.tf32),
        ("FP32 peak", p.fp32),
        ("FP64 peak", p.fp64),
        ("INT8 peak", p.int8),
    ];
    let mut rows: Vec<_> = peaks
        .into_iter()
        .filter_map(|(name, peak)| Some((name, format!("{}\u{a0}TFLOP/s", rate(peak?.0)))))
        .collect();
    rows.extend([
        ("DRAM bandwidth", format!("{}\u{a0}GB/s", format::count(facts.dram_gbps as u64))),
        ("L2 bandwidth", format!("{}\u{a0}GB/s", format::count(facts.l2_gbps as u64))),
        ("L2 cache", format::bytes(facts.l2_bytes)),
        ("SMs", format::count(facts.sms.into())),
        ("Highest clock", format!("{}\u{a0}MHz", format::count(facts.max_clock_mhz.into()))),
        ("Shared memory, block", format!("{}\u{a0}KiB", facts.smem_per_block / 1024)),
    ]);
    rows
}

/// A peak, which needs no decimals once it is in the hundreds.
fn rate(tflops: f64) -> String {
    if tflops < 100.0 { format::three_digits(tflops) } else { format::count(tflops.round() as u64) }
}
