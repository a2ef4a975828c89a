//! The hardware that problems run on.

mod catalogue;

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::ids::HardwareSlug;
use crate::named_enum::named_enum;
use crate::{DType, Method, Micros, Problem, Tflops};

pub use crate::hardware::catalogue::{catalogue, find};

named_enum! {
    /// Who makes the hardware. The vendor decides which configs a space has.
    Vendor("vendor") {
        Nvidia = "nvidia",
        Amd = "amd",
        Cpu = "cpu",
    }
}

impl Vendor {
    /// The library that computes matrix multiplications beside Triton's configs.
    pub const fn library(self) -> &'static str {
        match self {
            Self::Nvidia => "cuBLAS",
            Self::Amd => "hipBLASLt",
            Self::Cpu => "the library",
        }
    }
}

/// The highest dense arithmetic rate per input type, in 10¹² operations per second.
///
/// `None` where the hardware has no unit for the type, or nobody has said.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Peaks {
    #[serde(default)]
    pub fp8: Option<Tflops>,
    #[serde(default)]
    pub fp16: Option<Tflops>,
    #[serde(default)]
    pub tf32: Option<Tflops>,
    #[serde(default)]
    pub fp32: Option<Tflops>,
    #[serde(default)]
    pub fp64: Option<Tflops>,
    #[serde(default)]
    pub int8: Option<Tflops>,
}

/// The facts that features and rooflines are computed from.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Facts {
    /// Streaming multiprocessors, compute units, or CPU cores.
    pub sms: u32,
    /// The highest clock, in MHz; physical floors assume it.
    pub max_clock_mhz: u32,
    /// The clock that `peaks` are quoted at, in MHz.
    pub peak_clock_mhz: u32,
    /// DRAM bandwidth in GB/s.
    pub dram_gbps: f64,
    /// Last-level cache bandwidth in GB/s.
    pub l2_gbps: f64,
    pub l2_bytes: u64,
    /// Shared memory (LDS, or private L2 of a core) per SM.
    pub smem_per_sm: u32,
    /// The most that one block may use of it.
    pub smem_per_block: u32,
    /// 32-bit registers per SM.
    pub regs_per_sm: u32,
    pub max_warps_per_sm: u32,
    pub max_blocks_per_sm: u32,
    pub warp_size: u32,
    pub peaks: Peaks,
}

impl Facts {
    /// The peak arithmetic rate for inputs of a type. For float32 it depends on `allow_tf32`.
    pub fn peak(&self, dtype: DType, allow_tf32: bool) -> Option<Tflops> {
        let p = &self.peaks;
        match dtype {
            DType::Float16 | DType::BFloat16 => p.fp16,
            DType::Float32 if allow_tf32 => p.tf32.or(p.fp32),
            DType::Float32 => p.fp32,
            DType::Float64 => p.fp64,
            DType::Float8E4M3 | DType::Float8E4M3Fnuz | DType::Float8E5M2 => p.fp8,
            DType::Int8 | DType::Bool => p.int8,
            DType::Int16 | DType::Int32 | DType::Int64 => None,
        }
    }

    /// Refuses facts with which a formula would give nonsense, such as counts of 0.
    pub fn validate(&self) -> Result<(), Invalid> {
        let counts = [
            ("sms", self.sms),
            ("max_clock_mhz", self.max_clock_mhz),
            ("peak_clock_mhz", self.peak_clock_mhz),
            ("smem_per_sm", self.smem_per_sm),
            ("smem_per_block", self.smem_per_block),
            ("regs_per_sm", self.regs_per_sm),
            ("max_warps_per_sm", self.max_warps_per_sm),
            ("max_blocks_per_sm", self.max_blocks_per_sm),
            ("warp_size", self.warp_size),
        ];
        for (name, value) in counts {
            if value == 0 {
                return Err(Invalid::new(name, value, "more than 0"));
            }
        }
        let p = &self.peaks;
        let peaks =
            [p.fp8, p.fp16, p.tf32, p.fp32, p.fp64, p.int8].into_iter().flatten().map(|t| ("peak", t.0));
        let rates = [("dram_gbps", self.dram_gbps), ("l2_gbps", self.l2_gbps)];
        for (name, value) in rates.into_iter().chain(peaks) {
            if !(value.is_finite() && value > 0.0) {
                return Err(Invalid::new(name, value, "a finite rate above 0"));
            }
        }
        Ok(())
    }
}

