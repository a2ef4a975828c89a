//! The rows of grouped problems: which group each one belongs to, and the lists that kernels read this from.

use std::collections::{BTreeSet, HashMap};

use diode_core::{Groups, Op, Problem, ProblemFields, Rows};

use crate::devices::gpu::driver::{Gpu, Memory, Result};
use crate::kernels::support::REFERENCE_TILE;

/// How many routings there are. Launches take turns with them, because times depend on how rows fall.
pub(super) const ROUTINGS: u64 = 8;
/// Lists of different routings begin at multiples of this many numbers.
const GRANULE: usize = 128;

/// The lists of a problem on the GPU. Each is there for every routing.
pub(super) struct Routing {
    /// For grouped multiplications, the row after the last of each group.
    ends: Option<Table>,
    /// For experts, the lists by the height of tiles.
    sorted: HashMap<u32, SortedTables>,
    /// The lists of the reference.
    reference: SortedTables,
}

/// A table of numbers with a row for each routing.
struct Table {
    memory: Memory,
    row_bytes: u64,
}

struct SortedTables {
    pairs: Table,
    experts: Table,
    used: Table,
    /// How many blocks a launch has.
    blocks: u64,
}

/// The addresses of what one launch reads, and how many blocks it has. Addresses are 0 where there is no list.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoutedLaunch {
    pub(super) pairs: u64,
    pub(super) experts: u64,
    pub(super) ends: u64,
    pub(super) blocks: u64,
}

impl Table {
    fn new(gpu: &Gpu, mut rows: Vec<Vec<u32>>) -> Result<Self> {
        let longest = rows.iter().map(Vec::len).max().unwrap_or(0).max(1).next_multiple_of(GRANULE);
        rows.iter_mut().for_each(|row| row.resize(longest, 0));
        let memory = gpu.allocate((4 * longest * rows.len()) as u64)?;
        gpu.write(&memory, &rows.concat())?;
        Ok(Self { memory, row_bytes: 4 * longest as u64 })
    }

    fn of_turn(&self, turn: u64) -> u64 {
        self.memory.slice(turn % ROUTINGS * self.row_bytes, self.row_bytes).pointer()
    }
}

impl SortedTables {
    fn new(gpu: &Gpu, lists: Vec<SortedRows>) -> Result<Self> {
        let blocks = lists.iter().map(|list| list.experts.len()).max().unwrap_or(0) as u64;
        let (mut pairs, mut experts, mut used) = (Vec::new(), Vec::new(), Vec::new());
        for list in lists {
            pairs.push(list.pairs);
            experts.push(list.experts);
            used.push(vec![list.used]);
        }
        let [pairs, experts, used] =
            [Table::new(gpu, pairs)?, Table::new(gpu, experts)?, Table::new(gpu, used)?];
        Ok(Self { pairs, experts, used, blocks })
    }

    fn of_turn(&self, turn: u64) -> RoutedLaunch {
        RoutedLaunch {
            pairs: self.pairs.of_turn(turn),
            experts: self.experts.of_turn(turn),
            ends: self.used.of_turn(turn),
            blocks: self.blocks,
        }
    }
}

impl Routing {
    /// Draws the routings and writes their lists. `heights` are those of the tiles that will be launched.
    pub(super) fn new(gpu: &Gpu, problem: &Problem, heights: &BTreeSet<u32>) -> Result<Self> {
        let groups = groups_of_rows(problem);
        let [reference, _, _] = REFERENCE_TILE;
        let reference = vec![SortedRows::padded(&groups[0], count(problem), reference)];
        let mut routing =
            Self { ends: None, sorted: HashMap::new(), reference: SortedTables::new(gpu, reference)? };
        match problem.op {
            Op::FusedMoe => {
                for &height in heights {
                    let lists = groups.iter().map(|groups| SortedRows::of_vllm(groups, problem, height));
                    routing.sorted.insert(height, SortedTables::new(gpu, lists.collect())?);
                }
            }
            Op::GroupedMm | Op::ScaledGroupedMm => {
                routing.ends = Some(Table::new(gpu, ends_of_groups(problem))?);
            }
            _ => {}
        }
        Ok(routing)
    }

