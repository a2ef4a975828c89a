//! The CPU as Linux describes it in `/proc`. On other systems, what Rust itself can tell.

use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{fs, thread};

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

/// The caches of the first core. `None` if the system does not state a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Caches {
    pub(crate) l1d_bytes: Option<u64>,
    pub(crate) l2_bytes: Option<u64>,
    pub(crate) l3_bytes: Option<u64>,
}

/// The L2 cache that every core of the last ten years has at least. Used if the system does not
/// state it.
const USUAL_L2: u64 = 256 << 10;

impl Caches {
    /// Reads the `index*` folders of `/sys/devices/system/cpu/cpu0/cache`.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut caches = Self::default();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let text = |name: &str| {
                fs::read_to_string(entry.path().join(name)).map(|t| t.trim().to_owned()).unwrap_or_default()
            };
            let size = parse_size(&text("size"));
            match (text("level").as_str(), text("type").as_str()) {
                ("1", "Data") => caches.l1d_bytes = size,
                ("2", _) => caches.l2_bytes = size,
                ("3", _) => caches.l3_bytes = size,
                _ => {}
            }
        }
        caches
    }

    /// The size of a core's own L2 cache.
    pub(crate) fn private_bytes(&self) -> u64 {
        self.l2_bytes.unwrap_or(USUAL_L2)
    }

    /// The size of the last cache before memory.
    pub(crate) fn last_level_bytes(&self) -> u64 {
        self.l3_bytes.unwrap_or_else(|| self.private_bytes())
    }
}

/// Parses `32K`, `1024K` or `32M`.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale).filter(|&bytes| bytes > 0)
}

/// The clock of a busy core. It times a chain in which an exclusive or and an addition alternate.
/// Each takes one cycle on every CPU and needs the result before it. The clock is rounded up to 100
/// MHz. Interruptions can only make a run slower, so the best of many short runs counts.
pub(super) fn clock_mhz() -> u32 {
    const STEPS: u32 = 200_000;
    const CYCLES_PER_STEP: f64 = 2.0;
    const RUNS: usize = 60;
    let best = (0..RUNS)
        .map(|_| {
            let (mut x, flip, add) = (black_box(1_u64), black_box(0x5555_5555), black_box(12_345));
            let start = Instant::now();
            for _ in 0..STEPS {
                x = (x ^ flip).wrapping_add(add);
            }
            black_box(x);
            start.elapsed()
        })
        .min()
        .unwrap_or(Duration::MAX);
    let mhz = f64::from(STEPS) * CYCLES_PER_STEP / best.as_secs_f64() / 1e6;
    (mhz / 100.0).ceil() as u32 * 100
}

/// How many bytes to read so that they cannot all come from a cache of this size.
pub(super) fn beyond(cache_bytes: u64) -> u64 {
    /// The most bytes to read. They exceed any cache and are quickly filled.
    const MOST: u64 = 256 << 20;
    (cache_bytes * 4).clamp(32 << 20, MOST)
}

/// The rate in GB/s at which `threads` threads together read `bytes` again and again. It is rounded
/// up to a preferred number.
pub(super) fn read_gbps(bytes: u64, threads: u32) -> f64 {
    const TIME: Duration = Duration::from_millis(120);
    const MIN_PASSES: usize = 3;
    let words = usize::try_from(bytes / 8).unwrap_or(usize::MAX).max(1 << 12);
    let data = vec![1_u64; words];
    let part = words.div_ceil(threads.max(1) as usize);
    let began = Instant::now();
    let mut best = Duration::MAX;
    let mut passes = 0;
    // The first pass also brings the data into the caches, so it does not count.
    while passes <= MIN_PASSES || began.elapsed() < TIME {
        let start = Instant::now();
        thread::scope(|scope| {
            for part in data.chunks(part) {
                scope.spawn(move || black_box(sum(part)));
            }
        });
        if passes > 0 {
            best = best.min(start.elapsed());
        }
        passes += 1;
    }
    round_up((words * 8) as f64 / best.as_secs_f64() / 1e9)
}

/// Several sums side by side, so that reads never wait for additions.
fn sum(words: &[u64]) -> u64 {
    let mut sums = [0_u64; 16];
    let chunks = words.chunks_exact(16);
    let rest: u64 = chunks.remainder().iter().sum();
    for chunk in chunks {
        for (sum, word) in sums.iter_mut().zip(chunk) {
            *sum = sum.wrapping_add(*word);
        }
    }
    sums.iter().sum::<u64>() + rest
}

/// The next larger R5 preferred number (10, 16, 25, 40, 63, 100, …).
fn round_up(value: f64) -> f64 {
    const STEPS: [f64; 6] = [1.0, 1.6, 2.5, 4.0, 6.3, 10.0];
    let decade = 10_f64.powf(value.log10().floor());
    let rounded = STEPS.into_iter().map(|step| step * decade).find(|step| *step >= value);
    rounded.unwrap_or(10.0 * decade)
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

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1024K"), Some(1 << 20));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("64"), Some(64));
        for bad in ["", "K", "0K", "1G2", "99999999999999999999K"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_system_that_says_nothing_gets_the_usual() {
        let caches = Caches::read(Path::new("/nonexistent"));
        assert_eq!(caches, Caches::default());
        assert_eq!(caches.last_level_bytes(), USUAL_L2);
    }

    #[test]
    fn preferred_numbers() {
        for (value, rounded) in [(1.0, 1.0), (10.1, 16.0), (17.0, 25.0), (39.0, 40.0), (64.0, 100.0)] {
            assert!((round_up(value) - rounded).abs() < 1e-9, "{value} became {}", round_up(value));
        }
    }

    #[test]
    fn measurements_are_plausible() {
        let mhz = clock_mhz();
        assert!((300..=8000).contains(&mhz), "{mhz} MHz");
        let gbps = read_gbps(1 << 20, 2);
        assert!((0.1..1e5).contains(&gbps), "{gbps} GB/s");
    }
}
