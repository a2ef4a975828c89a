//! Benchmarks. Each figure is printed beside its goal.

mod codecs;
mod servers;

use clap::Args;

use crate::shell::{self, cargo};

#[derive(Args)]
pub(crate) struct Options {
    /// Fill databases with 100 million timings: takes an hour
    #[arg(long)]
    full: bool,
    /// Only uploads, pages and agents
    #[arg(long)]
    servers: bool,
}

/// Benchmarks that print their own lines, as pairs of package and example.
const EXAMPLES: &[(&str, &str)] = &[
    ("diode-core", "table_lookup"),
    ("diode-model", "rank_space"),
    ("diode-server", "plan_day"),
    ("diode-server", "plan_quality"),
];

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    if !options.servers {
        codecs::run()?;
        for (package, example) in EXAMPLES {
            println!("\n{example}");
            shell::run(cargo().args(["run", "--quiet", "--release", "-p", package, "--example", example]))?;
        }
    }
    servers::run(options.full)
}