    /// What a launch of tiles of a height reads.
    pub(super) fn launch(&self, height: u32, turn: u64) -> RoutedLaunch {
        match (&self.ends, self.sorted.get(&height)) {
            (Some(ends), _) => RoutedLaunch { ends: ends.of_turn(turn), ..RoutedLaunch::default() },
            (None, Some(sorted)) => sorted.of_turn(turn),
            (None, None) => RoutedLaunch::default(),
        }
    }

    /// What the reference reads. It computes the first routing.
    pub(super) fn reference(&self) -> RoutedLaunch {
        self.reference.of_turn(0)
    }
}

/// How many bytes all lists of a problem take at most.
pub(super) fn bytes_of_lists(problem: &Problem) -> u64 {
    const TALLEST: u64 = 256;
    const HEIGHTS: u64 = 6;
    if problem.op.is_plain() {
        return 0;
    }
    4 * ROUTINGS * HEIGHTS * (problem.rows() + u64::from(count(problem)) * TALLEST + GRANULE as u64)
}

fn count(problem: &ProblemFields) -> u32 {
    problem.groups.map_or(1, |groups| groups.count)
}

/// For each routing, the group of each row. Every node draws the same ones.
fn groups_of_rows(problem: &ProblemFields) -> Vec<Vec<u32>> {
    let rows = problem.rows() as usize;
    let Some(Groups { count, top_k, rows: spread, .. }) = problem.groups else {
        return vec![vec![0; rows]; ROUTINGS as usize];
    };
    let mut random = Random(1);
    let mut order: Vec<u32> = (0..count).collect();
    let mut draw = || {
        let mut drawn: Vec<u32> = match spread {
            Rows::Even => (0..rows).map(|row| (row % count as usize) as u32).collect(),
            Rows::Routed => {
                let mut drawn = Vec::with_capacity(rows);
                while drawn.len() < rows {
                    for slot in 0..top_k as usize {
                        let left = order.len() - slot;
                        order.swap(slot, slot + random.below(left));
                    }
                    drawn.extend(&order[..top_k as usize]);
                }
                drawn.truncate(rows);
                drawn
            }
        };
        if problem.op != Op::FusedMoe {
            // Rows of grouped operands are sorted beforehand.
            drawn.sort_unstable();
        }
        drawn
    };
    (0..ROUTINGS).map(|_| draw()).collect()
}

/// For each routing, the row after the last of each group.
pub(super) fn ends_of_groups(problem: &ProblemFields) -> Vec<Vec<u32>> {
    groups_of_rows(problem).iter().map(|groups| ends(groups, count(problem))).collect()
}

/// The row after the last of each group. `groups` is sorted.
fn ends(groups: &[u32], count: u32) -> Vec<u32> {
    (0..count).map(|group| groups.partition_point(|&other| other <= group) as u32).collect()
}

/// Rows sorted by group, with each group padded to whole blocks, as vLLM's `moe_align_block_size` makes them.
#[derive(Debug, PartialEq)]
struct SortedRows {
    /// The rows, padded with the number of rows.
    pairs: Vec<u32>,
    /// The group of each block. [`NOBODY`] if none.
    experts: Vec<u32>,
    /// How much of `pairs` is in use.
    used: u32,
}

/// -1, for blocks without rows.
const NOBODY: u32 = u32::MAX;

impl SortedRows {
    fn padded(groups: &[u32], count: u32, height: u32) -> Self {
        let (rows, tall) = (groups.len(), height as usize);
        let mut sizes = vec![0; count as usize];
        groups.iter().for_each(|&group| sizes[group as usize] += 1);
        // Room for any routing of these sizes. With fewer rows than groups, each may be alone in its block.
        let most = (rows + count as usize * (tall - 1)).min(rows * tall);
        let mut pairs = vec![rows as u32; most.next_multiple_of(tall)];
        let mut experts = vec![NOBODY; most.div_ceil(tall)];
        let mut starts = Vec::with_capacity(sizes.len());
        let mut used = 0;
        for (group, size) in sizes.into_iter().enumerate() {
            starts.push(used);
            let end = used + usize::next_multiple_of(size, tall);
            experts[used / tall..end / tall].fill(group as u32);
            used = end;
        }
        for (row, &group) in groups.iter().enumerate() {
            let start = &mut starts[group as usize];
            pairs[*start] = row as u32;
            *start += 1;
        }
        Self { pairs, experts, used: used as u32 }
    }

