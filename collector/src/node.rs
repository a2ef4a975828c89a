//! What this node has: its CPU, memory and GPUs.

mod cpu;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use diode_core::hardware::{Facts, Hardware, Peaks, Vendor};
use diode_core::ids::HardwareSlug;
use diode_core::{Provenance, Tflops};
use serde::Serialize;

use crate::devices::gpu::{Driver, GpuVendor, NoDriver};
use crate::failure::Usage;

pub(crate) use crate::node::cpu::{Caches, Cpu};

/// The CPU, as the system describes it, and its caches.
#[derive(Debug, Serialize)]
pub(crate) struct Node {
    pub(crate) cpu: Cpu,
    pub(crate) caches: Caches,
}

impl Node {
    pub(crate) fn read() -> Self {
        Self { cpu: Cpu::read(), caches: Caches::read(Path::new("/sys/devices/system/cpu/cpu0/cache")) }
    }

    /// Describes the CPU as hardware. Clock and bandwidths are measured, which takes about half a
    /// second.
    ///
    /// - `sms` is the number of cores that this process may use, and `warp_size` is 1.
    /// - The peak is vector width × multiply-adds per cycle × clock × cores. 16-bit types have the
    ///   same peak, because they are widened and computed in f32.
    /// - The peak uses the clock that the system states. The highest clock is that one or a measured
    ///   one, whichever is greater: many systems state the base clock.
    /// - Bandwidths are measured and rounded up to a preferred number. So two runs on one machine
    ///   give the same facts, and the floor that follows from them is rather too short than too
    ///   long.
    /// - Shared memory stands for a core's private L2, and registers for its architectural vector
    ///   registers.
    pub(crate) fn hardware(&self) -> anyhow::Result<Hardware> {
        let name = format!("CPU {}", self.cpu.model);
        let slug = HardwareSlug::from_name(&name)
            .with_context(|| format!("CPU model `{}`: expected a letter or digit", self.cpu.model))?;
        let measured_mhz = cpu::clock_mhz();
        let clock = self.cpu.mhz.unwrap_or(measured_mhz).max(1);
        let cores = self.cpu.cores;
        let peak = f64::from(self.cpu.vectors.flops_per_cycle) * f64::from(clock) * f64::from(cores) / 1e6;
        let private = u32::try_from(self.caches.private_bytes()).unwrap_or(u32::MAX);
        let last_level = self.caches.last_level_bytes();
        let facts = Facts {
            sms: cores,
            max_clock_mhz: clock.max(measured_mhz),
            peak_clock_mhz: clock,
            dram_gbps: cpu::read_gbps(cpu::beyond(last_level), cores),
            l2_gbps: cpu::read_gbps(last_level / 2, cores),
            l2_bytes: last_level,
            smem_per_sm: private,
            smem_per_block: private,
            regs_per_sm: self.cpu.vectors.registers,
            // A core runs any number of threads in turns. No config asks for more than 32.
            max_warps_per_sm: 32,
            max_blocks_per_sm: 32,
            warp_size: 1,
            peaks: Peaks { fp16: Some(Tflops(peak)), fp32: Some(Tflops(peak)), ..Peaks::default() },
        };
        let hardware = Hardware { slug, name, vendor: Vendor::Cpu, facts: Some(facts) };
        hardware.validate()?;
        Ok(hardware)
    }

    /// The provenance of timings on this CPU: the program, the time, and the node's facts.
    pub(crate) fn provenance(&self) -> anyhow::Result<Provenance> {
        let mut facts = BTreeMap::from([
            ("backend".to_owned(), "cpu".to_owned()),
            ("cpu".to_owned(), self.cpu.model.clone()),
            ("cores".to_owned(), self.cpu.cores.to_string()),
            ("instructions".to_owned(), self.cpu.vectors.name.to_owned()),
            ("os".to_owned(), std::env::consts::OS.to_owned()),
        ]);
        if let Some(bytes) = self.cpu.memory_bytes {
            facts.insert("memory_bytes".to_owned(), bytes.to_string());
        }
        provenance_of(facts)
    }
}

/// The GPUs of this node.
pub(crate) fn gpus() -> anyhow::Result<Vec<Gpu>> {
    let mut gpus = nvidia_gpus()?;
    gpus.extend(amd_gpus()?);
    Ok(gpus)
}

/// The provenance of timings on a node with these facts: the program, the time, and the facts.
pub(crate) fn provenance_of(facts: BTreeMap<String, String>) -> anyhow::Result<Provenance> {
    Ok(Provenance {
        tool: Some(concat!("diode ", env!("CARGO_PKG_VERSION")).to_owned()),
        collected_at: Some(time_of_making()?),
        node: facts,
    })
}

