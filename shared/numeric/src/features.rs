//! The network's inputs. They describe a config on a problem by quantities that mean the same on all
//! hardware, and are computed from the facts of the hardware.
//!
//! They are: how tiles cover the problem, what a block takes of an SM, how blocks fill the device, and
//! closed-form times of arithmetic, loads and latency. All of it is plain `f32` arithmetic in a fixed order,
//! on eight configs at a time. The columns form three groups: of the problem alone, of the config alone, and
//! of both.

mod problem_terms;
mod row;
#[cfg(test)]
mod tests;

use diode_core::hardware::Facts;
use diode_core::{Alignment, Problem, Tile};
use wide::f32x8;

use crate::features::problem_terms::Machine;
use crate::features::problem_terms::ProblemTerms;
use crate::features::problem_terms::Resources;
use crate::features::problem_terms::Tiles;
use crate::math;
use crate::vectors::{Log2, run};

/// The name and version of these features. Whoever changes a column's value must change the version: weights
/// only fit the features that they were trained on.
pub const FEATURE_SET: &str = "physics/5";

/// How many configs are computed at once: the lanes of a vector.
pub const LANES: usize = 8;

/// The columns of [`LANES`] configs, column by column.
pub type Block = [f32x8; COLUMN_COUNT];

/// Computes the features of configs on one problem.
#[derive(Debug, Clone)]
pub struct ProblemFeatures {
    plain: Side,
    /// For configs that allow TF32, because TF32 has another peak.
    tf32: Side,
    loading: Loading,
}

/// What one to eight configs use of the hardware. The sizes of the problem do not matter for it.
#[derive(Debug, Clone)]
pub struct ConfigTerms {
    tiles: Tiles,
    resources: Resources,
    allow_tf32: bool,
}

#[derive(Debug, Clone)]
struct Side {
    machine: Machine,
    terms: ProblemTerms,
    columns: [f32; PROBLEM_COLUMNS],
}

impl ProblemFeatures {
    /// `None` if the hardware has no known peak for the problem's input type.
    pub fn new(facts: &Facts, problem: &Problem) -> Option<Self> {
        Self::with_method(facts, problem, false)
    }

    /// The features for times by a model's second method. That method may count launches differently and have
    /// warm caches.
    pub fn by_second_method(facts: &Facts, problem: &Problem) -> Option<Self> {
        Self::with_method(facts, problem, true)
    }

    fn with_method(facts: &Facts, problem: &Problem, second_method: bool) -> Option<Self> {
        let side = |allow_tf32| {
            let machine = Machine::new(facts, problem.a_dtype, allow_tf32)?;
            let terms = ProblemTerms::new(&machine, problem);
            let mut columns = terms.columns(&machine, problem, second_method);
            for (value, column) in columns.iter_mut().zip(&COLUMNS) {
                if column.scale == Scale::Log2 {
                    *value = math::log2_of_one(*value);
                }
            }
            Some(Side { machine, terms, columns })
        };
        Some(Self { plain: side(false)?, tf32: side(true)?, loading: Loading::for_problem(problem) })
    }

    /// The time in µs to which the network's output is relative.
    pub fn base_us(&self, allow_tf32: bool) -> f32 {
        self.side(allow_tf32).terms.base_us
    }

    /// The columns of the problem alone.
    pub fn problem_columns(&self, allow_tf32: bool) -> &[f32; PROBLEM_COLUMNS] {
        &self.side(allow_tf32).columns
    }

    /// The terms of one to eight configs. They do not depend on the sizes of the problem, so they are the
    /// same for all problems of these input types on this hardware whose operands have the same layouts and
    /// are [loaded alike](Self::loading). Either all of the configs allow TF32 or none. Unused lanes repeat the
    /// last config.
    #[inline(always)]
    pub fn config_terms(&self, group: &[&Tile]) -> ConfigTerms {
        let allow_tf32 = group[0].allow_tf32;
        let Side { machine, terms, .. } = self.side(allow_tf32);
        let tiles = Tiles::new(group);
        let resources = Resources::new(machine, &tiles, &terms.a_operand, &terms.b_operand);
        ConfigTerms { tiles, resources, allow_tf32 }
    }

    /// Writes the columns of groups of configs alone. In `columns`, each column has a vector for each group.
    pub fn config_columns(&self, groups: &[&ConfigTerms], columns: &mut [f32x8]) {
        for (at, configs) in groups.iter().enumerate() {
            let Side { machine, .. } = self.side(configs.allow_tf32);
            let group = row::config(machine, &configs.tiles, &configs.resources);
            put(&group, columns[at..].iter_mut().step_by(groups.len()));
        }
        run(Log2 { values: columns, columns: &COLUMNS[PROBLEM_COLUMNS..][..CONFIG_COLUMNS] });
    }

