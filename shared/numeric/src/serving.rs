//! The features of fp8, grouped and experts kernels, and their predicted times.
//!
//! Blocks of ragged groups are expected numbers: the rows of a group are binomially distributed.

use diode_core::hardware::Facts;
use diode_core::{Config, Op, Problem, Rows, Scaling, Stage};
use wide::{bytemuck, f32x8, f32x16};

use crate::features::{Column, linear, log2};
use crate::math;
use crate::network::{Network, Scratch};
use crate::vectors::{Log2, run};

/// The name of these columns. Files of models state it.
pub const SERVING_FEATURES: &str = "serving/1";
const LANES: usize = 16;

/// The share of the DRAM bandwidth that can be reached.
const SUSTAINED_DRAM: f32 = 0.9;
/// The share of the peak that the best kernels sustain under power limits.
const SUSTAINED_PEAK: f32 = 0.8;
/// The share of the cache bandwidth that all SMs together use in a main loop.
const SUSTAINED_L2: f32 = 0.8;
/// The share of the peak without warp-group instructions.
const SMALL_TILE_RATE: f32 = 0.5;
/// From issuing a load to using its data, in µs.
const LOAD_LATENCY_US: f32 = 0.7;
/// To begin and end a round of blocks, in µs.
const ROUND_US: f32 = 0.5;
const LAUNCH_US: f32 = 2.0;
/// From so many rows of a group on, blocks are counted by the mean alone.
const MANY_ROWS: f64 = 200.0;
/// Blocks have 2⁰ to 2¹⁰ rows.
const HEIGHTS: usize = 11;

/// The columns of the problem alone. They stand first.
const PROBLEM: usize = 23;
/// The columns of the tile alone. They stand second.
const TILE: usize = 24;
/// The columns of a tile on a problem. They stand last.
const JOINT: usize = 36;
/// The number of all columns.
pub const SERVING_COLUMNS: usize = PROBLEM + TILE + JOINT;

/// Every column. Sizes are in elements, bytes or operations, times in µs.
const COLUMNS: [Column; SERVING_COLUMNS] = [
    // The problem.
    log2("tokens"),
    log2("n"),
    log2("k"),
    log2("rows_of_a_group"),
    log2("rows"),
    log2("groups"),
    log2("top_k"),
    log2("distinct_groups"),
    log2("bytes"),
    log2("flops"),
    log2("flops_per_byte"),
    log2("base_us"),
    linear("stage_is_down"),
    linear("elements_of_a_byte"),
    linear("scales_by_row"),
    linear("scale_of_a_tensor"),
    linear("scales_by_block"),
    linear("grouped"),
    linear("experts"),
    linear("n_divisible_by_128"),
    linear("k_divisible_by_128"),
    linear("a_block_for_each_pair"),
    linear("one_token"),
    // The tile.
    log2("block_m"),
    log2("block_n"),
    log2("block_k"),
    log2("num_stages"),
    linear("num_stages"),
    linear("num_stages_is_2"),
    linear("num_stages_is_3"),
    linear("num_stages_is_4"),
    linear("num_stages_is_5_or_more"),
    linear("num_warps_is_2"),
    linear("num_warps_is_4"),
    linear("num_warps_is_8"),
    linear("swap_ab"),
    linear("persistent_tma"),
    log2("group_m"),
    linear("warp_group_instructions"),
    log2("accumulators_per_thread"),
    log2("shared_memory"),
    log2("blocks_per_sm"),
    linear("shared_memory_share"),
    linear("registers_per_128"),
    log2("tile_elements"),
    log2("tile_intensity"),
    log2("bytes_ahead"),
    // The tile on the problem.
    log2("blocks_m"),
    log2("blocks_n"),
    log2("iterations"),
    log2("tiles"),
    log2("waves_unrounded"),
    log2("waves"),
    linear("last_wave_share"),
    log2("tiles_per_sm"),
    log2("tiles_per_sm_rounded_up"),
    linear("last_tile_share"),
    log2("rounds"),
    log2("active_blocks_per_sm"),
    linear("busy_sms"),
    linear("efficiency_m"),
    linear("efficiency_n"),
    linear("efficiency_k"),
    linear("k_divisible_by_block_k"),
    linear("n_divisible_by_block_n"),
    log2("padded_rows"),
    linear("iterations_below_stages"),
    log2("iterations_per_stage"),
    log2("blocks_of_a_column"),
    log2("columns_of_a_wave"),
    linear("one_group_of_blocks"),
    log2("compute_us"),
    log2("load_us"),
    log2("latency_us"),
    log2("blocks_us"),
    log2("traffic_us"),
    log2("dram_us"),
    log2("estimate_us"),
    log2("bytes_in_flight"),
    log2("traffic_per_byte"),
    log2("tile_us"),
    log2("iteration_us"),
    log2("load_per_latency"),
];

