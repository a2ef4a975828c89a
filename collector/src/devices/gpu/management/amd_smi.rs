//! AMD's management library. It was written from the library's header, and no AMD GPU has run it yet.
//!
//! Each version of the library appends fields to its structures, so these have spare room at their ends. Only fields
//! that have the same offset in all versions since ROCm 6.3 are read.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::ptr;

use crate::devices::gpu::GpuVendor;
use crate::devices::gpu::foreign::{self, functions};
use crate::devices::gpu::management::{Management, Settings, State, Throttled};

/// The library's file names in ROCm 7 and in late releases of ROCm 6, newest first.
const LIBRARIES: [&str; 4] = ["libamd_smi.so.26", "libamd_smi.so.25", "libamd_smi.so.24", "libamd_smi.so"];
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
pub(super) struct Metrics {
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
pub(super) struct PowerCap {
    limit: u64,
    default_limit: u64,
    _more: [u64; 30],
}

/// `amdsmi_driver_info_t`, which begins with the text of the version.
#[repr(C)]
pub(super) struct DriverInfo {
    version: [c_char; 64],
    _more: [u64; 256],
}

/// How long each cause has held clocks down so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Residencies {
    fault: [u64; 4],
    power_cap: u64,
}

pub(crate) struct AmdSmi {
    functions: Functions,
    device: Handle,
    /// The residencies when they were last read.
    last: Cell<Residencies>,
}

// SAFETY: the library may be called from any thread, and its handles are valid in all threads.
unsafe impl Send for AmdSmi {}

impl AmdSmi {
    pub(super) fn open(bus_id: &str) -> Option<Self> {
        let library = foreign::open(&LIBRARIES, None, Some("/opt/rocm/lib")).ok()?;
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
