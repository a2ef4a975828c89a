//! The devices of a collection.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::bail;
use clap::{Args, ValueEnum};
use diode_core::hardware::{Hardware, find};
use diode_core::simulated::{Oddities, SimulatedDevice};
use diode_core::{Config, KernelVariant, Method, Problem, Provenance};
use diode_formats::pack::Pack;

use crate::devices::cpu::CpuMeter;
use crate::devices::gpu::{Driver, GpuMeter, GpuOptions, GpuVendor, NoDriver, TORCH};
use crate::devices::{MeasuredConfigs, Meter, Outcome, Quality};
use crate::failure::{Interrupted, Usage, one_line};
use crate::input::arguments;
use crate::interrupt::Interrupt;
use crate::node::{self, Node};

/// Which devices to measure on.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Devices")]
pub(crate) struct DeviceArgs {
    /// What to measure on; auto takes GPUs if there are any
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    /// Kernel pack to launch from, may be given several times; if not given, packs of this node, else of the
    /// server, else one is built here
    #[arg(long, value_name = "PACK")]
    kernels: Vec<PathBuf>,

    /// GPUs to use side by side: 1, or 0,1, or all; if not given, `agent` uses all, and other commands the first
    #[arg(long, value_name = "LIST")]
    device: Option<GpuChoice>,

    /// Whether an agent measures. It uses all GPUs of one kind if none are named, also if some do not start.
    #[arg(skip)]
    pub(crate) for_agent: bool,

    /// Folder with the vendor's multiplications (libcublas and libcublasLt, libhipblaslt), if the system does not find them
    #[arg(long, alias = "cublas", value_name = "FOLDER")]
    library: Option<PathBuf>,

    /// Python with torch, to time what torch runs where the vendor's library has no multiplication: groups
    #[arg(long, value_name = "PYTHON")]
    torch: Option<PathBuf>,

    /// With --backend simulated, the GPU whose times are made up, such as nvidia-h100 [default: nvidia-h200]
    #[arg(long, value_name = "NAME")]
    simulate: Option<String>,

    /// With --backend simulated, what is odd about the device: times=0.5 (a liar), drift=0.1 (times grow by a tenth in a
    /// thousand problems), crash=0.01 (the program dies at one problem in a hundred), separated by commas
    #[arg(long, value_name = "ODDITIES")]
    odd: Option<Oddities>,

    /// How long a GPU may be silent, besides what its kernels take, before its process is ended; 30s if not given
    #[arg(long, value_name = "TIME", value_parser = arguments::duration)]
    gpu_patience: Option<Duration>,
}

const USUAL_PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Backend {
    /// The best this build has on this node
    Auto,
    /// NVIDIA GPUs, with kernels from a pack
    Cuda,
    /// AMD GPUs, with kernels from a pack (not tried on one yet)
    Hip,
    /// A blocked matrix multiplication on this CPU
    Cpu,
    /// Made-up times of a GPU, to try a server out
    Simulated,
}

/// The GPUs to use, by their numbers in the driver's order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum GpuChoice {
    All,
    Numbers(Vec<u32>),
}

impl FromStr for GpuChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        if text == "all" {
            return Ok(Self::All);
        }
        let numbers: Vec<u32> = text
            .split(',')
            .map(str::parse)
            .collect::<Result<_, _>>()
            .map_err(|_| "expected numbers of GPUs such as 0 or 0,1, or `all`")?;
        match (1..numbers.len()).any(|place| numbers[..place].contains(&numbers[place])) {
            true => Err("expected every GPU once"),
            false => Ok(Self::Numbers(numbers)),
        }
    }
}

