//! How long a tile's kernel takes to compile if sizes are part of its code, as in Inductor's.
//!
//! `ptxas` then knows how often the loop over K runs. If the loop is short enough, it writes all its
//! steps one after the other (it unrolls the loop), which takes seconds for kernels with Hopper's warp-group
//! instructions. `docs/results.md` has the times that these numbers were fitted to.

use diode_core::{Config, DType, Layout, Problem, Tile};

use super::Weighed;

/// By which share of its time a kernel may be slower for each second by which it compiles sooner.
const SHARE_PER_SECOND: f64 = 0.01;
/// Compiling for longer than this counts no more.
const MOST_SECONDS: f64 = 3.0;

/// A kernel in TF32 hides how often its loop runs, if unrolling it would take longer than this. Unrolled loops
/// are 1.6 % faster in half precision, and 0.1 % in TF32.
const SOON_SECONDS: f64 = 0.5;

/// A loop is unrolled if its steps have no more instructions than this together.
const MOST_UNROLLED: f64 = 3200.0;
/// `ptxas` unrolls some loops with a few more.
const PERHAPS_UNROLLED: f64 = 1.5 * MOST_UNROLLED;
/// Instructions of a step, beside its copies and multiplications.
const INSTRUCTIONS: f64 = 20.0;
const PER_COPY: f64 = 4.0;
const PER_MULTIPLICATION: f64 = 6.0;
/// The seconds grow with the power 1.5 of a thread's values of the product in all steps, and with the power
/// 0.75 of the bytes of K in a step.
const SECONDS: f64 = 5.6e-7;

/// Puts the tile first that is worth most if it must be compiled. Only tiles that stand before the library
/// can become the first.
pub(super) fn soonest_first(best_first: &mut [Weighed], problem: &Problem) {
    let worth = |one: &Weighed| {
        let seconds = compile_seconds(&one.config, problem).min(MOST_SECONDS);
        one.total().0 * (1.0 + SHARE_PER_SECOND * seconds)
    };
    let tiles = best_first.iter().take_while(|one| !one.config.is_library()).enumerate();
    let chosen = tiles.min_by(|(_, a), (_, b)| worth(a).total_cmp(&worth(b)));
    if let Some((at, _)) = chosen {
        best_first[..=at].rotate_right(1);
    }
}

/// Whether a tile's kernel should hide from `ptxas` how often its loop over K runs, so that it is not unrolled.
/// A kernel in fp32 is taken to round to TF32.
#[must_use]
pub fn hides_steps(config: &Config, problem: &Problem) -> bool {
    let (Config::Mm(tile) | Config::Bmm(tile)) = config else { return false };
    let steps = Loop::of(tile, problem);
    // Only the template for `mm` is known to do so.
    !problem.op.is_batched()
        && problem.a_dtype == DType::Float32
        && may_use_warp_groups(tile, problem)
        && steps.instructions() <= PERHAPS_UNROLLED
        && steps.seconds() > SOON_SECONDS
}

/// How many seconds the unrolled loop of a kernel takes in `ptxas` on a core of 2026. 0 if it is not
/// unrolled, and for other instructions than Hopper's, which are compiled soon in any case.
fn compile_seconds(config: &Config, problem: &Problem) -> f64 {
    let (Config::Mm(tile) | Config::Bmm(tile)) = config else { return 0.0 };
    let rounds = problem.a_dtype != DType::Float32 || tile.allow_tf32;
    if !rounds || !may_use_warp_groups(tile, problem) || hides_steps(config, problem) {
        return 0.0;
    }
    let steps = Loop::of(tile, problem);
    if steps.instructions() <= MOST_UNROLLED { steps.seconds() } else { 0.0 }
}

/// The loop over K of a kernel with warp-group instructions.
struct Loop {
    steps: f64,
    instructions_per_step: f64,
    /// How many values of the product a thread holds.
    values: f64,
    bytes_of_k: f64,
}

impl Loop {
    fn of(tile: &Tile, problem: &Problem) -> Self {
        let bytes_of_k = u64::from(tile.block_k) * problem.a_dtype.size();
        // A copy moves 16 bytes for each thread, a multiplication takes 64 rows and 32 bytes of K.
        let copies =
            |block: u32| (u64::from(block) * bytes_of_k).div_ceil(16 * 32 * u64::from(tile.num_warps));
        let multiplications =
            u64::from(tile.block_m).div_ceil(16 * u64::from(tile.num_warps)) * (bytes_of_k / 32);
        Self {
            steps: problem.k.div_ceil(u64::from(tile.block_k)) as f64,
            instructions_per_step: INSTRUCTIONS
                + PER_COPY * (copies(tile.block_m) + copies(tile.block_n)) as f64
                + PER_MULTIPLICATION * multiplications as f64,
            values: f64::from(tile.block_m * tile.block_n) / f64::from(32 * tile.num_warps),
            bytes_of_k: bytes_of_k as f64,
        }
    }

    /// Of all steps together.
    fn instructions(&self) -> f64 {
        self.steps * self.instructions_per_step
    }

    /// The seconds if it is unrolled.
    fn seconds(&self) -> f64 {
        let work = self.values * self.steps;
        SECONDS * work * work.sqrt() * (self.bytes_of_k * self.bytes_of_k.sqrt()).sqrt()
    }
}

