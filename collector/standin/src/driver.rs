//! The functions that both vendors' drivers have.
#![allow(non_snake_case, reason = "the vendor names them")]

use std::ffi::{c_char, c_int, c_uint, c_void};
use std::slice;

use diode_core::ids::Digest;

use crate::code_object;
use crate::code_object::laid_out;
use crate::launch::{Arguments, Task, task};
use crate::memory::{OUT_OF_MEMORY, put, put_text};
use crate::node::{Node, perform, place, value};
use crate::number::Number;
use crate::script::Effect;

const INVALID: i32 = 1;
const INVALID_IMAGE: i32 = 200;
const NOT_FOUND: i32 = 500;
const NOT_READY: i32 = 600;

/// How many nanoseconds an event costs the GPU, and how many bytes the GPU moves in a nanosecond.
const EVENT: u64 = 500;
const BYTES_PER_NANOSECOND: u64 = 2000;

/// Declares functions. Each has a name for scripts, NVIDIA's name and AMD's name.
macro_rules! functions {
    ($($call:ident = $cuda:ident, $hip:ident ($($argument:ident: $kind:ty),*) |$node:pat_param, $effect:pat_param| $body:block)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $cuda($($argument: $kind),*) -> c_int {
                perform(stringify!($call), |$node, $effect| $body)
            }

            #[unsafe(no_mangle)]
            extern "C" fn $hip($($argument: $kind),*) -> c_int {
                perform(stringify!($call), |$node, $effect| $body)
            }
        )*
    };
}