/// Tiles of library kernels: rows and columns.
const LIBRARY_TILES: [(u32, u32); 5] = [(64, 64), (64, 128), (128, 128), (128, 256), (64, 256)];
/// The columns from which the time of what runs untuned is predicted: the problem's, one for the best config's time,
/// and two for each tile.
pub const SERVING_LIBRARY_COLUMNS: usize = PROBLEM + 1 + 2 * LIBRARY_TILES.len();

/// What the formulas need of a problem.
#[derive(Debug, Clone)]
pub struct ServingFeatures {
    facts: Facts,
    peak: f32,
    n: f32,
    k: f32,
    /// Rows that are computed, in all groups together.
    rows: f32,
    distinct: f32,
    element: f32,
    by_block: bool,
    op: Op,
    bytes: f32,
    base_us: f32,
    dram_us: f32,
    /// The expected blocks of rows, by the logarithm of their height.
    blocks: [f32; HEIGHTS],
    columns: [f32; PROBLEM],
}

fn flag(is_so: bool) -> f32 {
    f32::from(u8::from(is_so))
}

impl ServingFeatures {
    /// The features of a problem. `None` if the hardware has no unit for its types.
    pub fn new(facts: &Facts, problem: &Problem) -> Option<Self> {
        let peak = facts.peak(problem.a_dtype, false)?.0 as f32 * 1e6;
        let groups = problem.groups;
        let (count, top_k) = groups.map_or((1, 1), |groups| (groups.count, groups.top_k));
        let (tokens, rows) = (problem.tokens().max(1), problem.rows());
        let share = f64::from(top_k) / f64::from(count);
        let is_even = groups.is_some_and(|groups| groups.rows == Rows::Even);
        let distinct = problem.distinct_groups().max(1.0);
        // vLLM gives each pair a block of its own if there are few.
        let is_naive = problem.op == Op::FusedMoe && 4 * rows <= u64::from(count);
        let blocks = match count {
            _ if is_naive => [rows as f64; HEIGHTS],
            1 => std::array::from_fn(|height| rows.div_ceil(1 << height) as f64),
            _ if is_even => std::array::from_fn(|height| {
                let used = u64::from(count).min(rows);
                (used * rows.div_ceil(used).div_ceil(1 << height)) as f64
            }),
            _ => expected_blocks(tokens, share, f64::from(count)),
        };
        let (bytes, flops) = (problem.bytes() as f32, problem.flops() as f32);
        let dram_us = bytes / (SUSTAINED_DRAM * facts.dram_gbps as f32 * 1e3);
        let base_us = dram_us.max(flops / (SUSTAINED_PEAK * peak)) + LAUNCH_US;
        let (n, k) = (problem.n as f32, problem.k as f32);
        let columns = [
            tokens as f32,
            n,
            k,
            rows as f32 / count as f32,
            rows as f32,
            count as f32,
            top_k as f32,
            distinct as f32,
            bytes,
            flops,
            flops / bytes,
            base_us,
            flag(groups.is_some_and(|groups| groups.stage == Some(Stage::Down))),
            flag(problem.a_dtype.size() == 1),
            flag(problem.scaling == Scaling::Row),
            flag(problem.scaling == Scaling::Tensor),
            flag(problem.scaling == Scaling::Block),
            flag(matches!(problem.op, Op::GroupedMm | Op::ScaledGroupedMm)),
            flag(problem.op == Op::FusedMoe),
            flag(problem.n.is_multiple_of(128)),
            flag(problem.k.is_multiple_of(128)),
            flag(is_naive),
            flag(tokens == 1),
        ];
        Some(Self {
            facts: *facts,
            peak,
            n,
            k,
            rows: rows as f32,
            distinct: distinct as f32,
            element: problem.a_dtype.size() as f32,
            by_block: problem.scaling == Scaling::Block,
            op: problem.op,
            bytes,
            base_us,
            dram_us,
            blocks: blocks.map(|blocks| blocks as f32),
            columns: scaled(columns, &COLUMNS[..PROBLEM]),
        })
    }

