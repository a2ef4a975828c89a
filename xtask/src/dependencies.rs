//! Checks the workspace's dependencies: their licences, sources and versions, and that all of them
//! are used.

use crate::shell::{self, command};
use crate::tools::tool;

/// deny.toml says what is allowed. Advisories are not checked, because they need a database from
/// the network.
pub(crate) fn check() -> anyhow::Result<()> {
    let deny = tool("cargo-deny", "0.20.2")?;
    let checks = ["--workspace", "--all-features", "check", "licenses", "bans", "sources"];
    shell::run(command(deny).args(checks))?;
    shell::run(&mut command(tool("cargo-machete", "0.9.2")?))
}
