//! The devices of a collection.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::bail;
use clap::{Args, ValueEnum};
use diode_core::Provenance;
use diode_core::hardware::Hardware;
use diode_formats::pack::Pack;

use crate::devices::cpu::CpuMeter;
use crate::devices::gpu::choice::GpuChoice;
use crate::devices::gpu::vendor::Vendor;
use crate::devices::gpu::{GpuMeter, GpuOptions};
use crate::devices::meter::Meter;
use crate::devices::simulated::SimulatedMeter;
use crate::failure::Usage;
use crate::input::arguments;
use crate::interrupt::Interrupt;
use crate::node::{self, Node, gpus};

/// Which devices to measure on.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeviceArgs {
    /// What to measure on; auto takes GPUs if --kernels is given
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    backend: Backend,

    /// Kernel pack to launch from; `diode kernels build` makes one
    #[arg(long, value_name = "PACK")]
    kernels: Option<PathBuf>,

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
}

impl DeviceArgs {
    /// The devices to measure on.
    pub(crate) fn bench(&self, seed: u64, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let on_gpus = match self.backend {
            Backend::Cuda | Backend::Hip => true,
            Backend::Cpu | Backend::Simulated => false,
            Backend::Auto => self.kernels.is_some(),
        };
        match (&self.kernels, on_gpus) {
            (Some(pack), true) => return self.gpus(pack, seed, interrupt),
            (None, true) => {
                let backend = if self.backend == Backend::Hip { "hip" } else { "cuda" };
                return Err(Usage::new(format!(
                    "backend {backend}: expected a kernel pack with --kernels; `diode kernels build` makes one"
                ))
                .into());
            }
            (Some(_), false) => {
                let words = "--kernels: packs are for GPUs; leave out --backend cpu or simulated";
                return Err(Usage::new(words).into());
            }
            (None, false) => {}
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
        if self.backend == Backend::Auto && gpus().is_ok_and(|gpus| !gpus.is_empty()) {
            say!("measuring on the CPU; for the GPU, name a kernel pack with --kernels");
        }
        let node = Node::read();
        let meter: Box<dyn Meter> = Box::new(CpuMeter::new(seed)?);
        Ok(Bench {
            meters: vec![meter],
            hardware: node.hardware()?,
            provenance: node.provenance()?,
            library: false,
        })
    }

    fn gpus(&self, pack: &Path, seed: u64, interrupt: &Interrupt) -> anyhow::Result<Bench> {
        let patience = self.gpu_patience.unwrap_or(USUAL_PATIENCE);
        let vendor = self.vendor(pack)?;
        let options =
            GpuOptions { pack: pack.to_owned(), vendor, library: self.library.clone(), seed, patience };
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
                    bench = Some(Bench { meters: vec![meter], hardware, provenance, library });
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

    /// Whose GPUs a pack is for. A backend that was named must be theirs.
    fn vendor(&self, pack: &Path) -> anyhow::Result<Vendor> {
        let opened = Pack::open(pack)?;
        let (vendor, arch) = (Vendor::of_arch(opened.arch()), opened.arch());
        let named = match self.backend {
            Backend::Cuda => Vendor::Nvidia,
            Backend::Hip => Vendor::Amd,
            Backend::Auto | Backend::Cpu | Backend::Simulated => vendor,
        };
        if named != vendor {
            let (shown, given, fitting) = (pack.display(), named.backend(), vendor.backend());
            bail!("backend {given}: {shown} is for {arch}; name a pack for it, or use --backend {fitting}");
        }
        Ok(vendor)
    }
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
    })
}