    /// Writes the columns of groups of configs on this problem, in the same order.
    pub fn joint_columns(&self, groups: &[&ConfigTerms], columns: &mut [f32x8]) {
        for (at, configs) in groups.iter().enumerate() {
            let Side { machine, terms, .. } = self.side(configs.allow_tf32);
            let group = row::joint(machine, terms, &configs.tiles, &configs.resources);
            put(&group, columns[at..].iter_mut().step_by(groups.len()));
        }
        run(Log2 { values: columns, columns: &COLUMNS[PROBLEM_COLUMNS + CONFIG_COLUMNS..] });
    }

    /// All columns of one to eight configs. [`config_terms`](Self::config_terms) says which configs may be
    /// together.
    #[inline(always)]
    pub fn fill(&self, group: &[&Tile], block: &mut Block) {
        let configs = self.config_terms(group);
        let (problem, rest) = block.split_at_mut(PROBLEM_COLUMNS);
        let (config, joint) = rest.split_at_mut(CONFIG_COLUMNS);
        for (values, &value) in problem.iter_mut().zip(self.problem_columns(configs.allow_tf32)) {
            *values = f32x8::splat(value);
        }
        self.config_columns(&[&configs], config);
        self.joint_columns(&[&configs], joint);
    }

    /// The columns of one config.
    pub fn row(&self, tile: &Tile) -> [f32; COLUMN_COUNT] {
        let mut block = [f32x8::ZERO; COLUMN_COUNT];
        self.fill(&[tile], &mut block);
        block.map(|lanes| lanes.to_array()[0])
    }

    /// How kernels load the operands of the problem.
    pub fn loading(&self) -> Loading {
        self.loading
    }

    fn side(&self, allow_tf32: bool) -> &Side {
        if allow_tf32 { &self.tf32 } else { &self.plain }
    }
}

#[inline(always)]
fn put<'a>(group: &[f32x8], columns: impl Iterator<Item = &'a mut f32x8>) {
    for (column, lanes) in columns.zip(group) {
        *column = *lanes;
    }
}

/// Splits tiles into groups of up to [`LANES`] neighbours. In a group, either all tiles allow TF32 or none.
pub fn groups<'a, 't>(tiles: &'a [&'t Tile]) -> impl Iterator<Item = &'a [&'t Tile]> {
    tiles.chunk_by(|a, b| a.allow_tf32 == b.allow_tf32).flat_map(|same| same.chunks(LANES))
}

/// How a raw value becomes a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The raw value itself.
    Linear,
    /// The base-2 logarithm of the raw value.
    Log2,
}

/// One input of the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    pub scale: Scale,
}

pub(crate) const fn linear(name: &'static str) -> Column {
    Column { name, scale: Scale::Linear }
}

pub(crate) const fn log2(name: &'static str) -> Column {
    Column { name, scale: Scale::Log2 }
}

/// The number of columns that depend on the problem alone. They stand first.
pub const PROBLEM_COLUMNS: usize = 22;
/// The number of columns that depend on the config, the hardware and the input types, but not on
/// sizes. They stand second.
pub const CONFIG_COLUMNS: usize = 29;
/// The number of columns that depend on both config and problem. They stand last.
pub const JOINT_COLUMNS: usize = 37;
/// The number of all columns.
pub const COLUMN_COUNT: usize = PROBLEM_COLUMNS + CONFIG_COLUMNS + JOINT_COLUMNS;

