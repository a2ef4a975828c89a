//! What the system reports about itself and about the server.

use std::fs;
use std::path::Path;

use anyhow::Context;

/// The most memory that a process has held, in megabytes.
pub(crate) fn peak_memory(process: u32) -> anyhow::Result<f64> {
    let status = fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kilobytes = line.trim().strip_suffix(" kB").context("VmHWM is not in kB")?;
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
