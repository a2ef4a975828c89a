//! The functions of AMD's management library.

use std::ffi::{c_char, c_int, c_void};

use crate::memory::{put, put_text};
use crate::node::{Node, answer, value};
use crate::script::Gpu;

const NOT_FOUND: i32 = 31;

/// A device is the GPU's number plus 1.
type Device = usize;

fn gpu(node: &Node, device: Device) -> Result<&Gpu, i32> {
    device.checked_sub(1).and_then(|place| node.script.gpus.get(place)).ok_or(NOT_FOUND)
}

#[unsafe(no_mangle)]
extern "C" fn amdsmi_init(_flags: u64) -> c_int {
    answer("management_init", |_, _| Ok(()))
}

#[unsafe(no_mangle)]
extern "C" fn amdsmi_get_processor_handle_from_bdf(bdf: u64, device: *mut Device) -> c_int {
    answer("management_device", |node, _| {
        // Each GPU is on its own bus, numbered like the GPU, see the driver.
        let number = (bdf >> 8) as usize;
        if number >= node.script.gpus.len() {
            return Err(NOT_FOUND);
        }
        put(device, 1 + number);
        Ok(())
    })
}

/// Writes the fields of `amdsmi_gpu_metrics_t` that `diode` reads, at the offsets of the library's header. A
/// script states the reasons for low clocks as NVIDIA's bits. AMD's library has growing counters instead.
#[unsafe(no_mangle)]
extern "C" fn amdsmi_get_gpu_metrics_info(_device: Device, metrics: *mut u8) -> c_int {
    const SIZE: usize = 2048;
    const POWER_CAP: u64 = 0x4;
    answer("throttle", |node, effect| {
        let reasons = value(effect, 0);
        let celsius = value(node.effect("temperature", ""), 41);
        let [power_limited, socket_hot] = &mut node.residencies;
        *power_limited += u64::from(reasons & POWER_CAP != 0);
        *socket_hot += u64::from(reasons & !POWER_CAP != 0);
        // SAFETY: the caller gives enough room for the structure.
        unsafe { metrics.write_bytes(0xff, SIZE) };
        // SAFETY: all offsets lie within the structure.
        let at = |offset: usize| unsafe { metrics.add(offset) };
        put(at(6).cast::<u16>(), celsius as u16);
        put(at(312).cast::<u16>(), 2100);
        put(at(440).cast::<u64>(), *power_limited);
        put(at(448).cast::<u64>(), *socket_hot);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn amdsmi_get_power_cap_info(device: Device, _sensor: u32, power: *mut u64) -> c_int {
    answer("power_limit", |node, _| {
        let now = gpu(node, device)?.power_limit_mw;
        for (place, milliwatts) in [now, Gpu::DEFAULT_POWER_LIMIT_MW].into_iter().enumerate() {
            // SAFETY: the structure begins with both numbers.
            put(unsafe { power.add(place) }, u64::from(milliwatts) * 1000);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn amdsmi_get_gpu_compute_partition(device: Device, name: *mut c_char, room: u32) -> c_int {
    answer("mig", |node, _| {
        put_text(name, room as c_int, if gpu(node, device)?.mig { "CPX" } else { "SPX" });
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn amdsmi_get_gpu_process_list(device: Device, count: *mut u32, _list: *mut c_void) -> c_int {
    answer("processes", |node, effect| {
        gpu(node, device)?;
        put(count, node.holders(device - 1, effect).len() as u32);
        Ok(())
    })
}

#[unsafe(no_mangle)]
extern "C" fn amdsmi_get_gpu_driver_info(_device: Device, info: *mut c_char) -> c_int {
    answer("management_version", |_, _| {
        put_text(info, 64, "6.12.12");
        Ok(())
    })
}
