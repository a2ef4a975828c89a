//! What NVML or AMD SMI states about a GPU: clocks, heat, other processes.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

use std::cell::Cell;
use std::ffi::{CStr, OsStr, c_char, c_void};
use std::ptr;

use nvml_wrapper::Device;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::TemperatureSensor;

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::driver::{functions, open_library};

/// NVML or AMD SMI, opened for one GPU.
pub(crate) trait Management: Send {
    fn state(&self) -> State;

    /// How many processes compute on the GPU, if stated.
    fn processes(&self) -> Option<usize>;

    fn settings(&self) -> Settings;
}

/// `None` if NVML or AMD SMI is missing or does not know the GPU.
pub(crate) fn open(vendor: GpuVendor, bus_id: &str) -> Option<Box<dyn Management>> {
    match vendor {
        GpuVendor::Nvidia => Some(Box::new(Nvml::open(bus_id)?)),
        GpuVendor::Amd => Some(Box::new(AmdSmi::open(bus_id)?)),
    }
}

/// The state of a GPU at a moment. A field is `None` if it is not stated.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) celsius: Option<u32>,
    pub(crate) throttled: Option<Throttled>,
}

/// Why clocks are lower than they could be. NVML states the present reasons, AMD SMI all reasons since it was
/// last asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttled {
    /// Heat or the power supply: something is wrong with the node.
    pub(crate) by_fault: bool,
    /// The power limit. Large multiplications always run at this limit.
    pub(crate) by_power_cap: bool,
}

/// What is asked once, at the start.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) default_power_limit_mw: Option<u32>,
    /// Whether the device is one of several parts of a GPU (MIG, or a compute partition other than
    /// SPX).
    pub(crate) partitioned: bool,
    /// How many other processes compute on the device.
    pub(crate) others: usize,
}

/// The name under which the driver installs NVML. `nvml_wrapper` would look for the name in a development
/// package.
const NVML: &str = "libnvidia-ml.so.1";

/// NVML, opened for one GPU.
struct Nvml {
    library: &'static nvml_wrapper::Nvml,
    device: Device<'static>,
}

impl From<ThrottleReasons> for Throttled {
    fn from(reasons: ThrottleReasons) -> Self {
        let faults = ThrottleReasons::HW_SLOWDOWN
            | ThrottleReasons::SW_THERMAL_SLOWDOWN
            | ThrottleReasons::HW_THERMAL_SLOWDOWN
            | ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN;
        Self {
            by_fault: reasons.intersects(faults),
            by_power_cap: reasons.contains(ThrottleReasons::SW_POWER_CAP),
        }
    }
}

impl Nvml {
    /// `None` if NVML is missing or does not know the GPU.
    fn open(bus_id: &str) -> Option<Self> {
        let library = nvml_wrapper::Nvml::builder().lib_path(OsStr::new(NVML)).init().ok()?;
        // Leaked, because the process measures on one GPU until it ends.
        let library: &'static nvml_wrapper::Nvml = Box::leak(Box::new(library));
        let device = library.device_by_pci_bus_id(bus_id).ok()?;
        Some(Self { library, device })
    }
}

impl Management for Nvml {
    fn state(&self) -> State {
        State {
            celsius: self.device.temperature(TemperatureSensor::Gpu).ok(),
            throttled: self.device.current_throttle_reasons().ok().map(Throttled::from),
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            driver: self.library.sys_driver_version().ok(),
            power_limit_mw: self.device.power_management_limit().ok(),
            default_power_limit_mw: self.device.power_management_limit_default().ok(),
            partitioned: self.device.mig_mode().is_ok_and(|mode| mode.current == 1),
            // The count includes this process.
            others: self.processes().map_or(0, |processes| processes.saturating_sub(1)),
        }
    }

    /// How many processes compute on the GPU. Their ids are not compared with this process's own: in a
    /// container, NVML gives the host's ids.
    fn processes(&self) -> Option<usize> {
        Some(self.device.running_compute_processes().ok()?.len())
    }
}

/// The library's file names in ROCm 7 and in late releases of ROCm 6, newest first.
const AMD_SMI: [&str; 4] = ["libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24", "libamd_smi.so"];
const AMD_GPUS: u64 = 2;

type Handle = *mut c_void;

