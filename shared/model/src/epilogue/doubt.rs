//! How much faster than the library a tile must be predicted to be, to be taken instead of it.
//!
//! `docs/results.md` has the figures.

use std::ops::RangeInclusive;

use diode_core::{Config, DType, Micros, Problem};

/// With this share fewer picks are slower than the library, and the mean speed changes by less than 0.3 %.
const DOUBT: f64 = 0.07;

/// The share for [`FEW_ROWS`] in half precision, if the library takes [`FROM_US`] or more. Most of the time
/// goes into reading B once, and is predicted more exactly.
const DOUBT_OF_FEW_ROWS: f64 = 0.04;
const FEW_ROWS: RangeInclusive<u64> = 8..=32;
const FROM_US: f64 = 10.0;

/// The share for a tile of [`LEAST_ROWS`], or for [`FEW_ROWS`] also of twice as many, whose threads hold
/// [`MANY_VALUES`] of the product or more. If such a kernel knows its sizes, as Inductor's does, `ptxas` gives it
/// few registers for some sizes. Then it takes up to 2.2 times as long as the kernel that was timed, which does
/// not know them.
const DOUBT_OF_REGISTERS: f64 = 0.13;
const LEAST_ROWS: u32 = 16;
const MANY_VALUES: u32 = 16;

/// The share for a batched tile of [`LEAST_ROWS`] that has all rows of the product and takes all of K in one step.
/// A kernel that knows K then has no loop, and takes up to 1.16 times as long as the kernel that was timed.
const DOUBT_OF_ONE_STEP: f64 = 0.13;

/// The share of its time that is added to a kernel's time before times are compared. 0 for the library, whose
/// time alone is `library`.
pub(super) fn doubt(config: &Config, problem: &Problem, library: Option<Micros>) -> f64 {
    let has_few_rows = !problem.op.is_batched()
        && FEW_ROWS.contains(&problem.m)
        && problem.a_dtype != DType::Float32
        && library.is_some_and(|time| time.0 >= FROM_US);
    let rows_in_doubt = if has_few_rows { 2 * LEAST_ROWS } else { LEAST_ROWS };
    match config {
        _ if config.is_library() => 0.0,
        // The template for batches has another loop. A warp has 32 threads wherever doubts were measured.
        Config::Mm(tile)
            if tile.block_m <= rows_in_doubt
                && tile.block_m * tile.block_n / (32 * tile.num_warps) >= MANY_VALUES =>
        {
            DOUBT_OF_REGISTERS
        }
        Config::Bmm(tile)
            if tile.block_m <= LEAST_ROWS
                && problem.m <= u64::from(tile.block_m)
                && problem.k <= u64::from(tile.block_k) =>
        {
            DOUBT_OF_ONE_STEP
        }
        _ if has_few_rows => DOUBT_OF_FEW_ROWS,
        _ => DOUBT,
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{Layout, Op, ProblemFields, Tile};

    use super::*;

    fn asked(tile: [u32; 2], warps: u32, op: Op, rows: u64, library_us: f64) -> f64 {
        let fields = ProblemFields::plain(op, 1, rows, 4096, 14336, DType::BFloat16);
        let problem = Problem::new(ProblemFields { b_layout: Layout::Column, ..fields }).unwrap();
        let tile = Tile::new(tile[0], tile[1], 256, 4, warps);
        let config = if op.is_batched() { Config::Bmm(tile) } else { Config::Mm(tile) };
        doubt(&config, &problem, Some(Micros(library_us)))
    }

    #[test]
    fn more_is_asked_of_a_batched_tile_that_takes_all_of_k_in_one_step() {
        let asked = |tile: [u32; 3], rows: u64, k: u64| {
            let fields = ProblemFields::plain(Op::Bmm, 128, rows, 2048, k, DType::BFloat16);
            let problem = Problem::new(ProblemFields { b_layout: Layout::Column, ..fields }).unwrap();
            doubt(&Config::Bmm(Tile::new(tile[0], tile[1], tile[2], 2, 4)), &problem, Some(Micros(28.0)))
        };
        assert_eq!(asked([16, 64, 128], 4, 128), DOUBT_OF_ONE_STEP);
        assert_eq!(asked([16, 64, 64], 4, 128), DOUBT, "two steps");
        assert_eq!(asked([16, 64, 128], 77, 128), DOUBT, "many rows");
        assert_eq!(asked([64, 64, 128], 4, 128), DOUBT, "a tile of many rows");
    }

    #[test]
    fn less_is_asked_of_a_tile_for_few_rows() {
        assert_eq!(asked([16, 32], 4, Op::Mm, 16, 42.0), DOUBT_OF_FEW_ROWS);
        assert_eq!(asked([16, 32], 4, Op::Mm, 1, 42.0), DOUBT, "cuBLAS has other kernels for one row");
        assert_eq!(asked([16, 32], 4, Op::Mm, 64, 42.0), DOUBT, "many rows");
        assert_eq!(asked([16, 32], 4, Op::Mm, 16, 9.0), DOUBT, "a short time");
        assert_eq!(asked([16, 32], 4, Op::Bmm, 16, 42.0), DOUBT, "batched");
    }

    #[test]
    fn more_is_asked_of_a_tile_that_may_get_few_registers() {
        assert_eq!(asked([16, 64], 2, Op::Mm, 16, 42.0), DOUBT_OF_REGISTERS);
        assert_eq!(asked([16, 64], 4, Op::Mm, 16, 42.0), DOUBT_OF_FEW_ROWS, "8 values per thread");
        assert_eq!(asked([32, 32], 2, Op::Mm, 32, 42.0), DOUBT_OF_REGISTERS);
        assert_eq!(asked([32, 32], 2, Op::Mm, 64, 42.0), DOUBT, "many rows");
        assert_eq!(asked([64, 64], 4, Op::Mm, 64, 42.0), DOUBT, "other instructions");
        assert_eq!(asked([16, 64], 2, Op::Bmm, 16, 42.0), DOUBT, "batched");
    }
}