/// The devices that measure, and the facts about them.
pub(crate) struct Bench {
    pub(crate) meters: Vec<Box<dyn Meter>>,
    /// The place of each meter's device among all devices. Devices that did not start are counted, too.
    pub(crate) places: Vec<usize>,
    /// Why some devices did not start.
    pub(crate) broken: Vec<anyhow::Error>,
    pub(crate) hardware: Hardware,
    pub(crate) provenance: Provenance,
    /// Whether the vendor's library is there, so that its kernel is timed too.
    pub(crate) library: bool,
    /// What kernels must be compiled for; `None` for devices that need no kernels.
    pub(crate) gpu: Option<GpuNode>,
}

impl Bench {
    fn without_gpu(
        meter: impl Meter + 'static,
        hardware: Hardware,
        provenance: Provenance,
        library: bool,
    ) -> Self {
        let (meters, places, broken): (Vec<Box<dyn Meter>>, _, _) =
            (vec![Box::new(meter)], vec![0], Vec::new());
        Self { meters, places, broken, hardware, provenance, library, gpu: None }
    }
}

/// The GPUs of a bench.
pub(crate) struct GpuNode {
    /// The architecture, such as `sm_90`.
    pub(crate) arch: String,
    pub(crate) memory_bytes: u64,
    /// The packs that the user named. If there are none, meters must be given packs before they can measure.
    pub(crate) packs: Vec<PathBuf>,
}

impl DeviceArgs {
    /// The first GPU, with kernels of this pack.
    pub(crate) fn of_pack(pack: &Path) -> Self {
        Self {
            backend: Backend::Auto,
            kernels: vec![pack.to_owned()],
            device: None,
            for_agent: false,
            library: None,
            torch: None,
            simulate: None,
            odd: None,
            gpu_patience: None,
        }
    }

    /// Whether times are made up.
    pub(crate) fn are_simulated(&self) -> bool {
        self.backend == Backend::Simulated
    }

    /// Starts the devices that the flags name.
    pub(crate) fn bench(&self, seed: u64, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        for (name, is_given) in [("--simulate", self.simulate.is_some()), ("--odd", self.odd.is_some())] {
            Usage::refuse_if(
                self.backend != Backend::Simulated && is_given,
                format_args!("{name}: it is about made-up times; leave it out, or add --backend simulated"),
            )?;
        }
        if let Some(vendor) = self.vendor()? {
            return self.gpus(vendor, seed, interrupt);
        }
        Usage::refuse_if(
            self.for_agent && self.backend == Backend::Auto,
            "this node has no GPU that can be used; to measure its CPU, add --backend cpu",
        )?;
        for (is_given, words) in [
            (!self.kernels.is_empty(), "--kernels: packs are for GPUs; leave out --backend cpu or simulated"),
            (self.device.is_some(), "--device: it chooses among GPUs; leave it out, or name a kernel pack"),
            (
                self.library.is_some(),
                "--library: the vendors' libraries are for GPUs; leave it out, or name a kernel pack",
            ),
            (self.torch.is_some(), "--torch: it is for GPUs; leave it out, or name a kernel pack"),
            (
                self.gpu_patience.is_some(),
                "--gpu-patience: it is for GPUs; leave it out, or name a kernel pack",
            ),
        ] {
            Usage::refuse_if(is_given, words)?;
        }
        if self.backend == Backend::Simulated {
            return simulated(self.simulate.as_deref(), seed, self.odd.unwrap_or_default());
        }
        let node = Node::read();
        Ok(Bench::without_gpu(CpuMeter::new(seed)?, node.hardware()?, node.provenance()?, false))
    }

