//! The spaces of the CPU backend: the same vocabulary, read as cache blocks.
//!
//! `num_warps` is the number of threads. A CPU has no software pipeline, so
//! `num_stages` is always 1.

use super::SpaceName;
use crate::hardware::Hardware;
use crate::{Problem, Tile};

const DEFAULT: [(u32, u32, u32); 6] =
    [(16, 64, 64), (32, 64, 64), (32, 128, 64), (64, 64, 64), (64, 128, 128), (128, 128, 128)];
const BLOCKS: [u32; 4] = [16, 32, 64, 128];

pub(super) fn tiles(name: SpaceName, hardware: &Hardware, problem: &Problem) -> Vec<Tile> {
    let cores = hardware.facts.as_ref().map_or(1, |facts| facts.sms);
    let threads = [1, 2, 4, 8, 16, 32].into_iter().filter(|&t| t <= cores.max(1));
    let blocks: Vec<(u32, u32, u32)> = match name {
        SpaceName::Default => DEFAULT.to_vec(),
        SpaceName::InductorExhaustive | SpaceName::Full => BLOCKS
            .into_iter()
            .flat_map(|m| BLOCKS.into_iter().flat_map(move |n| BLOCKS.into_iter().map(move |k| (m, n, k))))
            .collect(),
    };
    // Blocks far beyond the problem run the same loops as smaller ones.
    let fits = |block: u32, size: u64| u64::from(block) < 2 * size.next_power_of_two().max(16);
    threads
        .flat_map(|t| blocks.iter().map(move |&(m, n, k)| Tile::new(m, n, k, 1, t)))
        .filter(|t| fits(t.block_m, problem.m) && fits(t.block_n, problem.n) && fits(t.block_k, problem.k))
        .collect()
}
