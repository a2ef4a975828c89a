//! Figures of the process itself, under the names that all Prometheus clients use. They come from `/proc`, so
//! only Linux has them.

use std::fs;

use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

/// The unit in which Linux tells programs their processor time, on every machine.
const TICKS_PER_SECOND: f64 = 100.0;

pub(super) fn register(registry: &mut Registry) {
    let registry = registry.sub_registry_with_prefix("process");
    if let Some(bytes) = resident_bytes() {
        let help = "Memory that the process holds";
        registry.register_with_unit("resident_memory", help, Unit::Bytes, ConstGauge::new(bytes));
    }
    if let Some(seconds) = processor_seconds() {
        registry.register_with_unit("cpu", "Processor time", Unit::Seconds, ConstCounter::new(seconds));
    }
    if let Ok(files) = fs::read_dir("/proc/self/fd") {
        registry.register("open_fds", "Open files and connections", ConstGauge::new(files.count() as i64));
    }
    if let Some(files) = file_limit() {
        registry.register("max_fds", "Files and connections that may be open", ConstGauge::new(files));
    }
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix(" kB")?.parse::<i64>().ok()? * 1024)
}

fn processor_seconds() -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program stands in brackets, and may contain spaces and brackets. After it, the user and
    // system times are fields 12 and 13.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let (user, system): (f64, f64) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((user + system) / TICKS_PER_SECOND)
}

fn file_limit() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn linux_tells_all_of_them() {
        assert!(resident_bytes().unwrap() > 1 << 20);
        assert!(processor_seconds().is_some());
        assert!(file_limit().unwrap() > 0);
    }
}
