//! Benchmarks: ratios within one run, since machines differ.

use anyhow::bail;

pub(crate) fn run() -> anyhow::Result<()> {
    bail!("there are no benchmarks yet; they come with the hardened decoders and the tables")
}