    fn gpus(&self, vendor: GpuVendor, seed: u64, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let patience = self.gpu_patience.unwrap_or(USUAL_PATIENCE);
        let (packs, library, torch) = (self.kernels.clone(), self.library.clone(), self.torch.clone());
        let options = GpuOptions { packs, vendor, library, torch, seed, patience };
        let (mut bench, mut broken): (Option<Bench>, Vec<anyhow::Error>) = (None, Vec::new());
        let mut devices = match &self.device {
            Some(GpuChoice::Numbers(numbers)) => numbers.clone(),
            Some(GpuChoice::All) | None => vec![0],
        };
        let takes_all = self.device == Some(GpuChoice::All) || self.for_agent && self.device.is_none();
        let mut next = 0;
        while let Some(&device) = devices.get(next) {
            let place = next;
            next += 1;
            let started = GpuMeter::start(&options, device, &|| interrupt.requested());
            if place == 0 && takes_all {
                let count = started.as_ref().map_or_else(|_| device_count(vendor), |(_, node)| node.devices);
                devices.extend(1..count);
            }
            let (meter, node) = match started {
                Ok(started) => started,
                Err(error) if self.for_agent && devices.len() > 1 && !error.is::<Interrupted>() => {
                    tell!(Error, { "gpu": device }, "GPU {device} is left out: {}", one_line(&error));
                    broken.push(error.context(format!("GPU {device}")));
                    continue;
                }
                Err(error) => return Err(error),
            };
            for warning in &node.warnings {
                say!("GPU {device}: {warning}");
            }
            let hardware = Hardware::from_name(&node.name)?;
            let meter: Box<dyn Meter> = Box::new(meter);
            match &mut bench {
                None => {
                    let library =
                        [vendor.library_fact(), TORCH].iter().any(|fact| node.facts.contains_key(*fact));
                    let provenance = node::provenance_of(node.facts)?;
                    let (arch, memory_bytes) = (node.arch, node.memory_bytes);
                    let gpu = Some(GpuNode { arch, memory_bytes, packs: self.kernels.clone() });
                    let (meters, places, broken) = (vec![meter], vec![place], Vec::new());
                    bench = Some(Bench { meters, places, broken, hardware, provenance, library, gpu });
                }
                Some(bench) if bench.hardware.slug == hardware.slug => {
                    bench.meters.push(meter);
                    bench.places.push(place);
                }
                Some(_) if self.device.is_none() => {
                    say!("GPU {device} is {} and left out; name it with --device to use it", hardware.name);
                }
                Some(bench) => bail!(
                    "GPU {device} is {}, the others are {}: collect on one kind at a time, chosen with --device",
                    hardware.name,
                    bench.hardware.name
                ),
            }
        }
        match (bench, broken.pop()) {
            (Some(bench), last) => {
                broken.extend(last);
                Ok(Bench { broken, ..bench })
            }
            (None, Some(error)) => Err(error.context("no GPU can be used")),
            (None, None) => Err(Usage::new("--device: expected at least one GPU").into()),
        }
    }

    /// The vendor of the GPUs to measure on, if any. A backend that the user names must fit the packs.
    fn vendor(&self) -> anyhow::Result<Option<GpuVendor>> {
        let named = match self.backend {
            Backend::Cuda => Some(GpuVendor::Nvidia),
            Backend::Hip => Some(GpuVendor::Amd),
            Backend::Cpu | Backend::Simulated => return Ok(None),
            Backend::Auto => None,
        };
        let Some(pack) = self.kernels.first() else { return Ok(named.or_else(present)) };
        let opened = Pack::open(pack)?;
        let (vendor, arch) = (GpuVendor::of_arch(opened.arch()), opened.arch());
        if let Some(named) = named.filter(|named| *named != vendor) {
            let (shown, given, fitting) = (pack.display(), named.backend(), vendor.backend());
            bail!("backend {given}: {shown} is for {arch}; name a pack for it, or use --backend {fitting}");
        }
        Ok(Some(vendor))
    }
}

/// How many GPUs this node has. If the driver does not say, 1.
fn device_count(vendor: GpuVendor) -> u32 {
    Driver::load(vendor).ok().and_then(|driver| driver.device_count().ok()).unwrap_or(1)
}

