//! What the driver's management library says of a GPU: clocks, heat, other users.
#![allow(unsafe_code, reason = "a foreign function interface; nothing unsafe leaves this module")]

use std::ffi::{CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::Library;

type Device = *mut c_void;

/// The library, and one GPU of it.
pub(crate) struct Nvml {
    library: Library,
    device: Device,
}

/// The state of a GPU at a moment; `None` where the driver does not say.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) sm_mhz: Option<u32>,
    pub(crate) celsius: Option<u32>,
    pub(crate) throttled: Option<Throttled>,
}

/// Why clocks are lower than asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Throttled(u64);

impl Throttled {
    const POWER_CAP: u64 = 0x4;
    const HARDWARE: u64 = 0x8;
    const SOFT_HEAT: u64 = 0x20;
    const HARD_HEAT: u64 = 0x40;
    const POWER_BRAKE: u64 = 0x80;

    /// Something is wrong with the node: heat, or the power supply. The power cap
    /// itself is how large multiplications always run.
    pub(crate) fn is_disturbing(self) -> bool {
        self.0 & (Self::HARDWARE | Self::SOFT_HEAT | Self::HARD_HEAT | Self::POWER_BRAKE) != 0
    }

    pub(crate) fn by_power_cap(self) -> bool {
        self.0 & Self::POWER_CAP != 0
    }
}

/// What a node is asked once.
#[derive(Debug, Clone, Default)]
pub(crate) struct Settings {
    pub(crate) driver: Option<String>,
    pub(crate) power_limit_mw: Option<u32>,
    pub(crate) default_power_limit_mw: Option<u32>,
    pub(crate) mig: bool,
    /// Other processes that compute on it.
    pub(crate) processes: u32,
}

impl Nvml {
    /// `None` where the library is missing or does not know the GPU.
    pub(crate) fn open(bus_id: &str) -> Option<Self> {
        // SAFETY: loading NVIDIA's management library runs its initialisers.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        let bus_id = CString::new(bus_id).ok()?;
        let mut device = ptr::null_mut();
        // SAFETY: signatures as in NVML's reference; the name ends with a zero byte, one handle is written.
        unsafe {
            let init = library.get::<unsafe extern "C" fn() -> c_int>(b"nvmlInit_v2\0").ok()?;
            let find = library
                .get::<unsafe extern "C" fn(*const c_char, *mut Device) -> c_int>(
                    b"nvmlDeviceGetHandleByPciBusId_v2\0",
                )
                .ok()?;
            if init() != 0 || find(bus_id.as_ptr(), &mut device) != 0 {
                return None;
            }
        }
        Some(Self { library, device })
    }

    pub(crate) fn state(&self) -> State {
        const SM: c_uint = 1;
        const CORE: c_uint = 0;
        State {
            sm_mhz: self.number_of(b"nvmlDeviceGetClockInfo\0", SM),
            celsius: self.number_of(b"nvmlDeviceGetTemperature\0", CORE),
            throttled: self.number::<u64>(b"nvmlDeviceGetCurrentClocksThrottleReasons\0").map(Throttled),
        }
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            driver: self.driver(),
            power_limit_mw: self.number(b"nvmlDeviceGetPowerManagementLimit\0"),
            default_power_limit_mw: self.number(b"nvmlDeviceGetPowerManagementDefaultLimit\0"),
            mig: self.mig(),
            processes: self.processes(),
        }
    }

    fn driver(&self) -> Option<String> {
        let mut text = [0_u8; 96];
        // SAFETY: writes at most as many bytes as it is told there are.
        let code = unsafe {
            let ask = self
                .library
                .get::<unsafe extern "C" fn(*mut c_char, c_uint) -> c_int>(b"nvmlSystemGetDriverVersion\0")
                .ok()?;
            ask(text.as_mut_ptr().cast(), text.len() as c_uint)
        };
        let end = text.iter().position(|&byte| byte == 0)?;
        (code == 0).then(|| String::from_utf8_lossy(&text[..end]).into_owned())
    }

    fn mig(&self) -> bool {
        let (mut current, mut pending): (c_uint, c_uint) = (0, 0);
        // SAFETY: writes two numbers.
        let code = unsafe {
            let Ok(ask) =
                self.library.get::<unsafe extern "C" fn(Device, *mut c_uint, *mut c_uint) -> c_int>(
                    b"nvmlDeviceGetMigMode\0",
                )
            else {
                return false;
            };
            ask(self.device, &mut current, &mut pending)
        };
        code == 0 && current == 1
    }

    /// How many processes compute on the GPU, this one left out.
    fn processes(&self) -> u32 {
        #[repr(C)]
        #[derive(Clone, Copy, Default)]
        struct Process {
            pid: c_uint,
            used: u64,
            gpu_instance: c_uint,
            compute_instance: c_uint,
        }
        let mut processes = [Process::default(); 64];
        let mut count = processes.len() as c_uint;
        // SAFETY: writes at most `count` records of this layout, and how many there are.
        let code = unsafe {
            let Ok(ask) =
                self.library.get::<unsafe extern "C" fn(Device, *mut c_uint, *mut Process) -> c_int>(
                    b"nvmlDeviceGetComputeRunningProcesses_v3\0",
                )
            else {
                return 0;
            };
            ask(self.device, &mut count, processes.as_mut_ptr())
        };
        if code != 0 {
            return 0;
        }
        let own = std::process::id();
        processes.iter().take(count as usize).filter(|process| process.pid != own).count() as u32
    }

    fn number<T: Default>(&self, symbol: &[u8]) -> Option<T> {
        let mut value = T::default();
        // SAFETY: the callers name functions that write one number of type T.
        let code = unsafe {
            let ask = self.library.get::<unsafe extern "C" fn(Device, *mut T) -> c_int>(symbol).ok()?;
            ask(self.device, &mut value)
        };
        (code == 0).then_some(value)
    }

    fn number_of(&self, symbol: &[u8], which: c_uint) -> Option<u32> {
        let mut value: c_uint = 0;
        // SAFETY: the callers name functions that take a selector and write one number.
        let code = unsafe {
            let ask = self
                .library
                .get::<unsafe extern "C" fn(Device, c_uint, *mut c_uint) -> c_int>(symbol)
                .ok()?;
            ask(self.device, which, &mut value)
        };
        (code == 0).then_some(value)
    }
}
