//! The hardware whose facts Diode has. Rates are the vendors' own figures for dense matrices, at
//! the boost clock. L2 bandwidths were measured where we had the hardware.

use super::{Facts, Hardware, Peaks, Vendor};
use crate::Tflops;

/// One entry of the catalogue.
struct KnownHardware {
    slug: &'static str,
    name: &'static str,
    vendor: Vendor,
    /// Groups of lower-case words. A device name matches if it has all words of one group. More
    /// specific hardware stands before more general hardware, because the first match counts.
    matches: &'static [&'static [&'static str]],
    /// The memory in GB. If devices differ, the largest one counts.
    memory_gb: u64,
    facts: Facts,
}

const fn tflops(value: f64) -> Option<Tflops> {
    Some(Tflops(value))
}

const HOPPER_SXM: Facts = Facts {
    sms: 132,
    max_clock_mhz: 1980,
    peak_clock_mhz: 1830,
    dram_gbps: 3350.0,
    l2_gbps: 7000.0,
    l2_bytes: 60_000_000,
    smem_per_sm: 233_472,
    smem_per_block: 232_448,
    regs_per_sm: 65_536,
    max_warps_per_sm: 64,
    max_blocks_per_sm: 32,
    warp_size: 32,
    peaks: Peaks {
        fp8: tflops(1979.0),
        fp16: tflops(990.0),
        tf32: tflops(495.0),
        fp32: tflops(67.0),
        fp64: tflops(67.0),
        int8: tflops(1979.0),
    },
};

const AMPERE_A100: Facts = Facts {
    sms: 108,
    max_clock_mhz: 1410,
    peak_clock_mhz: 1410,
    dram_gbps: 2039.0,
    l2_gbps: 4800.0,
    l2_bytes: 40_000_000,
    smem_per_sm: 167_936,
    smem_per_block: 166_912,
    regs_per_sm: 65_536,
    max_warps_per_sm: 64,
    max_blocks_per_sm: 32,
    warp_size: 32,
    peaks: Peaks {
        fp8: None,
        fp16: tflops(312.0),
        tf32: tflops(156.0),
        fp32: tflops(19.5),
        fp64: tflops(19.5),
        int8: tflops(624.0),
    },
};

const CDNA3_MI300X: Facts = Facts {
    sms: 304,
    max_clock_mhz: 2100,
    peak_clock_mhz: 2100,
    dram_gbps: 5300.0,
    l2_gbps: 17_200.0,
    l2_bytes: 256_000_000,
    smem_per_sm: 65_536,
    smem_per_block: 65_536,
    regs_per_sm: 131_072,
    max_warps_per_sm: 32,
    max_blocks_per_sm: 32,
    warp_size: 64,
    peaks: Peaks {
        fp8: tflops(2614.9),
        fp16: tflops(1307.4),
        tf32: tflops(653.7),
        fp32: tflops(163.4),
        fp64: tflops(163.4),
        int8: tflops(2614.9),
    },
};

static CATALOGUE: &[KnownHardware] = &[
    KnownHardware {
        slug: "nvidia-h200",
        name: "NVIDIA H200",
        vendor: Vendor::Nvidia,
        matches: &[&["h200"]],
        memory_gb: 141,
        facts: Facts { dram_gbps: 4800.0, ..HOPPER_SXM },
    },
    KnownHardware {
        slug: "nvidia-h100-pcie",
        name: "NVIDIA H100 PCIe",
        vendor: Vendor::Nvidia,
        matches: &[&["h100", "pcie"]],
        memory_gb: 80,
        facts: Facts {
            sms: 114,
            max_clock_mhz: 1755,
            peak_clock_mhz: 1620,
            dram_gbps: 2039.0,
            peaks: Peaks {
                fp8: tflops(1513.0),
                fp16: tflops(756.0),
                tf32: tflops(378.0),
                fp32: tflops(51.0),
                fp64: tflops(51.0),
                int8: tflops(1513.0),
            },
            ..HOPPER_SXM
        },
    },
    KnownHardware {
        slug: "nvidia-h100",
        name: "NVIDIA H100",
        vendor: Vendor::Nvidia,
        matches: &[&["h100"]],
        memory_gb: 80,
        facts: HOPPER_SXM,
    },
    KnownHardware {
        slug: "nvidia-a100",
        name: "NVIDIA A100",
        vendor: Vendor::Nvidia,
        matches: &[&["a100"]],
        memory_gb: 80,
        facts: AMPERE_A100,
    },
    KnownHardware {
        slug: "amd-mi300x",
        name: "AMD Instinct MI300X",
        vendor: Vendor::Amd,
        matches: &[&["mi300x"]],
        memory_gb: 192,
        facts: CDNA3_MI300X,
    },
];

impl KnownHardware {
    fn hardware(&self) -> Hardware {
        Hardware {
            slug: self.slug.parse().unwrap_or_else(|_| unreachable!("catalogue slugs are tested")),
            name: self.name.to_owned(),
            vendor: self.vendor,
            facts: Some(self.facts),
        }
    }
}

/// All hardware of the catalogue.
pub fn catalogue() -> impl Iterator<Item = Hardware> {
    CATALOGUE.iter().map(KnownHardware::hardware)
}

/// Finds hardware by its slug, or by a device name that contains the words of its model.
pub fn find(name: &str) -> Option<Hardware> {
    let lower = name.to_lowercase();
    if let Some(exact) = CATALOGUE.iter().find(|e| e.slug == lower) {
        return Some(exact.hardware());
    }
    // Simulated hardware keeps its own slug, so that made-up times do not pass for real ones.
    if let Some(real) = lower.strip_prefix("simulated").and_then(|rest| rest.strip_prefix(['-', ' '])) {
        return find(real)?.simulated().ok();
    }
    // Whole words must match: `NVIDIA GH200` contains `H200`, but is another product.
    let words: Vec<&str> = lower.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    CATALOGUE
        .iter()
        .find(|e| e.matches.iter().any(|group| group.iter().all(|part| words.contains(part))))
        .map(KnownHardware::hardware)
}

/// The memory in bytes. Simulated hardware has as much as the hardware that it imitates.
pub(super) fn memory(hardware: &Hardware) -> Option<u64> {
    let slug = hardware.slug.as_str();
    let slug = slug.strip_prefix(Hardware::SIMULATED).unwrap_or(slug);
    CATALOGUE.iter().find(|known| known.slug == slug).map(|known| known.memory_gb * 1_000_000_000)
}
