use diode_api::Ability;
use diode_core::hardware::{Hardware, Vendor};
use diode_core::{DType, KernelVariant, Layout, Op};

use super::allowed::Allowed;
use crate::devices::gpu::most_operand_bytes;
use crate::node::available_memory;

/// The most memory that a problem's operands may take on any GPU. Larger problems take too long.
const GPU_BYTES: u64 = 8 << 30;

/// The share of a CPU's free memory that operands may take. Other programs use the node, too.
const CPU_SHARE: f64 = 0.25;

/// What the server is told that a device can measure. Without `--ops` this is every operator, without `--dtypes` every
/// usual type.
pub(crate) fn ability(hardware: &Hardware, allowed: &Allowed) -> Ability {
    let or_all = |given: &[Op]| if given.is_empty() { Op::ALL.to_vec() } else { given.to_vec() };
    let usual = [DType::BFloat16, DType::Float16, DType::Float32];
    let memory_bytes = match hardware.vendor {
        Vendor::Cpu => available_memory().map_or(1 << 30, |bytes| (bytes as f64 * CPU_SHARE) as u64),
        Vendor::Nvidia | Vendor::Amd => GPU_BYTES,
    };
    Ability {
        ops: or_all(&allowed.ops),
        dtypes: if allowed.dtypes.is_empty() { usual.to_vec() } else { allowed.dtypes.to_vec() },
        layouts: Layout::ALL.to_vec(),
        unaligned: true,
        memory_bytes,
        variants: None,
    }
}

/// How many bytes operands may take on a GPU with this much memory.
pub(crate) fn gpu_bytes(memory_bytes: u64) -> u64 {
    most_operand_bytes(memory_bytes).min(GPU_BYTES)
}

/// What a GPU can measure with kernels for these variants, if operands may take `memory_bytes`.
pub(crate) fn ability_with(variants: Vec<KernelVariant>, memory_bytes: u64) -> Ability {
    Ability {
        ops: distinct(variants.iter().map(|variant| variant.op())),
        dtypes: distinct(variants.iter().map(|variant| variant.dtype)),
        layouts: distinct(variants.iter().map(|variant| variant.b_layout)),
        unaligned: variants.iter().any(|variant| !variant.is_aligned()),
        memory_bytes,
        variants: Some(variants),
    }
}

fn distinct<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}
