//! The names and scales of the columns, in the order of the network's inputs.
//!
//! `docs/reference/features.md` says what each column means and how it is computed.

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

const fn linear(name: &'static str) -> Column {
    Column { name, scale: Scale::Linear }
}

const fn log2(name: &'static str) -> Column {
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
