//! The measuring process itself, and what its parent and it say to each other. It opens the GPU and measures one problem
//! after another, until its parent closes the pipe.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::io::{self, BufRead, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use clap::Args;
use diode_core::hardware::Hardware;
use diode_core::{Config, FailureReason, Problem};
use diode_formats::pack::Pack;
use serde::{Deserialize, Serialize};

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::driver::{Description, Driver, DriverError, Gpu, NoDriver};
use crate::devices::gpu::library::{LibraryError, VendorLibrary};
use crate::devices::gpu::management::{self, Settings};
use crate::devices::gpu::procedure::measure;
use crate::devices::gpu::session::{Session, SessionError, Store};
use crate::devices::{Quality, say_line};
use crate::failure::one_line;
use crate::input::arguments::whole;
use crate::kernels::{ABI, ABI_KEY, TRITON_KEY};

/// The name of a fact of the provenance, and below it the fact's only value. The fact says that the pack's
/// kernels serve only the sizes that they were built for.
pub(crate) const KERNEL_SIZES: &str = "kernel_sizes";
pub(crate) const EXACT: &str = "exact";

/// What the parent sends: a JSON document on one line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Measure {
    pub(crate) problem: Problem,
    pub(crate) configs: Vec<Config>,
    pub(crate) seed: u64,
    /// Launch one config at a time, so that a hang or a crash shows which config caused it.
    pub(crate) careful: bool,
}

/// What the measuring process sends. After its start it sends one `Ready`. After a request it sends any number
/// of `At` and `Busy`, and then one of the other messages.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Message {
    Ready(GpuDescription),
    /// The process is about to launch some configs for the first time. `At` holds the places of the first and
    /// the last of them in the request. For a single config, both are its place.
    At {
        first: usize,
        last: usize,
    },
    /// The process is still working.
    Busy,
    Measured(Results),
    /// This problem cannot be measured here. The next problem may be.
    Refused {
        reason: String,
    },
    /// The inputs are too large for this GPU.
    OutOfMemory,
    /// The process can do nothing more and ends now.
    Broken {
        message: String,
        cause: Cause,
    },
}

/// What ended a measuring process. The cause decides whether another process could go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cause {
    /// The GPU is of no more use to this process. Another process can go on.
    Gpu,
    /// Other programs hold the GPU's memory. The next problem may need less.
    Memory,
    /// The pack cannot be read, so nothing can be measured with it.
    Pack,
    /// The process was started with settings that do not fit the node. Somebody must change them first.
    Setup,
}

/// The outcome for each config of a problem.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The configs' places in the request, and their times in nanoseconds.
    pub(crate) timed: Vec<(usize, Vec<u64>)>,
    pub(crate) failed: Vec<(usize, FailureReason)>,
    /// How often the near-best configs had to be measured again because the GPU was disturbed.
    pub(crate) repeated: u32,
    #[serde(flatten)]
    pub(crate) quality: Quality,
}

/// What a measuring process reports about its GPU when it starts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct GpuDescription {
    /// The GPU's name.
    pub(crate) name: String,
    /// The architecture that packs must be for: `sm_90`, `gfx942`.
    pub(crate) arch: String,
    /// The GPU's address, by which the management library finds it.
    pub(crate) bus_id: String,
    /// All of the GPU's memory, free or not.
    pub(crate) memory_bytes: u64,
    pub(crate) facts: BTreeMap<String, String>,
    /// How many GPUs the node has.
    pub(crate) devices: u32,
    /// What the user should know before measuring for hours.
    pub(crate) warnings: Vec<String>,
}

/// Why a problem is refused when other programs hold the GPU's memory.
pub(super) fn no_memory_left(error: impl Display) -> String {
    format!("the GPU has no memory left ({error}); --resume measures it when it has")
}

/// Launch kernels on a GPU for a parent process that asks over stdin
#[derive(Debug, Args)]
pub(crate) struct MeasureGpu {
    #[arg(long, value_parser = whole::<u32>)]
    device: u32,
    #[arg(long = "backend", value_name = "BACKEND", value_parser = GpuVendor::of_backend)]
    vendor: GpuVendor,
    // Without a pack, the process describes the GPU and measures nothing.
    #[arg(long = "kernels", value_name = "KERNELS")]
    packs: Vec<PathBuf>,
    // A folder with cuBLAS or hipBLASLt, if the system does not find it by itself.
    #[arg(long)]
    library: Option<PathBuf>,
}