functions! {
    init = cuInit, hipInit (_flags: c_uint) |_, _| { Ok(()) }

    driver_version = cuDriverGetVersion, hipDriverGetVersion (version: *mut c_int) |_, _| {
        put(version, 13000);
        Ok(())
    }

    device_count = cuDeviceGetCount, hipGetDeviceCount (count: *mut c_int) |node, effect| {
        let gpus = node.script.gpus.len() as u64;
        put(count, value(effect, gpus) as c_int);
        Ok(())
    }

    device_bus_id = cuDeviceGetPCIBusId, hipDeviceGetPCIBusId (name: *mut c_char, room: c_int, device: c_int) |_, _| {
        put_text(name, room, &format!("0000:{device:02x}:00.0"));
        Ok(())
    }

    synchronize = cuCtxSynchronize, hipDeviceSynchronize () |node, _| {
        node.wait();
        Ok(())
    }

    memory_info = cuMemGetInfo_v2, hipMemGetInfo (free: *mut usize, total: *mut usize) |node, effect| {
        put(free, value(effect, node.free_memory()) as usize);
        put(total, node.gpu().memory as usize);
        Ok(())
    }

    allocate = cuMemAlloc_v2, hipMalloc (pointer: *mut u64, bytes: usize) |node, _| {
        let free = node.free_memory();
        put(pointer, node.memory.allocate(bytes as u64, free)?);
        Ok(())
    }

    free = cuMemFree_v2, hipFree (pointer: u64) |node, _| {
        let bytes = node.memory.free(pointer)?;
        node.pending.forget(pointer, bytes);
        Ok(())
    }

    fill = cuMemsetD8Async, hipMemsetD8Async (pointer: u64, byte: u8, bytes: usize, _stream: usize) |node, _| {
        node.clock += bytes as u64 / BYTES_PER_NANOSECOND;
        node.pending.forget(pointer, bytes as u64);
        let filled = node.memory.fill(pointer, byte, bytes as u64);
        filled.map_err(|outside| node.outside(&outside))
    }

    copy = cuMemcpyDtoDAsync_v2, hipMemcpyDtoDAsync (to: u64, from: u64, bytes: usize, _stream: usize) |node, _| {
        node.clock += bytes as u64 / BYTES_PER_NANOSECOND;
        node.settle(from, bytes as u64)?;
        node.pending.forget(to, bytes as u64);
        let copied = node.memory.bytes_mut(from, bytes as u64).map(|bytes| bytes.to_vec());
        let copied = copied.and_then(|copy| {
            node.memory.bytes_mut(to, bytes as u64)?.copy_from_slice(&copy);
            Ok(())
        });
        copied.map_err(|outside| node.outside(&outside))
    }

    write = cuMemcpyHtoD_v2, hipMemcpyHtoD (to: u64, from: *const u8, bytes: usize) |node, _| {
        node.pending.forget(to, bytes as u64);
        // SAFETY: the caller gives this many bytes.
        let from = unsafe { slice::from_raw_parts(from, bytes) };
        let written = node.memory.bytes_mut(to, bytes as u64).map(|to| to.copy_from_slice(from));
        written.map_err(|outside| node.outside(&outside))
    }

    read = cuMemcpyDtoH_v2, hipMemcpyDtoH (to: *mut u8, from: u64, bytes: usize) |node, _| {
        node.wait();
        node.settle(from, bytes as u64)?;
        match node.memory.bytes_mut(from, bytes as u64) {
            Ok(from) => {
                // SAFETY: the caller gives room for this many bytes.
                unsafe { slice::from_raw_parts_mut(to, bytes) }.copy_from_slice(from);
                Ok(())
            }
            Err(outside) => Err(node.outside(&outside)),
        }
    }

    load = cuModuleLoadData, hipModuleLoadData (module: *mut usize, image: *const c_void) |node, _| {
        let file = code_object::elf_file(image).ok_or(INVALID_IMAGE)?;
        let kernel = node.kernels.get(&Digest::of(file)).ok_or(INVALID_IMAGE)?.clone();
        if let Some(Effect::Return(code)) = node.effect("load_kernel", &kernel.key) {
            return Err(code);
        }
        if node.loaded.iter().flatten().count() >= node.gpu().kernels {
            return Err(OUT_OF_MEMORY);
        }
        node.loaded.push(Some((kernel, 0)));
        put(module, node.loaded.len());
        Ok(())
    }

    unload = cuModuleUnload, hipModuleUnload (module: usize) |node, _| { node.unload(module) }

    function = cuModuleGetFunction, hipModuleGetFunction (function: *mut usize, module: usize, name: *const c_char) |node, _| {
        // SAFETY: the caller gives a text that ends with a zero byte.
        let name = unsafe { std::ffi::CStr::from_ptr(name) };
        let (kernel, _) = node.loaded(module)?;
        if name.to_str() != Ok(kernel.symbol.as_str()) {
            return Err(NOT_FOUND);
        }
        put(function, module);
        Ok(())
    }

    event_create = cuEventCreate, hipEventCreateWithFlags (event: *mut usize, _flags: c_uint) |node, _| {
        node.events.push((0, true));
        put(event, node.events.len());
        Ok(())
    }

    event_record = cuEventRecord, hipEventRecord (event: usize, _stream: usize) |node, _| {
        let time = node.clock;
        node.clock += EVENT;
        *place(&mut node.events, event)? = (time, false);
        Ok(())
    }

    event_query = cuEventQuery, hipEventQuery (event: usize) |node, _| {
        let (_, waited) = *place(&mut node.events, event)?;
        if waited { Ok(()) } else { Err(NOT_READY) }
    }

    event_elapsed = cuEventElapsedTime, hipEventElapsedTime (millis: *mut f32, start: usize, end: usize) |node, _| {
        let times = [start, end].map(|event| place(&mut node.events, event).copied());
        let [(start, true), (end, true)] = [times[0]?, times[1]?] else { return Err(NOT_READY) };
        put(millis, (end.saturating_sub(start) as f64 / 1e6) as f32);
        Ok(())
    }

    event_destroy = cuEventDestroy_v2, hipEventDestroy (_event: usize) |_, _| { Ok(()) }
}

/// Declares the function that launches a kernel. It is the same for both vendors.
macro_rules! launches {
    ($($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $name(
                function: usize,
                x: c_uint,
                y: c_uint,
                z: c_uint,
                threads: c_uint,
                threads_y: c_uint,
                threads_z: c_uint,
                shared: c_uint,
                _stream: usize,
                arguments: *mut *mut c_void,
                _extra: usize,
            ) -> c_int {
                launch(function, [x, y, z], [threads, threads_y, threads_z], shared, arguments)
            }
        )*
    };
}

launches! { cuLaunchKernel hipModuleLaunchKernel }

