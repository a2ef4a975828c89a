//! Digests of what datasets hold, whatever their file format.

use std::fs::File;
use std::io;
use std::io::Read as _;
use std::path::Path;

use diode_core::ids::{Digest, HardwareSlug};
use diode_core::{Config, ConfigDictionary, ConfigIndex, Dataset, Solution};
use sha2::{Digest as _, Sha256};

use crate::bytes::write_varint;
use crate::columns::{reason_code, to_numbers};

/// The digest of one solution: hardware, problem, method, times and failures.
///
/// The order of configs does not matter. Spread, repeats and provenance are not part of the digest, because
/// some formats do not hold them.
pub fn solution_digest(hardware: &HardwareSlug, solution: &Solution, configs: &ConfigDictionary) -> Digest {
    SolutionDigests::new(hardware, configs).of(solution)
}

/// Makes the digests of a dataset's solutions. Most solutions time the same list of configs. So the order
/// of a list is found once, and used as long as the next solution has the same list.
pub struct SolutionDigests<'d> {
    hardware: &'d HardwareSlug,
    configs: &'d ConfigDictionary,
    list: Vec<ConfigIndex>,
    order: Order,
}

impl<'d> SolutionDigests<'d> {
    pub fn new(hardware: &'d HardwareSlug, configs: &'d ConfigDictionary) -> Self {
        Self { hardware, configs, list: Vec::new(), order: Order::default() }
    }

    /// The [digest](solution_digest) of one solution of the dataset.
    pub fn of(&mut self, solution: &Solution) -> Digest {
        if self.list != solution.configs {
            self.list.clone_from(&solution.configs);
            self.order = Order::of(&self.list, self.configs);
        }
        // Times in whole nanoseconds have exact milliseconds, too.
        let bits = |row: usize| solution.times.millis(row).0.to_bits();
        let mut timings: Vec<(u32, u64)> =
            self.order.rows.iter().map(|&(rank, row)| (rank, bits(row as usize))).collect();
        // The configs are in order already. Sorting puts the times of each config in order.
        timings.sort_unstable();
        let mut failures: Vec<(&Config, u32)> =
            solution.failures.iter().map(|f| (self.configs.get(f.config), reason_code(f.reason))).collect();
        failures.sort_unstable();

        let mut hash = Sha256::new();
        hash.update("diode-solution 1\n");
        hash.update(format!("{}\n{}\n{}\n", self.hardware, solution.problem.canonical(), solution.method));
        hash.update(format!("{} timings, {} failures\n", timings.len(), failures.len()));
        let mut rows = Vec::with_capacity(24 * (timings.len() + failures.len()));
        for (rank, millis) in timings {
            rows.extend_from_slice(self.order.config(rank));
            rows.extend(millis.to_le_bytes());
        }
        for (config, reason) in failures {
            write_config(&mut rows, config);
            write_varint(&mut rows, u64::from(reason));
        }
        hash.update(rows);
        Digest::from_hash(hash.finalize().into())
    }
}

/// The order of the configs of a list.
#[derive(Default)]
struct Order {
    /// The rows of the list in the order of their configs. Each has the rank of its config. Equal configs
    /// have the same rank.
    rows: Vec<(u32, u32)>,
    /// The configs in rank order, as they are hashed.
    bytes: Vec<u8>,
    /// Where each config ends in `bytes`.
    ends: Vec<usize>,
}

impl Order {
    fn of(list: &[ConfigIndex], configs: &ConfigDictionary) -> Self {
        let mut sorted: Vec<(&Config, u32)> = list.iter().map(|&index| configs.get(index)).zip(0..).collect();
        sorted.sort_unstable();
        let mut order = Self::default();
        let mut before = None;
        for (config, row) in sorted {
            if before != Some(config) {
                write_config(&mut order.bytes, config);
                order.ends.push(order.bytes.len());
            }
            before = Some(config);
            order.rows.push((order.ends.len() as u32 - 1, row));
        }
        order
    }

    fn config(&self, rank: u32) -> &[u8] {
        let rank = rank as usize;
        let start = rank.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start..self.ends[rank]]
    }
}

/// The digest of some datasets: the digest of the sorted digests of their solutions.
pub fn content_digest(datasets: &[Dataset]) -> Digest {
    let mut solutions: Vec<Digest> = datasets
        .iter()
        .flat_map(|dataset| {
            let mut digests = SolutionDigests::new(&dataset.hardware.slug, &dataset.configs);
            dataset.solutions.iter().map(move |solution| digests.of(solution))
        })
        .collect();
    solutions.sort_unstable();
    let mut hash = Sha256::new();
    hash.update("diode-content 1\n");
    for digest in solutions {
        hash.update(digest.as_str());
        hash.update("\n");
    }
    Digest::from_hash(hash.finalize().into())
}

fn write_config(out: &mut Vec<u8>, config: &Config) {
    for number in to_numbers(config) {
        write_varint(out, u64::from(number));
    }
}

/// Bytes that are read at a time.
const PIECE: usize = 1 << 20;

/// The size and the digest of a file. The file may be larger than memory.
pub fn size_and_digest(path: &Path) -> io::Result<(u64, Digest)> {
    let (mut file, mut hash, mut size) = (File::open(path)?, Sha256::new(), 0);
    let mut piece = vec![0; PIECE];
    loop {
        let length = file.read(&mut piece)?;
        if length == 0 {
            return Ok((size, Digest::from_hash(hash.finalize().into())));
        }
        hash.update(&piece[..length]);
        size += length as u64;
    }
}

#[cfg(test)]
mod file_digest_tests {
    use super::*;

    #[test]
    fn a_large_file_has_the_digest_of_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let (path, bytes) = (folder.path().join("x"), vec![7; PIECE + 5]);
        crate::write_atomically(&path, &bytes).unwrap();
        assert_eq!(size_and_digest(&path).unwrap(), (bytes.len() as u64, Digest::of(&bytes)));
    }
}
