//! Cache sizes, from Linux's `/sys`.

use std::fs;
use std::path::Path;

use serde::Serialize;

/// The caches of the first core. `None` if the system does not state a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub(crate) struct Caches {
    pub(crate) l1d_bytes: Option<u64>,
    pub(crate) l2_bytes: Option<u64>,
    pub(crate) l3_bytes: Option<u64>,
}

/// The L2 cache that every core of the last ten years has at least. Used if the system does not
/// state it.
const USUAL_L2: u64 = 256 << 10;

impl Caches {
    /// Reads the `index*` folders of `/sys/devices/system/cpu/cpu0/cache`.
    pub(crate) fn read(folder: &Path) -> Self {
        let mut caches = Self::default();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let text = |name: &str| {
                fs::read_to_string(entry.path().join(name)).map(|t| t.trim().to_owned()).unwrap_or_default()
            };
            let size = parse_size(&text("size"));
            match (text("level").as_str(), text("type").as_str()) {
                ("1", "Data") => caches.l1d_bytes = size,
                ("2", _) => caches.l2_bytes = size,
                ("3", _) => caches.l3_bytes = size,
                _ => {}
            }
        }
        caches
    }

    /// The size of a core's own L2 cache.
    pub(crate) fn private_bytes(&self) -> u64 {
        self.l2_bytes.unwrap_or(USUAL_L2)
    }

    /// The size of the last cache before memory.
    pub(crate) fn last_level_bytes(&self) -> u64 {
        self.l3_bytes.unwrap_or_else(|| self.private_bytes())
    }
}

/// Parses `32K`, `1024K` or `32M`.
fn parse_size(text: &str) -> Option<u64> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
    let scale = match unit {
        "" => 1,
        "K" => 1 << 10,
        "M" => 1 << 20,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale).filter(|&bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("1024K"), Some(1 << 20));
        assert_eq!(parse_size("32M"), Some(32 << 20));
        assert_eq!(parse_size("64"), Some(64));
        for bad in ["", "K", "0K", "1G2", "99999999999999999999K"] {
            assert_eq!(parse_size(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_system_that_says_nothing_gets_the_usual() {
        let caches = Caches::read(Path::new("/nonexistent"));
        assert_eq!(caches, Caches::default());
        assert_eq!(caches.last_level_bytes(), USUAL_L2);
    }
}