/// The vendor of this node's GPUs. If a driver does not work, the reason is printed.
fn present() -> Option<GpuVendor> {
    let has_gpu = |vendor: &GpuVendor| {
        let counted = match Driver::load(*vendor) {
            Err(NoDriver::Missing(..) | NoDriver::NoGpu(_)) => return false,
            Err(error) => Err(error.to_string()),
            Ok(driver) => driver.device_count().map_err(|error| error.to_string()),
        };
        counted.map_or_else(
            |error| {
                say!("note: GPUs cannot be used: {error}");
                false
            },
            |count| count > 0,
        )
    };
    [GpuVendor::Nvidia, GpuVendor::Amd].into_iter().find(has_gpu)
}

/// The architecture of this node's first GPU.
pub(crate) fn this_architecture() -> anyhow::Result<String> {
    let Some(vendor) = present() else {
        return Err(
            Usage::new("this node has no GPU: say with --architecture for which to pull packs").into()
        );
    };
    let (packs, library, torch, seed, patience) = (Vec::new(), None, None, 0, USUAL_PATIENCE);
    let options = GpuOptions { packs, vendor, library, torch, seed, patience };
    let (_, node) = GpuMeter::start(&options, 0, &|| false)?;
    Ok(node.arch)
}

/// A bench without a real device. Wherever its times go, the name of the hardware says that they are made up.
fn simulated(name: Option<&str>, seed: u64, oddities: Oddities) -> anyhow::Result<Bench> {
    let name = name.unwrap_or("nvidia-h200");
    let expected = "a GPU of the catalogue, such as nvidia-h200 or nvidia-h100";
    let listed =
        find(name).ok_or_else(|| Usage::new(format!("--simulate: got `{name}`, expected {expected}")))?;
    let hardware = listed.simulated()?;
    let facts = [("backend", "simulated".to_owned()), ("seed", seed.to_string())];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).into();
    let meter = SimulatedMeter::new(hardware.clone(), seed, oddities);
    Ok(Bench::without_gpu(meter, hardware, node::provenance_of(facts)?, true))
}

/// About as long as a quick GPU needs for a problem. Without this wait, a single simulated agent
/// would keep a server busy.
const PER_PROBLEM: Duration = Duration::from_millis(200);
/// How many repeats each config gets.
const REPEATS: usize = 5;

/// A device with made-up times, for trying servers out with many agents.
struct SimulatedMeter {
    device: SimulatedDevice,
    /// A random number that differs in each run.
    luck: u64,
}

impl SimulatedMeter {
    fn new(hardware: Hardware, seed: u64, oddities: Oddities) -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let device = SimulatedDevice::new(hardware, seed).with_oddities(oddities);
        Self { device, luck: since.as_nanos() as u64 }
    }
}

impl Meter for SimulatedMeter {
    fn method(&self) -> Method {
        Method::MEDIAN_COLD_EVENT
    }

    fn measure(
        &mut self,
        problem: &Problem,
        configs: &[Config],
        abandon: &dyn Fn() -> bool,
    ) -> anyhow::Result<Outcome> {
        if abandon() {
            return Ok(Outcome::Abandoned);
        }
        if let Some(why) = KernelVariant::obstacle(problem) {
            return Ok(Outcome::Refused(why));
        }
        thread::sleep(PER_PROBLEM);
        if self.device.begin(problem, self.luck) {
            // The process ends as if it had been killed: it gives nothing back and prints nothing.
            std::process::abort();
        }
        let timed = configs
            .iter()
            .map(|config| (*config, self.device.repeats(problem, config).take(REPEATS).collect()));
        let measured = MeasuredConfigs { timed: timed.collect(), failed: Vec::new() };
        Ok(Outcome::Measured { measured, quality: Quality::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_gpus() {
        assert_eq!("all".parse(), Ok(GpuChoice::All));
        assert_eq!("0,3".parse(), Ok(GpuChoice::Numbers(vec![0, 3])));
        for bad in ["", "cuda", "-1", "0,0", "0,"] {
            assert!(bad.parse::<GpuChoice>().is_err(), "{bad}");
        }
    }
}