/// A kind of hardware.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Hardware {
    pub slug: HardwareSlug,
    /// The name as the device or file gave it: `NVIDIA H200`.
    pub name: String,
    pub vendor: Vendor,
    /// `None` for hardware that is not in the catalogue and did not describe itself.
    #[serde(default)]
    pub facts: Option<Facts>,
}

impl Hardware {
    /// Whether it multiplies scaled operands of a type: int8, or its vendor's fp8, if it has a rate for it.
    pub fn scales(&self, dtype: DType) -> bool {
        let is_its_own = match dtype {
            DType::Int8 => self.vendor != Vendor::Cpu,
            DType::Float8E4M3 => self.vendor == Vendor::Nvidia,
            DType::Float8E4M3Fnuz => self.vendor == Vendor::Amd,
            _ => false,
        };
        is_its_own && self.facts.is_some_and(|facts| facts.peak(dtype, false).is_some())
    }

    /// No real device has a longer name.
    const MAX_NAME: usize = 256;

    /// The hardware for a device name or a file's key: from the catalogue, or else new hardware
    /// without facts.
    pub fn from_name(name: &str) -> Result<Self, Invalid> {
        if let Some(known) = find(name) {
            let known = Self { name: name.to_owned(), ..known };
            return known.validate().map(|()| known);
        }
        let slug =
            HardwareSlug::from_name(name).filter(|_| name.len() <= Self::MAX_NAME).ok_or_else(|| {
                Invalid::new(
                    "hardware name",
                    format_args!("`{name:.64}`"),
                    "a device name with at least one letter or digit and at most 256 bytes",
                )
            })?;
        let lower = name.to_lowercase();
        let vendor = if lower.contains("amd") && (lower.contains("instinct") || lower.contains(" mi")) {
            Vendor::Amd
        } else if ["cpu", "xeon", "epyc", "core(tm)", "ryzen"].iter().any(|word| lower.contains(word)) {
            Vendor::Cpu
        } else {
            Vendor::Nvidia
        };
        let new = Self { slug, name: name.to_owned(), vendor, facts: None };
        new.validate().map(|()| new)
    }

    /// The slug of simulated hardware begins with this.
    const SIMULATED: &'static str = "simulated-";

    /// The simulated form of this hardware, for made-up times.
    pub fn simulated(&self) -> Result<Self, Invalid> {
        let slug = format!("{}{}", Self::SIMULATED, self.slug).parse()?;
        Ok(Self { slug, name: format!("Simulated {}", self.name), ..self.clone() })
    }

    /// Whether the times of this hardware are made up, to try a server out.
    pub fn is_simulated(&self) -> bool {
        self.slug.as_str().starts_with(Self::SIMULATED)
    }

    /// The catalogue's entry for this hardware; `None` if there is none.
    pub fn listed(&self) -> Option<Self> {
        find(self.slug.as_str()).filter(|listed| listed.slug == self.slug)
    }

    /// Checks hardware that came from outside.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.name.is_empty() || self.name.len() > Self::MAX_NAME {
            return Err(Invalid::new(
                "hardware name",
                format_args!("{} bytes", self.name.len()),
                "1 to 256 bytes",
            ));
        }
        if let Some(stray) = self.name.chars().find(|&c| is_stray(c)) {
            return Err(Invalid::new(
                "hardware name",
                format_args!("the character U+{:04X}", u32::from(stray)),
                "letters, digits, blanks and punctuation other than < and >",
            ));
        }
        self.facts.as_ref().map_or(Ok(()), Facts::validate)
    }
}

/// Whether a character can only serve to deceive people or programs. These are control characters,
/// invisible characters, characters that change the direction of text, and the characters `<` and
/// `>` that markup has. No device's name has one of them.
pub fn is_stray(c: char) -> bool {
    is_unseen(c) || matches!(c, '<' | '>')
}