/// Whether there are warp-group instructions for a tile, in fp32 those for TF32.
fn may_use_warp_groups(tile: &Tile, problem: &Problem) -> bool {
    let along_k = (problem.a_layout, problem.b_layout) == (Layout::Row, Layout::Column);
    (problem.a_dtype != DType::Float32 || along_k) && tile.block_m >= 64 && tile.num_warps >= 4
}

#[cfg(test)]
mod tests {
    use diode_core::{Micros, Op, ProblemFields};

    use super::*;

    fn linear(n: u64, k: u64, dtype: DType) -> Problem {
        let fields = ProblemFields::plain(Op::Mm, 1, 4096, n, k, dtype);
        Problem::new(ProblemFields { b_layout: Layout::Column, ..fields }).unwrap()
    }

    fn tile(blocks: [u32; 3], stages: u32, warps: u32) -> Config {
        Config::Mm(Tile { allow_tf32: true, ..Tile::new(blocks[0], blocks[1], blocks[2], stages, warps) })
    }

    #[test]
    fn seconds_are_near_those_that_were_measured() {
        // The times of `ptxas` for kernels that Inductor made of a linear layer with a ReLU or a residual.
        for (blocks, stages, warps, k, dtype, measured) in [
            ([128, 256, 64], 4, 8, 1024, DType::BFloat16, 2.7),
            ([128, 128, 64], 3, 8, 1024, DType::BFloat16, 0.6),
            ([128, 128, 32], 3, 4, 512, DType::Float32, 1.95),
            ([64, 128, 32], 4, 4, 768, DType::Float32, 1.29),
            ([64, 64, 32], 4, 4, 768, DType::Float32, 0.41),
        ] {
            let tile = Tile::new(blocks[0], blocks[1], blocks[2], stages, warps);
            let found = Loop::of(&tile, &linear(1024, k, dtype)).seconds();
            assert!((0.6..1.6).contains(&(found / measured)), "{blocks:?} w{warps}: {found} of {measured}");
        }
    }

    #[test]
    fn in_tf32_a_loop_that_would_take_long_hides_its_steps() {
        let in_tf32 = |k| linear(1024, k, DType::Float32);
        let large = tile([128, 128, 32], 5, 4);
        assert!(hides_steps(&large, &in_tf32(768)));
        assert_eq!(compile_seconds(&large, &in_tf32(768)), 0.0);
        assert!(hides_steps(&large, &in_tf32(1024)), "it may be unrolled");
        assert!(!hides_steps(&large, &in_tf32(2048)), "the loop is too long to be unrolled");
        assert!(!hides_steps(&tile([64, 16, 32], 5, 4), &in_tf32(256)), "it compiles soon");
        assert!(!hides_steps(&tile([128, 128, 32], 5, 2), &in_tf32(768)), "too few warps for a group");
        assert!(!hides_steps(&tile([128, 128, 64], 3, 4), &linear(1024, 1024, DType::BFloat16)));
        assert!(!hides_steps(&Config::Library, &in_tf32(768)));
        let batched = ProblemFields::plain(Op::Bmm, 4, 4096, 1024, 768, DType::Float32);
        let batched = Problem::new(ProblemFields { b_layout: Layout::Column, ..batched }).unwrap();
        assert!(!hides_steps(&large, &batched), "its template has another loop");
    }

    #[test]
    fn long_loops_and_other_instructions_are_compiled_soon() {
        let bf16 = |k| linear(1024, k, DType::BFloat16);
        let large = tile([128, 128, 64], 3, 4);
        assert!(compile_seconds(&large, &bf16(1024)) > 1.0);
        assert_eq!(compile_seconds(&large, &bf16(2048)), 0.0, "the loop is too long to be unrolled");
        assert_eq!(
            compile_seconds(&tile([128, 128, 64], 3, 2), &bf16(1024)),
            0.0,
            "too few warps for a group"
        );
        assert_eq!(compile_seconds(&Config::Library, &bf16(1024)), 0.0);
        let rows = ProblemFields::plain(Op::Mm, 1, 4096, 1024, 512, DType::Float32);
        let rows = Problem::new(rows).unwrap();
        assert_eq!(compile_seconds(&tile([128, 128, 32], 3, 4), &rows), 0.0, "B does not run along K");
    }

    #[test]
    fn a_tile_gives_way_to_one_that_compiles_sooner_and_is_nearly_as_fast() {
        let (slow, soon) = (tile([128, 256, 64], 4, 8), tile([128, 128, 64], 3, 8));
        let first = |kernels: &[(Config, f64)]| {
            let weighed = |&(config, us)| Weighed { config, alone: Micros(us), following: Micros(0.0) };
            let mut kernels: Vec<Weighed> = kernels.iter().map(weighed).collect();
            soonest_first(&mut kernels, &linear(1024, 1024, DType::BFloat16));
            kernels[0].config
        };
        assert_eq!(first(&[(slow, 19.4), (soon, 19.6)]), soon);
        assert_eq!(first(&[(slow, 19.4), (soon, 20.0)]), slow, "3 % slower");
        let library = Config::Library;
        assert_eq!(
            first(&[(slow, 19.4), (library, 20.8), (soon, 19.6)]),
            slow,
            "the library is better than it"
        );
        assert_eq!(first(&[(library, 19.4), (slow, 19.6), (soon, 19.6)]), library);
    }
}