    /// The time to which networks' outputs are relative, in µs.
    pub fn base_us(&self) -> f32 {
        self.base_us
    }

    /// The columns of a config. `None` for configs without a tile.
    pub fn row(&self, config: &Config) -> Option<[f32; SERVING_COLUMNS]> {
        let mut row = [0.0; SERVING_COLUMNS];
        let (problem, rest) = row.split_at_mut(PROBLEM);
        problem.copy_from_slice(&self.columns);
        rest.copy_from_slice(&scaled(self.raw(config)?, &COLUMNS[PROBLEM..]));
        Some(row)
    }

    /// The columns from which the time of what runs untuned is predicted, beside the best config's predicted time.
    pub fn library_row(&self, best_us: f64) -> [f32; SERVING_LIBRARY_COLUMNS] {
        let mut row = [0.0; SERVING_LIBRARY_COLUMNS];
        let (problem, rest) = row.split_at_mut(PROBLEM);
        problem.copy_from_slice(&self.columns);
        let (best, tiles) = rest.split_at_mut(1);
        best[0] = libm::log(best_us / f64::from(self.base_us)) as f32;
        for (columns, (rows, width)) in tiles.chunks_exact_mut(2).zip(LIBRARY_TILES) {
            let per_sm = self.blocks_of(rows) * (self.n / width as f32).ceil() / self.facts.sms as f32;
            columns[0] = math::log2_of_one(per_sm);
            columns[1] = per_sm / per_sm.ceil();
        }
        row
    }

    /// The time of what runs untuned, in µs, by the network for it and the best config's predicted time.
    pub fn library_us(&self, network: &Network, best_us: f64) -> f64 {
        best_us * f64::from(math::exp_of_one(network.forward_row(&self.library_row(best_us))))
    }

    /// The mean of networks' predicted times of configs, in µs. Configs without a tile get none.
    pub fn predict(&self, networks: &[Network], configs: &[Config]) -> Vec<Option<f64>> {
        let mut times = vec![None; configs.len()];
        let mut raw: Vec<(usize, [f32; TILE + JOINT])> = Vec::with_capacity(LANES);
        let mut scratch = Scratch::default();
        let starts: Vec<Vec<f32x16>> = networks.iter().map(|network| self.start(network)).collect();
        let mut configs = configs.iter().enumerate();
        loop {
            raw.clear();
            raw.extend(configs.by_ref().filter_map(|(at, config)| Some((at, self.raw(config)?))).take(LANES));
            if raw.is_empty() {
                return times;
            }
            let mut columns = [f32x16::ZERO; TILE + JOINT];
            let lanes: &mut [[f32; LANES]] = bytemuck::cast_slice_mut(&mut columns);
            for lane in 0..LANES {
                let (_, row) = &raw[lane.min(raw.len() - 1)];
                lanes.iter_mut().zip(row).for_each(|(column, value)| column[lane] = *value);
            }
            let vectors: &mut [f32x8] = bytemuck::cast_slice_mut(&mut columns);
            run(Log2 { values: vectors, columns: &COLUMNS[PROBLEM..] });
            let mut sum = [0.0_f32; LANES];
            for (network, start) in networks.iter().zip(&starts) {
                scratch.front.clear();
                scratch.front.extend(columns);
                scratch.back.clone_from(start);
                let outputs = network.part(PROBLEM, TILE + JOINT).forward(&mut scratch).to_array();
                sum.iter_mut().zip(outputs).for_each(|(sum, output)| *sum += output);
            }
            for (&(at, _), sum) in raw.iter().zip(sum) {
                let over_base = math::exp_of_one(sum / networks.len() as f32);
                times[at] = Some(f64::from(self.base_us * over_base));
            }
        }
    }