fn launch(
    function: usize,
    grid: [u32; 3],
    threads: [u32; 3],
    shared: u32,
    arguments: *mut *mut c_void,
) -> c_int {
    /// A kernel that needs more bytes than this must be allowed to use them.
    const ORDINARY_SHARED: u32 = 48 << 10;
    perform("launch any", |node, _| {
        let (kernel, allowed) = node.loaded(function)?.clone();
        node.launched = true;
        let effect = node.effect_of_launch(&kernel.key)?;
        let most = node.gpu().shared;
        // AMD's driver needs no permission.
        let ordinary = if node.gpu().is_amd() { most } else { ORDINARY_SHARED };
        if shared > ordinary.max(allowed) {
            return Err(INVALID);
        }
        if (threads, shared) != ([kernel.threads, 1, 1], kernel.shared) {
            let given = format!("{threads:?} threads and {shared} bytes of shared memory");
            return Err(node.violation(&format!("{}: launched with {given}", kernel.key)));
        }
        let passed = laid_out(&kernel.work.sizes());
        if node.gpu().is_amd() && kernel.arguments.as_ref() != Some(&passed) {
            let stated = format!("arguments at {:?}, passed at {passed:?}", kernel.arguments);
            return Err(node.violation(&format!("{}: {stated}", kernel.key)));
        }
        match task(&kernel, grid, &mut Arguments::new(arguments), &mut node.memory) {
            Ok(task) => run(node, &kernel.key, task, effect),
            Err(what) => Err(node.violation(&format!("{}: {what}", kernel.key))),
        }
    })
}

fn run(node: &mut Node, key: &str, task: Task, effect: Option<Effect>) -> Result<(), i32> {
    /// The least time that any launch takes.
    const LEAST: u64 = 1000;
    let mut took = LEAST;
    match task {
        Task::Product(mut product) => {
            product.wrong = effect == Some(Effect::Wrong);
            // The factor is the same for a kernel in every run, and differs between kernels.
            let factor = 50 + key.bytes().fold(7_u64, |sum, byte| (sum * 31 + u64::from(byte)) % 101);
            took += product.size.iter().product::<u64>() * factor / 1000;
            node.pending.add(*product, &mut node.memory).map_err(|outside| node.outside(&outside))?;
        }
        Task::Fill { at, number, count, seed } => {
            let bytes = node.memory.bytes_mut(at, count * number.size());
            match bytes {
                Ok(bytes) => fill(bytes, number, count, seed),
                Err(outside) => return Err(node.outside(&outside)),
            }
        }
        Task::FillScales { at, count, seed, size } => match node.memory.bytes_mut(at, 4 * count) {
            Ok(bytes) => fill_scales(bytes, count, seed, size),
            Err(outside) => return Err(node.outside(&outside)),
        },
        Task::Compare { result, expected, number, wrong, count, absolute, relative } => {
            let sizes = [(result, number), (expected, number.sum())];
            let mut values = Vec::new();
            for (address, number) in sizes {
                let bytes = count * number.size();
                node.settle(address, bytes)?;
                let read = node.memory.bytes_mut(address, bytes).map(|bytes| bytes.to_vec());
                values.push(read.map_err(|outside| node.outside(&outside))?);
            }
            let off = (0..count).filter(|&element| {
                let given = number.read(&values[0], element);
                let expected = number.sum().read(&values[1], element);
                // Written so that NaN counts as wrong.
                let right = (given - expected).abs() <= absolute + relative * expected.abs();
                !right
            });
            let off = off.count() as u32;
            match node.memory.bytes_mut(wrong, 4) {
                Ok(counter) => {
                    let before = code_object::number(counter, 0, 4) as u32;
                    counter.copy_from_slice(&(before + off).to_le_bytes());
                }
                Err(outside) => return Err(node.outside(&outside)),
            }
        }
    }
    if let Some(Effect::Slow(times)) = effect {
        took = (took as f64 * times) as u64;
    }
    node.clock += took;
    Ok(())
}

/// Fills memory with numbers that look normal enough: each is the sum of four uniform numbers
/// between -1 and 1.
fn fill(bytes: &mut [u8], number: Number, count: u64, seed: u64) {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for element in 0..count {
        let parts = (0..4).map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1 << 30) - 1.0
        });
        let value: f64 = parts.sum();
        // Integers are as much larger as those of the real kernel.
        number.write(bytes, element, if number == Number::Byte { 40.0 * value } else { value });
    }
}

/// Fills memory with scales around 0.6. A matrix has the same ones, however it is written.
fn fill_scales(bytes: &mut [u8], count: u64, seed: u64, [rows, columns]: [u64; 2]) {
    for element in 0..count {
        let drawn = element % rows * columns + element / rows;
        let mixed = (drawn + seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
        Number::Single.write(bytes, element, 0.5 + 0.2 * mixed as f64 / f64::from(1 << 24));
    }
}
