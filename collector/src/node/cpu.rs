//! The CPU as Linux describes it in `/proc`. On other systems, what Rust itself can tell.

use std::fs;
use std::thread;

use serde::Serialize;

/// One node's CPU.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Cpu {
    pub(crate) model: String,
    /// Cores that this process may use.
    pub(crate) cores: u32,
    /// The highest clock if the system states it, else the current clock.
    pub(crate) mhz: Option<u32>,
    pub(crate) vectors: Vectors,
    pub(crate) memory_bytes: Option<u64>,
}

/// The widest vector instructions of the CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Vectors {
    pub(crate) name: &'static str,
    /// f32 operations per cycle and core. A multiply-add counts as two.
    pub(crate) flops_per_cycle: u32,
    /// The size of all architectural vector registers, in 32-bit words.
    pub(crate) registers: u32,
}

impl Cpu {
    pub(crate) fn read() -> Self {
        // Only Linux has both files. Elsewhere, facts are left out or come from the target that
        // `diode` was compiled for.
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let highest = fs::read_to_string("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq").ok();
        let mut cpu = Self::parse(&cpuinfo);
        if let Some(khz) = highest.and_then(|text| text.trim().parse::<u32>().ok()) {
            cpu.mhz = Some(khz / 1000);
        }
        cpu.cores = thread::available_parallelism().map_or(1, |cores| cores.get() as u32);
        cpu.memory_bytes = meminfo("MemTotal");
        cpu
    }

    fn parse(cpuinfo: &str) -> Self {
        let field = |name: &str| {
            cpuinfo.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                (key.trim() == name).then(|| value.trim())
            })
        };
        let model = field("model name").map_or_else(
            || format!("{} {}", std::env::consts::ARCH, field("CPU part").unwrap_or("unknown model")),
            str::to_owned,
        );
        let flags = field("flags").or_else(|| field("Features")).unwrap_or_default();
        // Zen 3 and Zen 4 share a family. Only Zen 4 has 512-bit registers, and its units are half as wide.
        let halved = field("vendor_id") == Some("AuthenticAMD") && field("cpu family") == Some("25");
        Self {
            model,
            cores: 1,
            mhz: field("cpu MHz").and_then(|mhz| mhz.parse::<f64>().ok()).map(|mhz| mhz.round() as u32),
            vectors: Vectors::from_flags(flags, halved),
            memory_bytes: None,
        }
    }
}

impl Vectors {
    /// Assumes two multiply-add units per core, as every server core of the last ten years has for its widest
    /// vectors. Without multiply-add, one unit multiplies four numbers per cycle and another adds four.
    fn from_flags(flags: &str, halved_512: bool) -> Self {
        let has = |flag: &str| flags.split_whitespace().any(|f| f == flag);
        if has("avx512f") {
            let flops_per_cycle = if halved_512 { 32 } else { 64 };
            Self { name: "avx512", flops_per_cycle, registers: 512 }
        } else if has("avx2") && has("fma") {
            Self { name: "avx2", flops_per_cycle: 32, registers: 128 }
        } else if has("asimd") || cfg!(target_arch = "aarch64") {
            Self { name: "neon", flops_per_cycle: 16, registers: 128 }
        } else {
            Self { name: "128-bit", flops_per_cycle: 8, registers: 64 }
        }
    }
}

/// The value of a line in `/proc/meminfo`, in bytes.
pub(super) fn meminfo(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find(|line| line.split(':').next() == Some(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpuinfo_is_understood() {
        let epyc = "processor\t: 0\nvendor_id\t: AuthenticAMD\ncpu family\t: 25\nmodel name\t: AMD EPYC\n\
                    cpu MHz\t\t: 2596.132\nflags\t\t: fpu avx2 fma avx512f\n";
        let cpu = Cpu::parse(epyc);
        assert_eq!((cpu.model.as_str(), cpu.mhz, cpu.vectors.flops_per_cycle), ("AMD EPYC", Some(2596), 32));
        let xeon = epyc.replace("AuthenticAMD", "GenuineIntel").replace("25", "6");
        assert_eq!(Cpu::parse(&xeon).vectors.flops_per_cycle, 64);
        assert_eq!(Cpu::parse("flags : fpu avx2 fma").vectors.name, "avx2");
        let old = Cpu::parse("flags : fpu sse2").vectors;
        assert_eq!((old.name, old.flops_per_cycle), ("128-bit", 8));
        assert_eq!(Cpu::parse("Features : fp asimd\nCPU part : 0xd0c").vectors.name, "neon");
    }

    #[test]
    fn this_machine_has_cores() {
        let cpu = Cpu::read();
        assert!(cpu.cores >= 1 && !cpu.model.is_empty(), "{cpu:?}");
    }
}