    /// A network's first sums with the problem's columns.
    fn start(&self, network: &Network) -> Vec<f32x16> {
        let mut sums = network.starting_sums().to_vec();
        network.part(0, PROBLEM).add_to(&mut sums, &mut self.columns.map(f32x16::splat));
        sums
    }

    fn blocks_of(&self, rows: u32) -> f32 {
        self.blocks[(rows.max(1).ilog2() as usize).min(HEIGHTS - 1)]
    }

    /// What a tile makes of the problem, before logarithms are taken.
    #[inline(always)]
    fn raw(&self, config: &Config) -> Option<[f32; TILE + JOINT]> {
        let tile = config.tile()?;
        let facts = &self.facts;
        let tma = matches!(config, Config::PersistentTma(_));
        let size = |value: u32| value as f32;
        let (rows, width, depth) = (size(tile.block_m), size(tile.block_n), size(tile.block_k));
        let (stages, warps) = (size(tile.num_stages), size(tile.num_warps));
        let sms = size(facts.sms);
        let grouped = matches!(self.op, Op::GroupedMm | Op::ScaledGroupedMm);
        let blocks = self.blocks_of(tile.block_m);
        let (blocks_n, steps) = ((self.n / width).ceil(), (self.k / depth).ceil());
        let tiles = blocks * blocks_n;

        // What a block takes of an SM.
        let warp_group = tile.num_warps >= 4 && (tile.block_m >= 64 || (tile.swap_ab && tile.block_n >= 64));
        let step_bytes = (rows + width) * depth * self.element;
        let held = if warp_group || tma { stages } else { (stages - 1.0).max(1.0) };
        let output = if tma && !grouped { rows * width * 2.0 } else { 0.0 };
        let shared = held * step_bytes + 1024.0 + output;
        let threads = size(facts.warp_size) * warps;
        let accumulators = rows * width / threads;
        let sums = if self.by_block { 2.0 } else { 1.0 };
        let registers = (sums * accumulators + 40.0).clamp(40.0, 255.0);
        let resident = (size(facts.smem_per_sm) / shared)
            .floor()
            .min((size(facts.max_warps_per_sm) / warps).floor())
            .min((size(facts.regs_per_sm) / (registers * threads)).floor())
            .max(1.0);
        let slots = if tma || grouped { 1.0 } else { resident };

        // How the tiles fill the hardware.
        let waves = tiles / (sms * slots);
        let per_sm = tiles / sms;
        let per_sm_whole = per_sm.ceil();
        let active = slots.min(per_sm_whole);
        let busy = tiles.min(sms);
        let rounds = (per_sm / slots).ceil();

        // Times of a step and of all.
        let in_rows = if warp_group && !tile.swap_ab { rows.max(64.0) } else { rows };
        let in_columns = if warp_group && tile.swap_ab { width.max(64.0) } else { width };
        let rate = if warp_group { 1.0 } else { SMALL_TILE_RATE };
        let step_math = 2.0 * in_rows * in_columns * depth / (self.peak / sms * rate);
        let step_load = step_bytes / (SUSTAINED_L2 * facts.l2_gbps as f32 * 1e3 / sms);
        let step_latency = LOAD_LATENCY_US / (stages - 1.0).max(0.5);
        let tile_us = steps * (step_math * active).max(step_load * active).max(step_latency);
        let blocks_us = rounds * (tile_us + ROUND_US + LOAD_LATENCY_US);

        // Traffic between DRAM and L2, by waves of tiles.
        let in_flight = (busy * slots).min(tiles);
        let group = size(tile.group_m).min(blocks);
        let across = (in_flight / group).max(1.0).min(blocks_n);
        let groups = (in_flight / (group * across)).max(1.0);
        let weights = if self.op == Op::ScaledMm { 1.0 } else { group.min(self.distinct) };
        let of_wave = (groups * group * rows + across * width * weights) * self.k * self.element;
        let traffic = of_wave * (tiles / in_flight).max(1.0);
        let dram = facts.dram_gbps as f32 * 1e3;
        let traffic_us = self.bytes.max(traffic.min(tiles * step_bytes * steps)) / (SUSTAINED_DRAM * dram);
        let ahead = (stages - 1.0).max(0.5) * step_bytes;
        let flying = ahead * active * busy;
        let dram_us = self.dram_us / (flying / (LOAD_LATENCY_US * dram * 1.2)).clamp(1e-3, 1.0);
        let estimate = blocks_us.max(traffic_us).max(dram_us) + LAUNCH_US;
        let base = self.base_us;
        Some([
            rows,
            width,
            depth,
            stages,
            stages,
            flag(tile.num_stages == 2),
            flag(tile.num_stages == 3),
            flag(tile.num_stages == 4),
            flag(tile.num_stages >= 5),
            flag(tile.num_warps == 2),
            flag(tile.num_warps == 4),
            flag(tile.num_warps == 8),
            flag(tile.swap_ab),
            flag(tma),
            size(tile.group_m),
            flag(warp_group),
            accumulators,
            shared,
            resident,
            shared / size(facts.smem_per_sm),
            registers / 128.0,
            rows * width,
            rows * width / (rows + width),
            ahead,
            blocks,
            blocks_n,
            steps,
            tiles,
            waves,
            waves.ceil(),
            waves / waves.ceil(),
            per_sm,
            per_sm_whole,
            per_sm / per_sm_whole,
            rounds,
            active,
            busy / sms,
            self.rows / (blocks * rows),
            self.n / (blocks_n * width),
            self.k / (steps * depth),
            flag(self.k % depth == 0.0),
            flag(self.n % width == 0.0),
            blocks * rows / self.rows,
            flag(steps < stages),
            steps / stages,
            group,
            blocks_n / across,
            flag(group >= blocks),
            per_sm_whole * steps * step_math / base,
            per_sm_whole * steps * step_load / base,
            rounds * (steps * step_latency + 1.0) / base,
            blocks_us / base,
            traffic_us / base,
            dram_us / base,
            estimate / base,
            flying,
            traffic / self.bytes,
            tile_us,
            step_math,
            step_load / step_latency,
        ])
    }
}

