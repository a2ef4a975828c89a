use diode_core::api::Ability;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::{DType, Layout, Op};

use crate::node::available_memory;

/// What a GPU's operands may take unless it says more; every GPU that counts has as much.
const GPU_BYTES: u64 = 8 << 30;

/// The share of a CPU's free memory that operands may take: others use the node, too.
const CPU_SHARE: f64 = 0.25;

/// What a device can measure, as the server is told. Without a choice these are all operators and the types that
/// devices compute.
pub(crate) fn ability(hardware: &Hardware, ops: &[Op], dtypes: &[DType]) -> Ability {
    let or_all = |given: &[Op]| if given.is_empty() { Op::ALL.to_vec() } else { given.to_vec() };
    let usual = [DType::BFloat16, DType::Float16, DType::Float32];
    let memory_bytes = match hardware.vendor {
        Vendor::Cpu => available_memory().map_or(1 << 30, |bytes| (bytes as f64 * CPU_SHARE) as u64),
        Vendor::Nvidia | Vendor::Amd => GPU_BYTES,
    };
    Ability {
        ops: or_all(ops),
        dtypes: if dtypes.is_empty() { usual.to_vec() } else { dtypes.to_vec() },
        layouts: Layout::ALL.to_vec(),
        unaligned: true,
        memory_bytes,
    }
}
