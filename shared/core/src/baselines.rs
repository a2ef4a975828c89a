//! The configs that vLLM 0.33 and SGLang 0.5.23 run where nobody has tuned anything.

use crate::hardware::{Hardware, Vendor};
use crate::named_enum::named_enum;
use crate::space::serving::is_swapped;
use crate::{Config, DType, Op, Problem, ProblemFields, Scaling, Tile};

named_enum! {
    /// A named config of a problem.
    Baseline("baseline") {
        VllmDefault = "vllm-default",
        SglangDefault = "sglang-default",
    }
}

impl Baseline {
    /// The config that runs by default. `None` for problems that are not computed by a kernel with a config of
    /// blocks.
    pub fn config(self, hardware: &Hardware, problem: &Problem) -> Option<Config> {
        let shape = match (problem.op, problem.scaling) {
            (Op::ScaledMm, Scaling::Block) => {
                let stages = if self == Self::VllmDefault { 2 } else { 3 };
                Shape { blocks: [64, 128, 128], group: 32, stages, warps: 4 }
            }
            (Op::FusedMoe, _) if self == Self::VllmDefault => vllm_experts(problem),
            (Op::FusedMoe, _) => sglang_experts(problem, has_little_shared_memory(hardware)),
            _ => return None,
        };
        let [m, n, k] = shape.blocks;
        // Both load fewer stages on AMD GPUs.
        let stages = if hardware.vendor == Vendor::Amd { 2 } else { shape.stages };
        let swap_ab = is_swapped(hardware, problem, m, n);
        let tile = Tile { group_m: shape.group, swap_ab, ..Tile::new(m, n, k, stages, shape.warps) };
        Some(Config::Mm(tile.for_k(problem.k)))
    }
}

struct Shape {
    blocks: [u32; 3],
    group: u32,
    stages: u32,
    warps: u32,
}

/// The tiles of both defaults for all numbers of tokens of a layer of experts.
pub(crate) fn experts_tiles(problem: &Problem) -> impl Iterator<Item = Tile> {
    const TOKENS: [u64; 9] = [1, 8, 16, 32, 64, 96, 128, 512, 8192];
    let shapes = TOKENS.into_iter().filter_map(|m| {
        let problem = Problem::new(ProblemFields { m, ..problem.clone().into_fields() }).ok()?;
        Some([vllm_experts(&problem), sglang_experts(&problem, false)])
    });
    shapes.flatten().map(|Shape { blocks: [m, n, k], stages, warps, .. }| Tile::new(m, n, k, stages, warps))
}

/// `get_default_config` of vLLM.
fn vllm_experts(problem: &Problem) -> Shape {
    let (tokens, fp8) = (problem.m, problem.a_dtype.is_fp8());
    if fp8 && problem.scaling == Scaling::Block {
        let n = if tokens <= 8 { 64 } else { 128 };
        let m = if tokens <= 64 { 16 } else { 64 };
        let group = if tokens <= 16 { 1 } else { 32 };
        return Shape { blocks: [m, n, 128], group, stages: if tokens <= 4 { 4 } else { 3 }, warps: 4 };
    }
    let m = match tokens {
        0..=32 => 16,
        33..=96 => 32,
        97..=512 => 64,
        _ => 128,
    };
    let experts = problem.groups.map_or(1, |groups| u64::from(groups.count));
    Shape {
        blocks: [m, if tokens <= 64 { 64 } else { 128 }, if fp8 || tokens <= 64 { 128 } else { 64 }],
        group: if tokens / experts > 128 { 16 } else { 1 },
        stages: if tokens <= 32 { 4 } else { 3 },
        warps: if tokens <= 128 { 4 } else { 8 },
    }
}

/// `get_default_config` of SGLang.
fn sglang_experts(problem: &Problem, small: bool) -> Shape {
    let few = problem.groups.is_some_and(|groups| problem.m <= u64::from(groups.count));
    let (blocks, group, stages, warps) = match (problem.scaling, problem.a_dtype) {
        (Scaling::Block, dtype) if dtype != DType::Int8 => ([64, 128, 128], 32, 3, 4),
        (_, dtype) if dtype.is_fp8() => match (small, few) {
            (true, true) => ([32, 64, 256], 1, 4, 4),
            (true, false) => ([64, 128, 256], 64, 2, 4),
            (false, true) => ([64, 128, 128], 1, 4, 4),
            (false, false) => ([128, 256, 128], 32, 4, 8),
        },
        _ if few => ([16, 32, 64], 1, 3, 4),
        _ => ([64, 64, 32], 8, 3, 4),
    };
    Shape { blocks, group, stages, warps }
}

/// Whether SGLang takes smaller blocks.
fn has_little_shared_memory(hardware: &Hardware) -> bool {
    const LARGE: u32 = 128 * 1024;
    hardware.vendor == Vendor::Nvidia
        && hardware.facts.as_ref().is_some_and(|facts| facts.smem_per_block < LARGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::find;
    use crate::problem::problems_in;

    fn label(baseline: Baseline, hardware: &str, text: &str) -> Option<String> {
        let problem = problems_in(text, DType::BFloat16).unwrap().remove(0);
        let config = baseline.config(&find(hardware).unwrap(), &problem)?;
        Some(format!("{} g{}", config.label(), config.tile().unwrap().group_m))
    }

    /// As `lab/serving/configs.py` has them, by which they were measured.
    #[test]
    fn defaults_follow_tokens_and_types() {
        let moe = |tokens: u32, rest: &str| format!("moe 128x768x2048 top8 {tokens} tokens {rest}");
        for (text, vllm, sglang) in [
            (moe(1, "bf16"), "16×64×128 s4 w4 g1", "16×32×64 s3 w4 g1"),
            (moe(64, "bf16"), "32×64×128 s3 w4 g1", "16×32×64 s3 w4 g1"),
            (moe(96, "bf16"), "32×128×64 s3 w4 g1", "16×32×64 s3 w4 g1"),
            (moe(512, "bf16"), "64×128×64 s3 w8 g1", "64×64×32 s3 w4 g8"),
            (moe(32_768, "bf16"), "128×128×64 s3 w8 g16", "64×64×32 s3 w4 g8"),
            (moe(4, "fp8 block"), "16×64×128 s4 w4 swap g1", "64×128×128 s3 w4 g32"),
            (moe(8, "fp8 block"), "16×64×128 s3 w4 swap g1", "64×128×128 s3 w4 g32"),
            (moe(64, "fp8 block"), "16×128×128 s3 w4 swap g32", "64×128×128 s3 w4 g32"),
            (moe(65, "fp8 block"), "64×128×128 s3 w4 g32", "64×128×128 s3 w4 g32"),
            (moe(256, "fp8 row"), "64×128×128 s3 w8 g1", "128×256×128 s4 w8 g32"),
            ("64x4096x7168 fp8 block".to_owned(), "64×128×128 s2 w4 g32", "64×128×128 s3 w4 g32"),
        ] {
            assert_eq!(label(Baseline::VllmDefault, "nvidia-h200", &text).unwrap(), vllm, "{text}");
            assert_eq!(label(Baseline::SglangDefault, "nvidia-h200", &text).unwrap(), sglang, "{text}");
        }
        let on_amd = label(Baseline::VllmDefault, "amd-mi300x", &moe(1, "bf16"));
        assert_eq!(on_amd.unwrap(), "16×64×128 s2 w4 g1");
        assert_eq!(label(Baseline::VllmDefault, "nvidia-h200", "64x4096x7168 fp8 row"), None);
    }
}
