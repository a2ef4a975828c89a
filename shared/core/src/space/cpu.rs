//! The spaces of the CPU backend. A tile's blocks are cache blocks there.
//!
//! `num_warps` is the number of threads. A CPU has no software pipeline, so
//! `num_stages` is always 1.

use indexmap::IndexSet;

use super::SpaceName;
use crate::hardware::Hardware;
use crate::{Problem, Tile};

const DEFAULT: [(u32, u32, u32); 6] =
    [(16, 64, 64), (32, 64, 64), (32, 128, 64), (64, 64, 64), (64, 128, 128), (128, 128, 128)];
const BLOCKS: [u32; 4] = [16, 32, 64, 128];
const SMALLEST: u32 = 16;

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
    // A block larger than the problem runs the same loops as a block that just covers it.
    let clip = |block: u32, size: u64| {
        block.min(u32::try_from(size.next_power_of_two()).unwrap_or(u32::MAX).max(SMALLEST))
    };
    let clipped: IndexSet<Tile> = threads
        .flat_map(|t| blocks.iter().map(move |&(m, n, k)| (m, n, k, t)))
        .map(|(m, n, k, t)| Tile::new(clip(m, problem.m), clip(n, problem.n), clip(k, problem.k), 1, t))
        .collect();
    clipped.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hardware::Vendor;
    use crate::{DType, Op, ProblemFields};

    #[test]
    fn the_smallest_problem_has_a_config_and_none_twice() {
        let hardware = Hardware {
            slug: "cpu-test".parse().unwrap(),
            name: "CPU test".to_owned(),
            vendor: Vendor::Cpu,
            facts: None,
        };
        let count = |name, m, n, k| {
            let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, m, n, k, DType::Float32)).unwrap();
            tiles(name, &hardware, &problem).len()
        };
        assert_eq!(count(SpaceName::Default, 1, 1, 1), 1);
        assert_eq!(count(SpaceName::Default, 24, 40, 33), 2);
        assert_eq!(count(SpaceName::Default, 256, 256, 256), 6);
        assert_eq!(count(SpaceName::Full, 256, 256, 256), 64);
        assert_eq!(count(SpaceName::Full, 17, 256, 256), 32);
    }
}
