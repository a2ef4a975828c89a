//! A made-up GPU. Its times follow from tiles, waves and a roofline, with a little noise.

use std::ops::ControlFlow;

use diode_core::hardware::{Hardware, find};
use diode_core::{
    Config, ConfigDictionary, ConfigIndex, DType, Dataset, Method, Op, Problem, ProblemFields, Provenance,
    Solution, Tile, TimeColumn,
};
use diode_train::{Progress, TrainOptions};

pub(crate) fn h200() -> Hardware {
    find("nvidia-h200").expect("the catalogue has it")
}

pub(crate) fn problem(m: u64, n: u64, k: u64) -> Problem {
    Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::BFloat16)).expect("the sizes are valid")
}

pub(crate) fn tiles() -> Vec<Tile> {
    let mut tiles = Vec::new();
    for m in [16, 64, 128] {
        for n in [32, 64, 128, 256] {
            for stages in [2, 3, 4] {
                for warps in [4, 8] {
                    tiles.push(Tile::new(m, n, 64, stages, warps));
                }
            }
        }
    }
    tiles
}

/// The time of a tile in nanoseconds.
pub(crate) fn nanos(problem: &Problem, tile: &Tile) -> u64 {
    let (bm, bn, warps) = (f64::from(tile.block_m), f64::from(tile.block_n), f64::from(tile.num_warps));
    let count = problem.m.div_ceil(u64::from(tile.block_m)) * problem.n.div_ceil(u64::from(tile.block_n));
    let waves = count.div_ceil(132) as f64;
    let intensity = bm * bn / (bm + bn) / 64.0;
    let fed = (f64::from(tile.num_stages) / 4.0).powf(0.3);
    let pressure = 1.0 + (bm * bn / (32.0 * warps) / 160.0).powi(4);
    let tile_us = 2.0 * bm * bn * problem.k as f64 / 7.5e6 / intensity.min(1.0).sqrt() / fed * pressure;
    let noise = 1.0 + 0.01 * ((problem.m * 31 + problem.n * 17 + count * 7) as f64).sin();
    let us = (4.0 + waves * tile_us + 0.1 * warps).max(4.0 + problem.bytes() / 4.5e6) * noise;
    (us * 1e3).round() as u64
}

pub(crate) fn solution(problem: Problem, tiles: &[Tile], method: Method) -> Solution {
    let times = tiles.iter().map(|tile| nanos(&problem, tile)).collect();
    Solution {
        method,
        configs: (0..tiles.len() as u32).map(ConfigIndex).collect(),
        times: TimeColumn::from_nanos(times).expect("the times are possible"),
        minimum_ns: None,
        spread_ns: None,
        repeats: None,
        failures: Vec::new(),
        problem,
    }
}

pub(crate) fn dataset(problems: impl IntoIterator<Item = Problem>, tiles: &[Tile]) -> Dataset {
    Dataset {
        hardware: h200(),
        provenance: Provenance::default(),
        configs: tiles.iter().map(|&tile| Config::Mm(tile)).collect::<ConfigDictionary>(),
        solutions: problems
            .into_iter()
            .map(|problem| solution(problem, tiles, Method::MEDIAN_COLD_EVENT))
            .collect(),
    }
}

/// Problems of many shapes, made of a few sizes.
pub(crate) fn problems(count: usize) -> Vec<Problem> {
    let sizes = [64, 200, 512, 1024, 1536, 4096, 333, 2048];
    (0..count)
        .map(|i| {
            let size = |step: usize| sizes[(i * step + i / sizes.len()) % sizes.len()];
            problem(size(3), size(5), 64 * (1 + (i as u64 * 7) % 40))
        })
        .collect()
}

/// The recipe with fewer epochs and a smaller network.
pub(crate) fn quick() -> TrainOptions {
    TrainOptions { epochs: Some(40), hidden: vec![32], ..TrainOptions::default() }
}

pub(crate) fn ignore(_: &Progress) -> ControlFlow<()> {
    ControlFlow::Continue(())
}