/// The time that a file states, in RFC 3339, to the second. It is the current time, or the seconds
/// since 1970 in `SOURCE_DATE_EPOCH`. Reproducible builds set that variable, so that files come out
/// the same again.
pub(crate) fn time_of_making() -> anyhow::Result<String> {
    let Some(seconds) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        let now = jiff::Timestamp::now();
        return Ok(jiff::Timestamp::from_second(now.as_second()).unwrap_or(now).to_string());
    };
    let seconds = seconds.to_string_lossy();
    let parsed = seconds.parse().ok().and_then(|seconds| jiff::Timestamp::from_second(seconds).ok());
    match parsed {
        Some(time) => Ok(time.to_string()),
        None => {
            Err(Usage::new(format!("SOURCE_DATE_EPOCH: got `{seconds}`, expected seconds since 1970")).into())
        }
    }
}

/// How many bytes of memory could be used now, if the system says.
pub(crate) fn available_memory() -> Option<u64> {
    cpu::meminfo("MemAvailable")
}

/// One GPU of the node.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Gpu {
    pub(crate) hardware: Hardware,
    pub(crate) memory_mib: Option<u64>,
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_watts: Option<f64>,
}

const NVIDIA_SMI_FIELDS: &str = "name,memory.total,driver_version,power.limit";

/// This node's NVIDIA GPUs. There are none if `nvidia-smi` is not installed.
fn nvidia_gpus() -> anyhow::Result<Vec<Gpu>> {
    let query = format!("--query-gpu={NVIDIA_SMI_FIELDS}");
    let run = Command::new("nvidia-smi")
        .args([query.as_str(), "--format=csv,noheader,nounits"])
        .stdin(Stdio::null())
        .output();
    let output = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context("cannot run nvidia-smi")?,
    };
    if !output.status.success() {
        // nvidia-smi prints its errors on stdout as often as on stderr.
        let words = [output.stderr, output.stdout].concat();
        let words = String::from_utf8_lossy(&words);
        bail!("nvidia-smi failed ({}): {}", output.status, words.lines().next().unwrap_or("no message"));
    }
    parse_nvidia_smi(&String::from_utf8_lossy(&output.stdout))
}

fn parse_nvidia_smi(csv: &str) -> anyhow::Result<Vec<Gpu>> {
    csv.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let mut columns = line.split(',').map(str::trim);
            // A field that the driver does not know is `[N/A]` or `[Not Supported]`.
            let mut next = || columns.next().filter(|text| !text.starts_with('['));
            let name =
                next().with_context(|| format!("nvidia-smi: got `{line}`, expected {NVIDIA_SMI_FIELDS}"))?;
            Ok(Gpu {
                hardware: Hardware::from_name(name)?,
                memory_mib: next().and_then(|text| text.parse().ok()),
                driver: next().map(str::to_owned),
                power_limit_watts: next().and_then(|text| text.parse().ok()),
            })
        })
        .collect()
}

/// The version that the kernel module states.
const AMD_DRIVER_VERSION: &str = "/sys/module/amdgpu/version";

/// This node's AMD GPUs. There are none if HIP is not installed.
fn amd_gpus() -> anyhow::Result<Vec<Gpu>> {
    let driver = match Driver::load(GpuVendor::Amd) {
        Err(NoDriver::Missing(..) | NoDriver::NoGpu(_)) => return Ok(Vec::new()),
        loaded => loaded?,
    };
    let version = std::fs::read_to_string(AMD_DRIVER_VERSION).ok().map(|text| text.trim().to_owned());
    let describe = |ordinal| {
        let described = driver.describe(ordinal)?;
        Ok(Gpu {
            hardware: Hardware::from_name(&described.name)?,
            memory_mib: described.memory_bytes.map(|bytes| bytes >> 20),
            driver: version.clone(),
            power_limit_watts: None,
        })
    };
    (0..driver.device_count()?).map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_is_understood() {
        let gpus =
            parse_nvidia_smi("NVIDIA H200, 143771, 570.86.15, 700.00\nNVIDIA X1, [N/A], 570.86.15, [N/A]\n")
                .unwrap();
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].hardware.slug.as_str(), "nvidia-h200");
        assert_eq!((gpus[0].memory_mib, gpus[0].power_limit_watts), (Some(143_771), Some(700.0)));
        assert_eq!((gpus[1].memory_mib, gpus[1].driver.as_deref()), (None, Some("570.86.15")));
        assert_eq!(parse_nvidia_smi("").unwrap(), []);
        assert!(parse_nvidia_smi("[N/A], 1").is_err());
    }
}