/// Whether a character is invisible, or changes the order in which other characters are shown.
pub fn is_unseen(c: char) -> bool {
    let unseen = matches!(c,
        '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}');
    c.is_control() || unseen
}

/// The error for a problem that needs more memory than the hardware has.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{dims} needs {} for A, B and the output, and {hardware} has {}", bytes(*.needed), bytes(*.memory as f64))]
pub struct TooLarge {
    dims: String,
    hardware: String,
    /// In bytes.
    needed: f64,
    /// In bytes.
    memory: u64,
}

/// Refuses a problem that no device of the hardware can hold. If the memory is not known, every
/// problem is accepted.
pub fn fits(hardware: &Hardware, problem: &Problem) -> Result<(), TooLarge> {
    let Some(memory) = catalogue::memory(hardware) else { return Ok(()) };
    let needed = problem.memory();
    if needed <= memory as f64 {
        return Ok(());
    }
    Err(TooLarge { dims: problem.dims(), hardware: hardware.name.clone(), needed, memory })
}

/// A number of bytes for people: `141 GB`, `4.19 TB`.
fn bytes(count: f64) -> String {
    const UNITS: [(&str, f64); 4] = [("GB", 1e9), ("TB", 1e12), ("PB", 1e15), ("EB", 1e18)];
    let fits = |(_, size): &&(&str, f64)| count / size < 999.5;
    let (unit, size) = UNITS.iter().find(fits).unwrap_or(&UNITS[3]);
    let value = count / size;
    let decimals = match value {
        _ if value < 9.995 => 2,
        _ if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$} {unit}")
}

/// The time that arithmetic and DRAM traffic alone would take at the quoted peaks. Measured times
/// are compared with it.
///
/// `None` if the hardware has no peak for the problem's dtype.
pub fn roofline(facts: &Facts, problem: &Problem, allow_tf32: bool) -> Option<Micros> {
    let peak = facts.peak(problem.a_dtype, allow_tf32)?;
    let compute = problem.flops() / (peak.0 * 1e6);
    let memory = problem.bytes() / (facts.dram_gbps * 1e3);
    Some(Micros(compute.max(memory)))
}

/// The shortest time that the hardware allows. A shorter time is a mistake or a forgery.
///
/// Unlike the roofline, it assumes the highest clock and counts no DRAM traffic for data that may
/// have stayed in the last-level cache. Of grouped problems it counts the fewest groups.
pub fn floor(facts: &Facts, problem: &Problem, method: Method, allow_tf32: bool) -> Option<Micros> {
    let peak = facts.peak(problem.a_dtype, allow_tf32)?;
    let boost = f64::from(facts.max_clock_mhz) / f64::from(facts.peak_clock_mhz);
    let compute = problem.flops() / (peak.0 * boost * 1e6);
    // Even after a cold start the cache may hold the end of the output instead of writing it to
    // DRAM.
    let resident = if method.is_cold() {
        output_bytes(problem).min(facts.l2_bytes as f64)
    } else {
        facts.l2_bytes as f64
    };
    let memory = (problem.least_bytes() - resident).max(0.0) / (facts.dram_gbps * 1e3);
    Some(Micros(compute.max(memory)))
}

