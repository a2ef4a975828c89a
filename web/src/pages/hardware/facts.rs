//! The facts from which rooflines and features are computed.

use std::sync::Arc;

use diode_api::HardwareSummary;
use diode_core::hardware::{Facts, Vendor};
use leptos::prelude::*;

use super::downloads::Downloads;
use crate::format;

/// The hardware's facts, and downloads of everything measured.
#[component]
pub(super) fn FactsCard(summary: Arc<HardwareSummary>) -> impl IntoView {
    let rows = summary.hardware.facts.map(|facts| rows(summary.hardware.vendor, &facts)).unwrap_or_default();
    let unknown = rows.is_empty().then(|| {
        view! { <p class="hint">"Nobody has described this hardware yet, so there is no roofline to compare with."</p> }
    });
    view! {
        <aside class="card" aria-label="Facts">
            <h2>"Facts"</h2>
            {unknown}
            <dl class="facts">
                {rows.into_iter().map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> }).collect_view()}
            </dl>
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