functions! {
    /// The functions of AMD SMI.
    Functions {
        init = "amdsmi_init" (u64);
        device = "amdsmi_get_processor_handle_from_bdf" (u64, *mut Handle);
        metrics = "amdsmi_get_gpu_metrics_info" (Handle, *mut Metrics);
        power_cap = "amdsmi_get_power_cap_info" (Handle, u32, *mut PowerCap);
        partition = "amdsmi_get_gpu_compute_partition" (Handle, *mut c_char, u32);
        processes = "amdsmi_get_gpu_process_list" (Handle, *mut u32, *mut c_void);
        driver = "amdsmi_get_gpu_driver_info" (Handle, *mut DriverInfo);
    }
}

/// The fields of `amdsmi_gpu_metrics_t` up to version 1.6 of the driver's table.
#[repr(C)]
#[derive(Clone, Copy)]
struct Metrics {
    _header: u32,
    _edge: u16,
    hotspot_celsius: u16,
    _to_first_status: [u16; 8],
    _accumulators: [u64; 2],
    _clocks: [u16; 14],
    _throttle_status: u32,
    _fan_and_link: [u16; 3],
    _activity: [u32; 2],
    _hbm_celsius: [u16; 4],
    _firmware_time: u64,
    _voltages: [u16; 3],
    _independent_status: u64,
    _socket_power: u16,
    _video: [u16; 4],
    _clock_lock: u32,
    _link: [u16; 2],
    _pcie: [u64; 5],
    _link_data: [u64; 16],
    _clocks_by_part: [u16; 20],
    _jpeg: [u16; 32],
    _not_acknowledged: [u32; 2],
    _counter: u64,
    processor_hot: u64,
    power_limited: u64,
    socket_hot: u64,
    regulator_hot: u64,
    memory_hot: u64,
    /// Room for the fields of later versions.
    _more: [u64; 1024],
}

/// `amdsmi_power_cap_info_t`. Its numbers are in millionths of a watt.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PowerCap {
    limit: u64,
    default_limit: u64,
    _more: [u64; 30],
}

/// `amdsmi_driver_info_t`, which begins with the text of the version.
#[repr(C)]
struct DriverInfo {
    version: [c_char; 64],
    _more: [u64; 256],
}

/// How long each cause has held clocks down so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Residencies {
    fault: [u64; 4],
    power_cap: u64,
}

/// AMD's management library, opened for one GPU. It was written from the library's header, and no AMD GPU has run it yet.
///
/// Each version of the library appends fields to its structures, so these have spare room at their ends. Only fields
/// that have the same offset in all versions since ROCm 6.3 are read.
struct AmdSmi {
    functions: Functions,
    device: Handle,
    /// The residencies when they were last read.
    last: Cell<Residencies>,
}

// SAFETY: the library may be called from any thread, and its handles are valid in all threads.
unsafe impl Send for AmdSmi {}

impl AmdSmi {
    fn open(bus_id: &str) -> Option<Self> {
        let library = open_library(&AMD_SMI, None, Some("/opt/rocm/lib")).ok()?;
        let functions = Functions::resolve(library, GpuVendor::Amd).ok()?;
        let mut device: Handle = ptr::null_mut();
        // SAFETY: takes flags. The library stays initialised until the process ends.
        let started = unsafe { (functions.init.function)(AMD_GPUS) };
        // SAFETY: writes a handle.
        let found = unsafe { (functions.device.function)(packed(bus_id)?, &mut device) };
        if started != 0 || found != 0 {
            return None;
        }
        let smi = Self { functions, device, last: Cell::default() };
        smi.last.set(smi.metrics().map(|metrics| metrics.residencies()).unwrap_or_default());
        Some(smi)
    }

    fn metrics(&self) -> Option<Box<Metrics>> {
        // SAFETY: all fields are numbers, for which zero bytes are valid.
        let mut metrics: Box<Metrics> = Box::new(unsafe { std::mem::zeroed() });
        // SAFETY: writes the structure, for which there is more than enough room.
        let code = unsafe { (self.functions.metrics.function)(self.device, &mut *metrics) };
        (code == 0).then_some(metrics)
    }
}

impl Management for AmdSmi {
    fn state(&self) -> State {
        let Some(metrics) = self.metrics() else { return State::default() };
        let (now, before) = (metrics.residencies(), self.last.get());
        self.last.set(now);
        let grown = |now: u64, before: u64| now > before;
        let by_fault = now.fault.iter().zip(before.fault).any(|(&now, before)| grown(now, before));
        State {
            celsius: Some(metrics.hotspot_celsius).filter(|&celsius| known(celsius)).map(u32::from),
            throttled: Some(Throttled { by_fault, by_power_cap: grown(now.power_cap, before.power_cap) }),
        }
    }