fn output_bytes(problem: &Problem) -> f64 {
    problem.b as f64 * problem.rows() as f64 * problem.n as f64 * problem.out_dtype.size() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_resolve_to_the_catalogue() {
        for (name, slug) in [
            ("NVIDIA H200", "nvidia-h200"),
            ("NVIDIA H100 80GB HBM3", "nvidia-h100"),
            ("NVIDIA H100", "nvidia-h100"),
            ("NVIDIA H100 PCIe", "nvidia-h100-pcie"),
            ("NVIDIA A100-SXM4-80GB", "nvidia-a100"),
            ("AMD Instinct MI300X", "amd-mi300x"),
            ("nvidia-h200", "nvidia-h200"),
        ] {
            let hardware = Hardware::from_name(name).unwrap();
            assert_eq!(hardware.slug.as_str(), slug, "{name}");
            assert!(hardware.facts.is_some(), "{name}");
        }
    }

    #[test]
    fn simulated_hardware_never_passes_for_the_real() {
        let real = find("nvidia-h200").unwrap();
        for name in ["simulated-nvidia-h200", "Simulated NVIDIA H200"] {
            let hardware = Hardware::from_name(name).unwrap();
            assert_eq!(hardware.slug.as_str(), "simulated-nvidia-h200", "{name}");
            assert!(hardware.is_simulated() && !real.is_simulated());
            assert_eq!(hardware.facts, real.facts);
        }
    }

    #[test]
    fn unknown_hardware_is_kept_without_facts() {
        let hardware = Hardware::from_name("NVIDIA Z9000").unwrap();
        assert_eq!(hardware.slug.as_str(), "nvidia-z9000");
        assert_eq!(hardware.facts, None);
        assert!(Hardware::from_name("  ").is_err());
    }

    #[test]
    fn names_hold_nothing_that_deceives() {
        let named =
            |name: &str| Hardware { name: name.to_owned(), ..find("nvidia-h200").unwrap() }.validate();
        for good in
            ["NVIDIA H200", "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "AMD Radeon™ RX 7900", "显卡"]
        {
            assert_eq!(named(good), Ok(()), "{good}");
        }
        for bad in
            ["NVIDIA\0H200", "NVIDIA\nH200", "H\u{202e}002", "H\u{200b}200", "<script>alert(1)</script>"]
        {
            assert!(named(bad).unwrap_err().to_string().contains("the character U+"), "{bad}");
        }
    }

    #[test]
    fn the_catalogue_is_valid() {
        for hardware in catalogue() {
            hardware.validate().unwrap();
        }
    }
}

#[cfg(test)]
mod memory_tests {
    use super::*;
    use crate::{DType, Op, ProblemFields};
    use find;

    fn said(hardware: &str, [m, n, k]: [u64; 3]) -> Option<String> {
        let hardware = find(hardware).unwrap();
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).unwrap();
        fits(&hardware, &problem).err().map(|error| error.to_string())
    }

    #[test]
    fn what_is_larger_than_the_memory_is_refused_in_words() {
        assert_eq!(said("nvidia-h200", [4096, 4096, 4096]), None);
        assert_eq!(
            said("nvidia-h200", [1_000_000_000, 4096, 4096]).unwrap(),
            "1000000000×4096×4096 needs 16.4 TB for A, B and the output, and NVIDIA H200 has 141 GB"
        );
        assert_eq!(
            said("nvidia-h200", [1 << 31; 3]).unwrap(),
            "2147483648×2147483648×2147483648 needs 27.7 EB for A, B and the output, and NVIDIA H200 has 141 GB"
        );
    }

    #[test]
    fn each_hardware_has_its_own_memory() {
        let cube = [131_072; 3];
        assert_eq!(said("nvidia-h200", cube), None);
        assert!(said("nvidia-h100", cube).is_some());
        assert!(said("simulated-nvidia-h100", cube).is_some());
        let unknown = Hardware::from_name("NVIDIA Z9000").unwrap();
        let problem =
            Problem::new(ProblemFields::plain(Op::Mm, 1, 1 << 31, 1, 1 << 31, DType::Int8)).unwrap();
        assert_eq!(fits(&unknown, &problem), Ok(()));
    }
}

#[cfg(test)]
mod roofline_tests {
    use super::*;
    use crate::{DType, Op, ProblemFields};
    use find;

    #[test]
    fn the_h200_roofline_bends_where_it_should() {
        let facts = find("NVIDIA H200").and_then(|h| h.facts).unwrap();
        let problem =
            |m| Problem::new(ProblemFields::plain(Op::Mm, 1, m, 4096, 4096, DType::BFloat16)).unwrap();
        let big = roofline(&facts, &problem(4096), false).unwrap();
        assert!((big.0 - 138.8).abs() < 0.1, "compute-bound: {big:?}");
        let decode = roofline(&facts, &problem(1), false).unwrap();
        assert!((decode.0 - 6.99).abs() < 0.01, "memory-bound: {decode:?}");
        assert!(floor(&facts, &problem(4096), Method::Unspecified, false).unwrap() < big);
    }
}
