//! Digests of the content of datasets. They do not depend on the file format.

use diode_core::ids::{Digest, HardwareSlug};
use diode_core::{Config, ConfigDictionary, Dataset, Solution};
use sha2::{Digest as _, Sha256};

use crate::bytes::write_varint;
use crate::dictionary::{reason_code, to_numbers};

/// The digest of one solution: hardware, problem, method, times and failures.
///
/// The order of configs does not matter. Spread, repeats and provenance are not part of
/// the digest, so that data keeps its digest in a format that does not hold them.
pub fn solution_digest(hardware: &HardwareSlug, solution: &Solution, configs: &ConfigDictionary) -> Digest {
    // Every time has exact milliseconds, also one in whole nanoseconds.
    let mut timings: Vec<(&Config, u64)> = solution
        .configs
        .iter()
        .enumerate()
        .map(|(row, &index)| (configs.get(index), solution.times.millis(row).0.to_bits()))
        .collect();
    timings.sort_unstable();
    let mut failures: Vec<(&Config, u32)> =
        solution.failures.iter().map(|f| (configs.get(f.config), reason_code(f.reason))).collect();
    failures.sort_unstable();

    let mut hash = Sha256::new();
    hash.update("diode-solution 1\n");
    hash.update(format!("{hardware}\n{}\n{}\n", solution.problem.canonical(), solution.method));
    hash.update(format!("{} timings, {} failures\n", timings.len(), failures.len()));
    let mut rows = Vec::with_capacity(24 * (timings.len() + failures.len()));
    for (config, millis) in timings {
        write_config(&mut rows, config);
        rows.extend(millis.to_le_bytes());
    }
    for (config, reason) in failures {
        write_config(&mut rows, config);
        write_varint(&mut rows, u64::from(reason));
    }
    hash.update(rows);
    Digest::from_hash(hash.finalize().into())
}

/// The digest of some datasets: the digest of the sorted digests of their solutions.
pub fn content_digest(datasets: &[Dataset]) -> Digest {
    let mut solutions: Vec<Digest> = datasets
        .iter()
        .flat_map(|dataset| {
            dataset
                .solutions
                .iter()
                .map(|solution| solution_digest(&dataset.hardware.slug, solution, &dataset.configs))
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
