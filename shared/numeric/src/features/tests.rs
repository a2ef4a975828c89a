//! Features of an H200, compared with values that were computed by hand.

use diode_core::hardware::find;
use diode_core::{DType, Op, ProblemFields};

use super::*;

fn column(op: Op, (b, m, n, k): (u64, u64, u64, u64), tile: Tile, name: &str, scale: Scale) -> f32 {
    let facts = find("nvidia-h200").and_then(|h| h.facts).unwrap();
    let problem = Problem::new(ProblemFields::plain(op, b, m, n, k, DType::BFloat16)).unwrap();
    let row = ProblemFeatures::new(&facts, &problem).unwrap().row(&tile);
    let index = COLUMNS.iter().position(|c| c.name == name && c.scale == scale).expect("the column exists");
    row[index]
}

#[test]
fn every_column_has_a_name_of_its_own() {
    let distinct: std::collections::HashSet<String> =
        COLUMNS.iter().map(|c| format!("{:?} {}", c.scale, c.name)).collect();
    assert_eq!(distinct.len(), COLUMNS.len());
}

#[test]
fn a_large_square_has_the_values_computed_by_hand() {
    // 1024 tiles of 128×128 on 132 SMs. Shared memory has room for two blocks per SM, of 3 × (128 +
    // 128) × 64 × 2 = 98,304 bytes each. Registers have room for three: 128 accumulators + 40 = 168
    // for each of 128 threads.
    let tile = Tile::new(128, 128, 64, 3, 4);
    let get = |name, scale| column(Op::Mm, (1, 4096, 4096, 4096), tile, name, scale);
    let near = |name, scale, expected: f64| {
        let got = f64::from(get(name, scale));
        assert!((got - expected).abs() < 2e-6 * expected.abs().max(1.0), "{name}: {got}, not {expected}");
    };
    use Scale::{Linear, Log2};
    near("m", Log2, 12.0);
    near("flops", Log2, 37.0);
    near("bytes", Log2, libm::log2(3.0 * 2.0 * 4096.0 * 4096.0));
    let roofline = 2.0 * 4096_f64.powi(3) / 990e6;
    near("roofline_us", Log2, libm::log2(roofline));
    near("warp_group_instructions", Linear, 1.0);
    near("accumulators_per_thread", Log2, 7.0);
    near("shared_memory_share", Linear, 98_304.0 / 232_448.0);
    near("registers_per_128", Linear, 168.0 / 128.0);
    near("blocks_per_sm", Log2, 1.0);
    near("tiles", Log2, 10.0);
    near("waves", Log2, 2.0);
    near("waves_unrounded", Log2, libm::log2(1024.0 / 264.0));
    near("last_wave_share", Linear, 1024.0 / 264.0 / 4.0);
    near("last_tile_share", Linear, 1024.0 / 132.0 / 8.0);
    near("active_warps_per_sm", Log2, 3.0);
    near("rounds", Log2, 2.0);
    near("l2_bytes", Log2, 10.0 + 6.0 + 15.0);
    near("dram_bandwidth_share", Log2, 0.0);
    // Two blocks share the SM. Their loads of 32,768 bytes at 41,667 bytes per µs take longer than
    // the arithmetic.
    let iteration = 2.0 * 32_768.0 / (5.5e6 / 132.0);
    near("iteration_us", Log2, libm::log2(iteration));
    near("blocks_us", Log2, libm::log2(4.0 * 64.0 * iteration));
    near("compute_us", Log2, libm::log2(8.0 * 64.0 * 2.0 * 128.0 * 128.0 * 64.0 / 7.5e6));
    let estimate = 4.0 + 4.0 * 64.0 * iteration + 0.5 * 4.0;
    near("estimate_us", Log2, libm::log2(estimate));
    near("estimate_per_base", Log2, libm::log2(estimate / (4.0 + roofline)));
    near("iterations_per_stage", Log2, libm::log2(64.0 / 3.0));
    near("bytes_per_l2", Linear, 100_663_296.0 / 60e6);
}

