//! What the system reports about itself and about the server.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// Memory of a process in megabytes: `VmRSS` is what it holds, `VmHWM` the most that it has held.
pub(crate) fn memory(process: u32, which: &str) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(which)).context("no such figure")?;
    let kilobytes = line.trim_matches([':', ' ', '\t']).strip_suffix(" kB").context("not in kB")?;
    Ok(kilobytes.trim().parse::<f64>()? * 1024.0 / 1e6)
}

/// The load average of the last minute: how many processes were ready to run on a core.
pub(crate) fn load() -> String {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().unwrap_or("unknown").to_owned()
}

/// The bytes of all files in a folder.
pub(crate) fn size(folder: &Path) -> anyhow::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let what = entry.metadata()?;
        sum += if what.is_dir() { size(&entry.path())? } else { what.len() };
    }
    Ok(sum)
}