    /// The lists of vLLM for the experts' kernel. If there are four times as many experts as pairs, vLLM does not
    /// sort: each pair has a block of its own.
    fn of_vllm(groups: &[u32], problem: &Problem, height: u32) -> Self {
        let (rows, tall) = (groups.len(), height as usize);
        if 4 * rows <= count(problem) as usize {
            let mut pairs = vec![rows as u32; rows * tall];
            (0..rows).for_each(|row| pairs[row * tall] = row as u32);
            return Self { pairs, experts: groups.to_vec(), used: (rows * tall) as u32 };
        }
        let mut sorted = Self::padded(groups, count(problem), height);
        // With fewer rows of A than a block has, no more blocks are launched than there can be.
        let (a_rows, top_k) = (problem.a_rows() as usize, problem.groups.map_or(1, |groups| groups.top_k));
        let top_k = if problem.a_rows() == problem.rows() { 1 } else { top_k as usize };
        if a_rows < tall {
            sorted.experts.truncate(a_rows * top_k);
        }
        sorted
    }
}

/// A generator of the SplitMix64 family, which is enough for routings.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let number = mixed ^ (mixed >> 31);
        ((u128::from(number) * limit as u128) >> 64) as usize
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{DType, Stage};

    use super::*;

    fn problem(op: Op, m: u64, groups: Groups) -> Problem {
        let stage = (op == Op::FusedMoe).then_some(Stage::GateUp);
        let plain = ProblemFields::plain(op, 1, m, 64, 64, DType::BFloat16);
        Problem::new(ProblemFields { groups: Some(Groups { stage, ..groups }), ..plain }).unwrap()
    }

    #[test]
    fn each_token_goes_to_distinct_groups_and_all_get_their_share() {
        let routings = groups_of_rows(&problem(Op::FusedMoe, 1000, Groups::routed(16, 4)));
        assert_eq!(routings.len(), 8);
        assert_ne!(routings[0], routings[1]);
        for routing in &routings {
            assert_eq!(routing.len(), 4000);
            for token in routing.chunks(4) {
                let mut distinct = token.to_vec();
                distinct.sort_unstable();
                distinct.dedup();
                assert_eq!(distinct.len(), 4);
            }
            for group in 0..16 {
                let rows = routing.iter().filter(|&&other| other == group).count();
                assert!((180..320).contains(&rows), "{rows}");
            }
        }
        let even = Groups { rows: Rows::Even, ..Groups::routed(8, 1) };
        let even = groups_of_rows(&problem(Op::GroupedMm, 20, even));
        assert_eq!(ends(&even[0], 8), [3, 6, 9, 12, 14, 16, 18, 20]);
    }

    #[test]
    fn blocks_hold_rows_of_one_group() {
        let sorted = SortedRows::padded(&[2, 0, 2, 2, 5], 6, 2);
        assert_eq!(sorted.used, 8);
        assert_eq!(sorted.pairs[..8], [1, 5, 0, 2, 3, 5, 4, 5]);
        assert_eq!(sorted.experts, [0, 2, 2, 5, NOBODY]);
        let problem = problem(Op::FusedMoe, 333, Groups::routed(32, 3));
        for groups in groups_of_rows(&problem) {
            for height in [16, 64, 128] {
                let sorted = SortedRows::of_vllm(&groups, &problem, height);
                let mut seen: Vec<u32> = Vec::new();
                for (block, rows) in sorted.pairs[..sorted.used as usize].chunks(height as usize).enumerate()
                {
                    let real = rows.iter().filter(|&&row| row < 999);
                    assert!(real.clone().all(|&row| groups[row as usize] == sorted.experts[block]));
                    seen.extend(real);
                }
                seen.sort_unstable();
                assert_eq!(seen, (0..999).collect::<Vec<u32>>());
            }
        }
    }

    #[test]
    fn few_pairs_are_not_sorted() {
        let problem = problem(Op::FusedMoe, 1, Groups::routed(128, 8));
        let groups = &groups_of_rows(&problem)[0];
        let lists = SortedRows::of_vllm(groups, &problem, 16);
        assert_eq!((lists.experts.as_slice(), lists.used), (groups.as_slice(), 128));
        assert!(lists.pairs.iter().step_by(16).copied().eq(0..8));
    }
}
