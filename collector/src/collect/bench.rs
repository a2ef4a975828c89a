//! The devices of a collection.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diode_core::Provenance;
use diode_core::hardware::Hardware;
use diode_formats::pack::Pack;

use crate::devices::cpu::CpuMeter;
use crate::devices::gpu::choice::GpuChoice;
use crate::devices::gpu::vendor::Vendor;
use crate::devices::gpu::{Driver, GpuMeter, GpuOptions, NoDriver};
use crate::devices::meter::Meter;
use crate::devices::simulated::SimulatedMeter;
use crate::failure::Usage;
use crate::input::arguments;
use crate::interrupt::Interrupt;
use crate::node::{self, Node};

/// Which devices to measure on.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeviceArgs {
    /// What to measure on; auto takes GPUs if there are any
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    /// Kernel pack to launch from, may be given several times; if not given, packs of this node, else of the
    /// server, else one is built
    #[arg(long, value_name = "PACK")]
    kernels: Vec<PathBuf>,

    /// GPUs to use side by side, instead of the first alone: 1, or 0,1, or all
    #[arg(long, value_name = "LIST")]
    device: Option<GpuChoice>,

    /// Folder with the vendor's multiplications (libcublas and libcublasLt, libhipblaslt), if the system does not find them
    #[arg(long, alias = "cublas", value_name = "FOLDER")]
    library: Option<PathBuf>,

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
    /// Made-up times of an NVIDIA H200, to try a server out
    Simulated,
}

/// What measures, and what it measures on.
pub(crate) struct Bench {
    pub(crate) meters: Vec<Box<dyn Meter>>,
    pub(crate) hardware: Hardware,
    pub(crate) provenance: Provenance,
    /// Whether the vendor's library is there to be timed too.
    pub(crate) library: bool,
    /// What kernels must be for; `None` for devices that need none.
    pub(crate) gpu: Option<GpuNode>,
}

/// The GPUs of a bench.
pub(crate) struct GpuNode {
    /// Such as `sm_90`.
    pub(crate) arch: String,
    pub(crate) memory_bytes: u64,
    /// The packs that were named. Without any, nothing can be measured until a meter is given some.
    pub(crate) packs: Vec<PathBuf>,
}

impl DeviceArgs {
    /// The devices to measure on.
    pub(crate) fn bench(&self, seed: u64, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        if let Some(vendor) = self.vendor()? {
            return self.gpus(vendor, seed, interrupt);
        }
        if !self.kernels.is_empty() {
            let words = "--kernels: packs are for GPUs; leave out --backend cpu or simulated";
            return Err(Usage::new(words).into());
        }
        if self.device.is_some() {
            return Err(
                Usage::new("--device: it chooses among GPUs; leave it out, or name a kernel pack").into()
            );
        }
        if self.library.is_some() {
            return Err(Usage::new(
                "--library: the vendors' libraries are for GPUs; leave it out, or name a kernel pack",
            )
            .into());
        }
        if self.gpu_patience.is_some() {
            return Err(
                Usage::new("--gpu-patience: it is for GPUs; leave it out, or name a kernel pack").into()
            );
        }
        if self.backend == Backend::Simulated {
            return simulated(seed);
        }
        let node = Node::read();
        let meter: Box<dyn Meter> = Box::new(CpuMeter::new(seed)?);
        Ok(Bench {
            meters: vec![meter],
            hardware: node.hardware()?,
            provenance: node.provenance()?,
            library: false,
            gpu: None,
        })
    }

    fn gpus(&self, vendor: Vendor, seed: u64, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let patience = self.gpu_patience.unwrap_or(USUAL_PATIENCE);
        let (packs, library) = (self.kernels.clone(), self.library.clone());
        let options = GpuOptions { packs, vendor, library, seed, patience };
        let mut bench: Option<Bench> = None;
        let mut devices = match &self.device {
            Some(GpuChoice::Numbers(numbers)) => numbers.clone(),
            Some(GpuChoice::All) | None => vec![0],
        };
        let mut place = 0;
        while let Some(&device) = devices.get(place) {
            let (meter, node) = GpuMeter::start(&options, device, &|| interrupt.requested())?;
            if place == 0 && self.device == Some(GpuChoice::All) {
                devices.extend(1..node.devices);
            }
            place += 1;
            for warning in &node.warnings {
                say!("GPU {device}: {warning}");
            }
            let hardware = Hardware::from_name(&node.name)?;
            let meter: Box<dyn Meter> = Box::new(meter);
            match &mut bench {
                None => {
                    let library = node.facts.contains_key(vendor.library_fact());
                    let provenance = node::provenance_of(node.facts)?;
                    let (arch, memory_bytes) = (node.arch, node.memory_bytes);
                    let gpu = Some(GpuNode { arch, memory_bytes, packs: self.kernels.clone() });
                    bench = Some(Bench { meters: vec![meter], hardware, provenance, library, gpu });
                }
                Some(bench) if bench.hardware.slug == hardware.slug => bench.meters.push(meter),
                Some(bench) => bail!(
                    "GPU {device} is {}, the others are {}: collect on one kind at a time, chosen with --device",
                    hardware.name,
                    bench.hardware.name
                ),
            }
        }
        bench.ok_or_else(|| Usage::new("--device: expected at least one GPU").into())
    }

    /// Whose GPUs to measure on; `None` if on none. A backend that was named must be that of the packs.
    fn vendor(&self) -> anyhow::Result<Option<Vendor>> {
        let named = match self.backend {
            Backend::Cuda => Some(Vendor::Nvidia),
            Backend::Hip => Some(Vendor::Amd),
            Backend::Cpu | Backend::Simulated => return Ok(None),
            Backend::Auto => None,
        };
        let Some(pack) = self.kernels.first() else { return Ok(named.or_else(present)) };
        let opened = Pack::open(pack)?;
        let (vendor, arch) = (Vendor::of_arch(opened.arch()), opened.arch());
        if let Some(named) = named.filter(|named| *named != vendor) {
            let (shown, given, fitting) = (pack.display(), named.backend(), vendor.backend());
            bail!("backend {given}: {shown} is for {arch}; name a pack for it, or use --backend {fitting}");
        }
        Ok(Some(vendor))
    }
}

/// Whose GPUs this node has. A driver that does not work is mentioned.
fn present() -> Option<Vendor> {
    let has_gpu = |vendor: &Vendor| {
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
    [Vendor::Nvidia, Vendor::Amd].into_iter().find(has_gpu)
}

/// The architecture of this node's first GPU.
pub(crate) fn this_architecture() -> anyhow::Result<String> {
    let Some(vendor) = present() else {
        return Err(
            Usage::new("this node has no GPU: say with --architecture for which to pull packs").into()
        );
    };
    let (packs, library, seed, patience) = (Vec::new(), None, 0, USUAL_PATIENCE);
    let (_, node) = GpuMeter::start(&GpuOptions { packs, vendor, library, seed, patience }, 0, &|| false)?;
    Ok(node.arch)
}

/// A device that is none. Its hardware's name says so, wherever its times go.
fn simulated(seed: u64) -> anyhow::Result<Bench> {
    let hardware = Hardware::from_name("Simulated NVIDIA H200")?;
    let facts = [("backend", "simulated".to_owned()), ("seed", seed.to_string())];
    let facts = facts.map(|(name, value)| (name.to_owned(), value)).into();
    Ok(Bench {
        meters: vec![Box::new(SimulatedMeter::new(hardware.clone(), seed))],
        hardware,
        provenance: node::provenance_of(facts)?,
        library: true,
        gpu: None,
    })
}