#[test]
fn a_decode_shape_is_bound_by_what_is_in_flight() {
    // 32 tiles of 16×128 fill 32 of 132 SMs. Each block holds one stage of (16 + 128) × 64 × 2 bytes.
    let tile = Tile::new(16, 128, 64, 2, 4);
    let get = |name, scale| column(Op::Mm, (1, 1, 4096, 4096), tile, name, scale);
    assert_eq!(get("m_is_1", Scale::Linear), 1.0);
    assert_eq!(get("warp_group_instructions", Scale::Linear), 0.0);
    assert_eq!(get("efficiency_m", Scale::Linear), 1.0 / 16.0);
    assert_eq!(get("m_below_block_m", Scale::Linear), 1.0);
    assert_eq!(get("tiles", Scale::Log2), 5.0);
    assert_eq!(get("busy_sms", Scale::Linear), 32.0 / 132.0);
    let in_flight = 32.0 * 144.0 * 64.0 * 2.0;
    assert!((get("bytes_in_flight", Scale::Log2) - libm::log2f(in_flight)).abs() < 1e-5);
    let share = in_flight / 0.7 / 4.5e6;
    assert!((get("dram_bandwidth_share", Scale::Log2) - libm::log2f(share)).abs() < 1e-5);
}

#[test]
fn rows_that_are_not_aligned_are_loaded_by_the_element() {
    let facts = find("nvidia-h200").and_then(|h| h.facts).unwrap();
    let features = |n, k| {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 1024, n, k, DType::BFloat16)).unwrap();
        ProblemFeatures::new(&facts, &problem).unwrap()
    };
    let [aligned, mixed, neither] = [features(1024, 4096), features(1023, 4096), features(1023, 4095)];
    let get = |features: &ProblemFeatures, stages, name: &str, scale| {
        let row = features.row(&Tile::new(64, 128, 64, stages, 4));
        row[COLUMNS.iter().position(|c| c.name == name && c.scale == scale).unwrap()]
    };
    use Scale::{Linear, Log2};
    // A stage has 8,192 bytes of A and 16,384 of B. A matrix that is loaded by the element has one stage.
    for (features, bytes) in [(&aligned, 73_728.0), (&mixed, 40_960.0), (&neither, 24_576.0)] {
        assert_eq!(get(features, 3, "shared_memory_share", Linear), bytes / 232_448.0);
    }
    assert_eq!(get(&mixed, 3, "loads_per_thread", Log2), libm::log2f((64.0 / 8.0 + 128.0) * 64.0 / 128.0));
    assert_eq!(get(&mixed, 3, "registers_per_128", Linear), (64.0 + 0.9 * 64.0 + 40.0) / 128.0);
    assert_eq!(get(&mixed, 3, "num_stages", Linear), 3.0);
    let (three, five) = [3, 5].map(|stages| neither.row(&Tile::new(64, 128, 64, stages, 4))).into();
    assert_eq!(three, five, "the kernel is the same");
    let has_whole_stages =
        |features: &ProblemFeatures| features.loading().has_whole_stages(&Tile::new(64, 128, 64, 3, 4));
    assert_eq!([&aligned, &mixed, &neither].map(has_whole_stages), [true, false, false]);
    assert_eq!([&aligned, &mixed, &neither].map(|one| one.loading().number()), [0, 2, 8]);
}

#[test]
fn a_batch_multiplies_tiles_work_and_traffic() {
    let tile = Tile::new(64, 64, 32, 3, 4);
    for (name, more) in [("tiles", 3.0), ("flops", 3.0), ("bytes", 3.0), ("l2_bytes", 3.0), ("m", 0.0)] {
        let one = column(Op::Bmm, (1, 512, 512, 256), tile, name, Scale::Log2);
        let eight = column(Op::Bmm, (8, 512, 512, 256), tile, name, Scale::Log2);
        assert!((eight - one - more).abs() < 1e-5, "{name}: {one} → {eight}");
    }
}

#[test]
fn every_column_is_finite_at_the_extremes() {
    for hardware in diode_core::hardware::catalogue() {
        let facts = hardware.facts.unwrap();
        for dims in [(1, 1, 1, 1), (1, 1, Problem::MAX_DIM, 1 << 20), (1 << 20, 1 << 20, 1, 1 << 20)] {
            let (b, m, n, k) = dims;
            let problem = Problem::new(ProblemFields::plain(Op::Bmm, b, m, n, k, DType::Float16)).unwrap();
            let features = ProblemFeatures::new(&facts, &problem).unwrap();
            for tile in [Tile::new(1, 1, 1, 1, 1), Tile::new(1024, 1024, 1024, 16, 32)] {
                let row = features.row(&tile);
                assert!(row.iter().all(|v| v.is_finite()), "{dims:?} {row:?}");
            }
        }
    }
}