impl MeasureGpu {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        serve(&self, io::stdin().lock(), io::stdout().lock())
    }
}

/// Answers requests, one line each, until the end of the input.
fn serve(options: &MeasureGpu, requests: impl BufRead, mut events: impl Write) -> anyhow::Result<()> {
    let mut say = |event: Message| say_line(&mut events, &event);
    let mut session = match open(options) {
        Ok((session, ready)) => {
            say(ready)?;
            session
        }
        Err(error) => {
            let (mut message, cause) = (one_line(&error), cause_of(&error));
            if cause == Cause::Memory {
                message.push_str("; end what holds the GPU's memory, or choose another with --device");
            }
            return say(Message::Broken { message, cause });
        }
    };
    for line in requests.lines() {
        let request: Measure = serde_json::from_str(&line?).context("unreadable request")?;
        match measure(&mut session, &request, &mut say) {
            Ok(event) => say(event)?,
            Err(error) => {
                let cause = error.cause();
                let mut message = one_line(&error.into());
                if cause == Cause::Pack {
                    message.push_str("; build the pack again, or copy it again from where it is whole");
                }
                return say(Message::Broken { message, cause });
            }
        }
    }
    Ok(())
}

fn open(options: &MeasureGpu) -> anyhow::Result<(Session, Message)> {
    let packs = options.packs.iter().map(|path| open_pack(path)).collect::<anyhow::Result<Vec<Pack>>>()?;
    if packs.len() > 1 && packs.iter().any(Pack::is_exact) {
        bail!("a pack for the exact sizes of some problems is used alone; name no other with it");
    }
    let tritons: BTreeSet<&str> =
        packs.iter().filter_map(|pack| pack.toolchain().get(TRITON_KEY)).map(String::as_str).collect();
    if tritons.len() > 1 {
        let versions = tritons.into_iter().collect::<Vec<_>>().join(" and ");
        bail!("got packs of Triton {versions}, expected packs of one version; measure each on its own");
    }
    let vendor = options.vendor;
    let driver = Driver::load(vendor)?;
    let count = driver.device_count()?;
    if count == 0 {
        return Err(NoDriver::NoGpu(vendor).into());
    }
    if options.device >= count {
        return Err(NoDriver::Fewer { device: options.device, count }.into());
    }
    let gpu = Gpu::open(&driver, options.device)?;
    let Description { name, arch, sms, cache_bytes, .. } = gpu.describe()?;
    for (path, pack) in options.packs.iter().zip(&packs) {
        if pack.arch() != arch {
            bail!(
                "{}: the pack is for {}, this GPU is {arch} ({name}); build one with --arch {arch}",
                path.display(),
                pack.arch()
            );
        }
    }
    let bus_id = gpu.bus_id()?;
    let management = management::open(vendor, &bus_id);
    let settings = management.as_ref().map(|library| library.settings()).unwrap_or_default();
    let (library, mut warnings) = match VendorLibrary::load(vendor, &gpu, options.library.as_deref()) {
        Ok(library) => (Some(library), Vec::new()),
        Err(LibraryError::Missing(what)) => {
            (None, vec![format!("{what}: the library kernel is not timed; name its folder with --library")])
        }
        Err(error) => return Err(error.into()),
    };
    warnings.extend(warnings_of(&settings, management.is_some()));
    let mut facts = BTreeMap::from([
        ("backend".to_owned(), vendor.backend().to_owned()),
        (vendor.backend().to_owned(), driver.version()?.to_string()),
        ("sms".to_owned(), sms.to_string()),
        ("l2_bytes".to_owned(), cache_bytes.to_string()),
        ("os".to_owned(), std::env::consts::OS.to_owned()),
    ]);
    facts.extend(facts_of(&packs));
    if let Some(library) = &library {
        facts.insert(vendor.library_fact().to_owned(), library.version().to_string());
    }
    if let Some(version) = settings.driver {
        facts.insert("driver".to_owned(), version);
    }
    if let Some(milliwatts) = settings.power_limit_mw {
        facts.insert("power_limit_watts".to_owned(), (milliwatts / 1000).to_string());
    }
    let known = Hardware::from_name(&name)?.facts;
    let memory_bytes = gpu.memory()?.total;
    let session = Session::new(gpu, known, Store::new(packs), library, management)
        .map_err(anyhow::Error::from)
        .context("cannot prepare the GPU")?;
    let description = GpuDescription { name, arch, bus_id, memory_bytes, facts, devices: count, warnings };
    Ok((session, Message::Ready(description)))
}