/// Every column. Sizes are in elements, bytes or operations, times in µs.
pub const COLUMNS: [Column; COLUMN_COUNT] = [
    // The problem.
    log2("batch"),
    log2("m"),
    log2("n"),
    log2("k"),
    log2("output_elements"),
    log2("flops"),
    log2("bytes"),
    log2("flops_per_byte"),
    log2("roofline_us"),
    log2("element_bytes"),
    linear("k_divisible_by_16"),
    linear("n_divisible_by_16"),
    linear("m_is_1"),
    linear("bytes_per_l2"),
    linear("a_column_major"),
    linear("b_column_major"),
    linear("a_alignment"),
    linear("b_alignment"),
    linear("out_alignment"),
    linear("bias_vector"),
    linear("bias_matrix"),
    linear("timed_otherwise"),
    // The config.
    log2("block_m"),
    log2("block_n"),
    log2("block_k"),
    log2("num_stages"),
    log2("num_warps"),
    log2("group_m"),
    linear("num_stages"),
    linear("num_stages_is_1"),
    linear("num_stages_is_2"),
    linear("num_stages_is_3"),
    linear("num_stages_is_4"),
    linear("num_stages_is_5"),
    linear("num_warps_is_2"),
    linear("num_warps_is_4"),
    linear("num_warps_is_8"),
    linear("tf32"),
    linear("matrix_instr_nonkdim"),
    linear("waves_per_eu"),
    linear("kpack"),
    // What a block of the config takes of an SM.
    linear("warp_group_instructions"),
    log2("accumulators_per_thread"),
    linear("spilled_registers_per_64"),
    linear("shared_memory_share"),
    log2("shared_memory"),
    linear("registers_per_128"),
    log2("blocks_per_sm"),
    log2("loads_per_thread"),
    log2("tile_elements"),
    log2("tile_intensity"),
    // How the tiles cover the problem.
    linear("k_divisible_by_block_k"),
    linear("efficiency_m"),
    linear("efficiency_n"),
    linear("efficiency_k"),
    log2("efficiency"),
    linear("m_below_block_m"),
    linear("n_below_block_n"),
    // How the tiles fill the hardware.
    log2("tiles"),
    log2("tiles_m"),
    log2("tiles_n"),
    log2("iterations"),
    log2("tiles_per_sm"),
    log2("tiles_per_sm_rounded_up"),
    log2("waves"),
    log2("waves_unrounded"),
    linear("last_wave_share"),
    linear("last_tile_share"),
    log2("active_blocks_per_sm"),
    log2("active_warps_per_sm"),
    linear("busy_sms"),
    log2("rounds"),
    // Traffic and times estimated in closed form.
    log2("l2_bytes"),
    log2("l2_bytes_per_byte"),
    log2("dram_bytes_per_byte"),
    log2("bytes_in_flight"),
    log2("dram_bandwidth_share"),
    log2("dram_us"),
    log2("blocks_us"),
    log2("iteration_us"),
    log2("compute_us"),
    log2("load_us"),
    log2("issue_us"),
    log2("latency_us"),
    log2("estimate_us"),
    log2("estimate_per_base"),
    // How deep the pipeline is.
    linear("iterations_below_stages"),
    log2("iterations_per_stage"),
];

/// The alignment of the rows of A and of B. A tile has another kernel for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loading {
    a: Alignment,
    b: Alignment,
}

impl Loading {
    /// All rows are multiples of 16 bytes.
    pub const ALIGNED: Self = Self { a: Alignment::Bytes16, b: Alignment::Bytes16 };
    /// No rows are multiples of 4 bytes, so every element is loaded by itself.
    pub const BY_THE_ELEMENT: Self = Self { a: Alignment::None, b: Alignment::None };

    pub fn for_problem(problem: &Problem) -> Self {
        let alignment = problem.alignment();
        Self { a: alignment.a, b: alignment.b }
    }

    /// A number for each way of loading, as files of models have it. 0 stands for aligned rows.
    pub fn number(self) -> u32 {
        3 * self.a as u32 + self.b as u32
    }

    /// Whether a kernel loads several stages of both matrices ahead. If not, the number of stages changes little.
    /// If it loads neither ahead, the tile's kernel is the same for all numbers of stages.
    ///
    /// What ROCm's compiler does with rows that are not aligned is not known.
    pub fn has_whole_stages(self, tile: &Tile) -> bool {
        let by_the_element = [self.a, self.b].contains(&Alignment::None);
        !by_the_element || tile.rocm.is_some()
    }
}

/// Common tiles of library kernels: rows and columns.
const TILES: [(f32, f32); 3] = [(128.0, 128.0), (256.0, 128.0), (64.0, 64.0)];

/// The number of columns: the problem's, one for the best config's time, and two per tile.
pub const LIBRARY_COLUMNS: usize = PROBLEM_COLUMNS + 1 + 2 * TILES.len();

impl ProblemFeatures {
    /// The columns from which the library's time is predicted. If it rounds to TF32, so does the best config.
    pub fn library_row(&self, best_us: f64, rounds: bool) -> [f32; LIBRARY_COLUMNS] {
        let side = self.side(rounds);
        let mut row = [0.0; LIBRARY_COLUMNS];
        let (problem, rest) = row.split_at_mut(PROBLEM_COLUMNS);
        problem.copy_from_slice(&side.columns);
        let (best, tiles) = rest.split_at_mut(1);
        best[0] = libm::log(best_us / f64::from(side.terms.base_us)) as f32;
        let terms = &side.terms;
        for (columns, (m, n)) in tiles.chunks_exact_mut(2).zip(TILES) {
            let count = terms.b * libm::ceilf(terms.m / m) * libm::ceilf(terms.n / n);
            let per_sm = count / side.machine.sms;
            columns[0] = libm::log2f(per_sm);
            columns[1] = per_sm / libm::ceilf(per_sm);
        }
        row
    }
}
