//! The notes of a release, from its part of CHANGELOG.md.

use anyhow::Context;

use super::VERSION;
use crate::shell::root;

pub(super) fn of_this_version() -> anyhow::Result<String> {
    let changes = std::fs::read_to_string(root().join("CHANGELOG.md")).context("CHANGELOG.md")?;
    // A build between two releases uses the part of unreleased changes.
    part(&changes, VERSION)
        .or_else(|| part(&changes, "Unreleased"))
        .with_context(|| format!("CHANGELOG.md: got no part `## {VERSION}` or `## Unreleased`; write one"))
}

/// The text between `## VERSION` and the next version. A date may follow the number.
fn part(changes: &str, version: &str) -> Option<String> {
    let of_version = |line: &str| {
        let heading = line.strip_prefix("## ")?.split_whitespace().next()?;
        Some(heading.trim_matches(['[', ']']) == version)
    };
    let mut lines = changes.lines().skip_while(|line| of_version(line) != Some(true));
    lines.next()?;
    let text: Vec<&str> = lines.take_while(|line| !line.starts_with("## ")).collect();
    let text = text.join("\n");
    (!text.trim().is_empty()).then(|| format!("{}\n", text.trim()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_has_its_own_part() {
        let changes =
            "# Changes\n\n## 0.2.0 (2026-12-01)\n\nNew.\n\n### Fixed\n\n- A.\n\n## [0.1.0]\n\nFirst.\n";
        assert_eq!(part(changes, "0.2.0").unwrap(), "New.\n\n### Fixed\n\n- A.\n");
        assert_eq!(part(changes, "0.1.0").unwrap(), "First.\n");
        assert_eq!(part(changes, "0.3.0"), None);
        assert_eq!(part("## 0.1.0\n\n## 0.0.1\n", "0.1.0"), None);
    }
}