fn open_pack(path: &Path) -> anyhow::Result<Pack> {
    let pack = Pack::open(path)?;
    let stated = pack.toolchain().get(ABI_KEY).map_or("nothing", String::as_str);
    if stated != ABI {
        bail!("{}: the pack is for launchers of {stated}, expected {ABI}; build it again", path.display());
    }
    Ok(pack)
}

/// The facts about the packs that go into the provenance of times.
fn facts_of(packs: &[Pack]) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    for (number, pack) in (1..).zip(packs) {
        let name = if number == 1 { "kernel_pack".to_owned() } else { format!("kernel_pack_{number}") };
        facts.insert(name, pack.digest().to_string());
        if pack.is_exact() {
            facts.insert(KERNEL_SIZES.to_owned(), EXACT.to_owned());
        }
        if let Some(triton) = pack.toolchain().get(TRITON_KEY) {
            facts.insert(TRITON_KEY.to_owned(), triton.clone());
        }
    }
    facts
}

/// Why a process could not start. Only a cause that the driver or a library reported may pass by
/// itself.
fn cause_of(error: &anyhow::Error) -> Cause {
    let is_said_by_gpu = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().is_some_and(NoDriver::may_pass)
            || cause.is::<DriverError>()
            || matches!(cause.downcast_ref(), Some(LibraryError::Refused { .. } | LibraryError::Driver(_)))
            || cause.downcast_ref::<SessionError>().is_some_and(|error| error.cause() == Cause::Gpu)
    };
    if error.chain().any(says_out_of_memory) {
        Cause::Memory
    } else if error.chain().any(is_said_by_gpu) {
        Cause::Gpu
    } else {
        Cause::Setup
    }
}

fn says_out_of_memory(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref().is_some_and(DriverError::is_out_of_memory)
        || matches!(error.downcast_ref(), Some(LibraryError::Driver(error)) if error.is_out_of_memory())
        || error.downcast_ref::<SessionError>().is_some_and(|error| error.cause() == Cause::Memory)
}

/// What is unusual about a GPU. The GPU is measured as it is, all the same.
fn warnings_of(settings: &Settings, watched: bool) -> Vec<String> {
    let mut warnings = Vec::new();
    if !watched {
        warnings
            .push("the driver's management library is missing: clocks and heat are not watched".to_owned());
    }
    if settings.partitioned {
        warnings.push(
            "the GPU is divided (MIG or a compute partition): times are of a part of it and do not compare"
                .to_owned(),
        );
    }
    if settings.others > 0 {
        let others = match settings.others {
            1 => "another process computes".to_owned(),
            others => format!("{others} other processes compute"),
        };
        warnings.push(format!("{others} on this GPU: times will be noisy"));
    }
    if let (Some(now), Some(default)) = (settings.power_limit_mw, settings.default_power_limit_mw)
        && now < default
    {
        let (now, default) = (now / 1000, default / 1000);
        warnings
            .push(format!("the power limit is {now} W instead of {default} W: large problems run slower"));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_of_the_gpu_does_not_pass() {
        let folder = tempfile::tempdir().unwrap();
        let options = MeasureGpu {
            device: 0,
            vendor: GpuVendor::Nvidia,
            packs: vec![folder.path().join("absent")],
            library: None,
        };
        let mut events = Vec::new();
        serve(&options, io::empty(), &mut events).unwrap();
        let Message::Broken { message, cause } = serde_json::from_slice(&events).unwrap() else {
            panic!("it began")
        };
        assert!(cause == Cause::Setup && message.contains("absent"), "{cause:?}: {message}");
        let lost = anyhow::Error::from(NoDriver::Fewer { device: 1, count: 1 }).context("starting");
        assert_eq!(cause_of(&lost), Cause::Gpu);
        let refused = LibraryError::Refused { call: "cublasCreate", status: 1 };
        assert_eq!(cause_of(&refused.into()), Cause::Gpu);
        let missing = LibraryError::Missing("no library".to_owned());
        assert_eq!(cause_of(&missing.into()), Cause::Setup);
    }
}
