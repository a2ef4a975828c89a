use clap::Args;
use diode_core::hardware::Hardware;
use serde::Serialize;

use crate::node::{Caches, Cpu, Gpu, Node, gpus};
use crate::output;

/// Describe this node: CPU, caches, memory and GPUs
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode detect --json")]
pub(crate) struct Detect {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report {
    /// The hardware that `diode collect` would give its timings.
    hardware: Hardware,
    cpu: Cpu,
    caches: Caches,
    gpus: Vec<Gpu>,
    /// Why GPUs could not be listed, if a driver is there and failed.
    gpu_error: Option<String>,
}

impl Detect {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let node = Node::read();
        let hardware = node.hardware()?;
        let (gpus, gpu_error) = match gpus() {
            Ok(gpus) => (gpus, None),
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        let report = Report { hardware, cpu: node.cpu, caches: node.caches, gpus, gpu_error };
        if self.json { output::json(&report) } else { output::text_out(&in_words(&report)) }
    }
}

fn in_words(report: &Report) -> String {
    let bytes = |bytes: Option<u64>| bytes.map_or("unknown".to_owned(), size);
    let cpu = &report.cpu;
    let mut rows = vec![
        ("Hardware", report.hardware.slug.to_string()),
        ("CPU", cpu.model.clone()),
        ("Cores", format!("{} usable, {} vectors", cpu.cores, cpu.vectors.name)),
        ("Memory", bytes(cpu.memory_bytes)),
        (
            "Caches",
            format!(
                "L1d {}, L2 {}, L3 {}",
                bytes(report.caches.l1d_bytes),
                bytes(report.caches.l2_bytes),
                bytes(report.caches.l3_bytes)
            ),
        ),
    ];
    if let Some(facts) = &report.hardware.facts {
        let peak = facts.peaks.fp32.map_or("unknown".to_owned(), |peak| output::rate(peak.0));
        rows.push(("Clock", format!("{} MHz, up to {} MHz", facts.peak_clock_mhz, facts.max_clock_mhz)));
        rows.push(("Peak", format!("{peak} (f32, computed)")));
        rows.push((
            "Bandwidth",
            format!(
                "memory {:.0} GB/s, last-level cache {:.0} GB/s (measured)",
                facts.dram_gbps, facts.l2_gbps
            ),
        ));
    }
    for gpu in &report.gpus {
        let memory = gpu.memory_mib.map_or("unknown memory".to_owned(), |mib| size(mib << 20));
        let driver = gpu.driver.as_deref().unwrap_or("unknown");
        rows.push((
            "GPU",
            format!("{} ({}), {memory}, driver {driver}", gpu.hardware.name, gpu.hardware.slug),
        ));
    }
    if let Some(error) = &report.gpu_error {
        rows.push(("GPU", format!("unknown: {error}")));
    } else if report.gpus.is_empty() {
        rows.push(("GPU", "none found (neither nvidia-smi nor HIP lists one)".to_owned()));
    }
    rows.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

/// The size in the largest binary unit that gives at least 1.
fn size(bytes: u64) -> String {
    let (unit, name) = match bytes {
        b if b >= 1 << 30 => (1_u64 << 30, "GiB"),
        b if b >= 1 << 20 => (1 << 20, "MiB"),
        _ => (1 << 10, "KiB"),
    };
    format!("{} {name}", output::significant(bytes as f64 / unit as f64))
}
