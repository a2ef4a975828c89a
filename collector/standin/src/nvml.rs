//! The functions of NVIDIA's management library.
#![allow(non_snake_case, reason = "the vendor names them")]

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulonglong};

use crate::memory::{put, put_text};
use crate::node::{Node, answer};
use crate::script::{Effect, Gpu};

const NOT_FOUND: i32 = 6;
const INSUFFICIENT_SIZE: i32 = 7;

/// One process in the list of `nvmlDeviceGetComputeRunningProcesses_v3`.
#[repr(C)]
struct Process {
    pid: c_uint,
    used: c_ulonglong,
    instance: c_uint,
    compute_instance: c_uint,
}

/// A device is the GPU's number plus 1.
type Device = usize;

fn gpu(node: &Node, device: Device) -> Result<&Gpu, i32> {
    device.checked_sub(1).and_then(|place| node.script.gpus.get(place)).ok_or(NOT_FOUND)
}

fn value(effect: Option<Effect>, usual: u32) -> u32 {
    if let Some(Effect::Value(value)) = effect { value as u32 } else { usual }
}

/// Declares functions that give one number about a device.
macro_rules! numbers {
    ($($call:ident = $name:ident ($($more:ident: $kind:ty),*) |$gpu:pat_param| $value:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(device: Device, $($more: $kind,)* number: *mut c_uint) -> c_int {
                answer(stringify!($call), |node, effect| {
                    let $gpu = gpu(node, device)?;
                    put(number, value(effect, $value));
                    Ok(())
                })
            }
        )*
    };
}

numbers! {
    clock = nvmlDeviceGetClockInfo (_kind: c_uint) |_| 1755;
    temperature = nvmlDeviceGetTemperature (_sensor: c_uint) |_| 41;
    power_limit = nvmlDeviceGetPowerManagementLimit () |gpu| gpu.power_limit_mw;
    usual_power_limit = nvmlDeviceGetPowerManagementDefaultLimit () |_| Gpu::DEFAULT_POWER_LIMIT_MW;
}

#[unsafe(no_mangle)]
extern "C" fn nvmlInit_v2() -> c_int {
    answer("management_init", |_, _| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn nvmlSystemGetDriverVersion(text: *mut c_char, room: c_uint) -> c_int {
    answer("management_version", |_, _| {
        put_text(text, room as c_int, "580.00.01");
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetHandleByPciBusId_v2(bus: *const c_char, device: *mut Device) -> c_int {
    answer("management_device", |node, _| {
        // SAFETY: the caller gives a text that ends with a zero byte.
        let bus = unsafe { CStr::from_ptr(bus) }.to_string_lossy();
        let named = (0..node.script.gpus.len()).find(|number| bus == format!("0000:{number:02x}:00.0"));
        put(device, 1 + named.ok_or(NOT_FOUND)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetCurrentClocksThrottleReasons(_device: Device, reasons: *mut c_ulonglong) -> c_int {
    answer("throttle", |_, effect| {
        put(reasons, value(effect, 0).into());
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetMigMode(device: Device, current: *mut c_uint, pending: *mut c_uint) -> c_int {
    answer("mig", |node, _| {
        let mig = gpu(node, device)?.mig.into();
        put(current, mig);
        put(pending, mig);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn nvmlDeviceGetComputeRunningProcesses_v3(
    device: Device,
    count: *mut c_uint,
    processes: *mut Process,
) -> c_int {
    answer("processes", |node, effect| {
        gpu(node, device)?;
        let holders = node.holders(device - 1, effect);
        // SAFETY: the caller gives a pointer to a number.
        let room = unsafe { count.read() } as usize;
        put(count, holders.len() as c_uint);
        if room < holders.len() {
            return Err(INSUFFICIENT_SIZE);
        }
        for (number, pid) in holders.into_iter().enumerate() {
            let process = Process { pid, used: 1 << 30, instance: 0, compute_instance: 0 };
            // SAFETY: the caller has room for all processes, as was checked above.
            put(unsafe { processes.add(number) }, process);
        }
        Ok(())
    })
}