    fn settings(&self) -> Settings {
        let (functions, device) = (&self.functions, self.device);
        let mut power = PowerCap::default();
        // SAFETY: writes the structure, for which there is more than enough room.
        let cap_code = unsafe { (functions.power_cap.function)(device, 0, &mut power) };
        let milliwatts = |microwatts: u64| {
            u32::try_from(microwatts / 1000).ok().filter(|&milliwatts| cap_code == 0 && milliwatts > 0)
        };
        let mut driver = DriverInfo { version: [0; 64], _more: [0; 256] };
        // SAFETY: as for the call above.
        let driver_code = unsafe { (functions.driver.function)(device, &mut driver) };
        let mut partition = [0 as c_char; 64];
        // SAFETY: writes at most the given number of bytes.
        let partition_code = unsafe { (functions.partition.function)(device, partition.as_mut_ptr(), 64) };
        Settings {
            driver: text(&driver.version).filter(|_| driver_code == 0),
            power_limit_mw: milliwatts(power.limit),
            default_power_limit_mw: milliwatts(power.default_limit),
            partitioned: partition_code == 0 && text(&partition).is_some_and(|name| name != "SPX"),
            // The count includes this process.
            others: self.processes().map_or(0, |processes| processes.saturating_sub(1)),
        }
    }

    /// How many processes use the GPU.
    fn processes(&self) -> Option<usize> {
        let mut processes = 0;
        // SAFETY: without a list to fill, it only writes the number of processes.
        let listed =
            unsafe { (self.functions.processes.function)(self.device, &mut processes, ptr::null_mut()) };
        (listed == 0).then_some(processes as usize)
    }
}

impl Metrics {
    fn residencies(&self) -> Residencies {
        let counted = |time: u64| if time == u64::MAX { 0 } else { time };
        Residencies {
            fault: [self.processor_hot, self.socket_hot, self.regulator_hot, self.memory_hot].map(counted),
            power_cap: counted(self.power_limited),
        }
    }
}

/// Whether a value is known. For an unknown value, the library gives zero or sets all bits.
fn known(value: u16) -> bool {
    value != 0 && value != u16::MAX
}

fn text(bytes: &[c_char]) -> Option<String> {
    let bytes: Vec<u8> = bytes.iter().map(|&byte| byte as u8).collect();
    let text = CStr::from_bytes_until_nul(&bytes).ok()?.to_str().ok()?;
    (!text.is_empty()).then(|| text.to_owned())
}

/// Converts `0000:3b:00.0` to `amdsmi_bdf_t`: function, device, bus and domain from the lowest bit on.
fn packed(bus_id: &str) -> Option<u64> {
    let (domain, rest) = bus_id.split_once(':')?;
    let (bus, rest) = rest.split_once(':')?;
    let (device, function) = rest.split_once('.')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(number(function)? | number(device)? << 3 | number(bus)? << 8 | number(domain)? << 16)
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn the_power_limit_alone_is_no_fault() {
        let capped = Throttled::from(ThrottleReasons::SW_POWER_CAP | ThrottleReasons::GPU_IDLE);
        assert_eq!(capped, Throttled { by_fault: false, by_power_cap: true });
        for bits in [0x8, 0x20, 0x40, 0x80] {
            let hot = Throttled::from(ThrottleReasons::from_bits_truncate(bits));
            assert_eq!(hot, Throttled { by_fault: true, by_power_cap: false }, "{bits:#x}");
        }
    }

    #[test]
    fn a_gpu_that_is_not_there_says_nothing() {
        assert!(Nvml::open("0000:ff:1f.7").is_none());
    }

    #[test]
    fn the_fields_lie_where_the_header_has_them() {
        // The offsets that a C compiler gives the structure of ROCm 6.4 and 7.
        assert_eq!(offset_of!(Metrics, hotspot_celsius), 6);
        assert_eq!(offset_of!(Metrics, processor_hot), 432);
        assert_eq!(offset_of!(Metrics, memory_hot), 464);
    }

    #[test]
    fn places_on_the_bus_are_packed() {
        assert_eq!(packed("0000:3b:00.0"), Some(0x3b00));
        assert_eq!(packed("0001:c1:1f.7"), Some(0x1_c1ff));
        assert_eq!(packed("nowhere"), None);
    }
}
