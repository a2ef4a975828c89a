//! NVIDIA GPUs, as `nvidia-smi` lists them.

use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use diode_core::hardware::Hardware;

use super::Gpu;

const FIELDS: &str = "name,memory.total,driver_version,power.limit";

/// This node's NVIDIA GPUs. There are none if `nvidia-smi` is not installed.
pub(super) fn gpus() -> anyhow::Result<Vec<Gpu>> {
    let query = format!("--query-gpu={FIELDS}");
    let run = Command::new("nvidia-smi")
        .args([query.as_str(), "--format=csv,noheader,nounits"])
        .stdin(Stdio::null())
        .output();
    let output = match run {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.context("cannot run nvidia-smi")?,
    };
    if !output.status.success() {
        // nvidia-smi prints its errors on stdout as often as on stderr.
        let words = [output.stderr, output.stdout].concat();
        let words = String::from_utf8_lossy(&words);
        bail!("nvidia-smi failed ({}): {}", output.status, words.lines().next().unwrap_or("no message"));
    }
    parse(&String::from_utf8_lossy(&output.stdout))
}

fn parse(csv: &str) -> anyhow::Result<Vec<Gpu>> {
    csv.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            let mut columns = line.split(',').map(str::trim);
            // A field that the driver does not know is `[N/A]` or `[Not Supported]`.
            let mut next = || columns.next().filter(|text| !text.starts_with('['));
            let name = next().with_context(|| format!("nvidia-smi: got `{line}`, expected {FIELDS}"))?;
            Ok(Gpu {
                hardware: Hardware::from_name(name)?,
                memory_mib: next().and_then(|text| text.parse().ok()),
                driver: next().map(str::to_owned),
                power_limit_watts: next().and_then(|text| text.parse().ok()),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_listing_is_understood() {
        let gpus =
            parse("NVIDIA H200, 143771, 570.86.15, 700.00\nNVIDIA X1, [N/A], 570.86.15, [N/A]\n").unwrap();
        assert_eq!(gpus.len(), 2);
        assert_eq!(gpus[0].hardware.slug.as_str(), "nvidia-h200");
        assert_eq!((gpus[0].memory_mib, gpus[0].power_limit_watts), (Some(143_771), Some(700.0)));
        assert_eq!((gpus[1].memory_mib, gpus[1].driver.as_deref()), (None, Some("570.86.15")));
        assert_eq!(parse("").unwrap(), []);
        assert!(parse("[N/A], 1").is_err());
    }
}