/// Replaces the raw values of logarithmic columns by their logarithms.
fn scaled<const COUNT: usize>(mut values: [f32; COUNT], columns: &[Column]) -> [f32; COUNT] {
    for (value, column) in values.iter_mut().zip(columns) {
        if column.scale == crate::features::Scale::Log2 {
            *value = math::log2_of_one(*value);
        }
    }
    values
}

/// The expected blocks of rows of all groups, by the logarithm of their height. Each token takes a group with the
/// same chance.
fn expected_blocks(tokens: u64, share: f64, groups: f64) -> [f64; HEIGHTS] {
    let mean = tokens as f64 * share;
    if mean > MANY_ROWS || share >= 1.0 {
        return std::array::from_fn(|height| groups * (mean / f64::from(1 << height) + 0.5));
    }
    let mut blocks = [0.0; HEIGHTS];
    let mut chance = libm::exp(tokens as f64 * libm::log1p(-share));
    let odds = share / (1.0 - share);
    let last = tokens.min((mean + 8.0 * libm::sqrt(mean) + 12.0) as u64);
    for rows in 0..=last {
        for (height, blocks) in blocks.iter_mut().enumerate() {
            *blocks += chance * rows.div_ceil(1 << height) as f64;
        }
        chance *= (tokens - rows) as f64 / (rows + 1) as f64 * odds;
    }
    blocks.map(|blocks| (blocks * groups).max(1.0))
}
