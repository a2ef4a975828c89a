//! When the data of a hardware is frozen, and how much of it is kept.

use clap::Args;
use serde::Deserialize;

use super::on_or_off;
use crate::store::SnapshotLimits;

/// Each automatic training needs a tenth more data than the last. So a hundred trainings, each with its
/// snapshot, lead from 50 problems to 600,000.
const MAX_NUMBER: u64 = 100;
/// The default limit: enough for 150 snapshots as large as the largest collection in use, in all formats.
const MAX_MEGABYTES: u64 = 50_000;

/// The settings of snapshots, by flag or variable.
#[derive(Debug, Clone, Default, Args)]
pub struct SnapshotArgs {
    /// Freeze the data of a hardware when a model of it is published after a training [default: on]
    #[arg(long, env = "DIODE_AUTO_SNAPSHOT", value_name = "on|off", value_parser = on_or_off)]
    pub auto_snapshot: Option<bool>,

    /// Snapshots of one hardware to keep at most; more are refused [default: 100]
    #[arg(long, env = "DIODE_MAX_SNAPSHOTS", value_name = "NUMBER")]
    pub max_snapshots: Option<u64>,

    /// Megabytes of all snapshots to keep at most; more are refused [default: 50000]
    #[arg(long, env = "DIODE_MAX_SNAPSHOTS_MB", value_name = "NUMBER")]
    pub max_snapshots_mb: Option<u64>,
}

/// The settings of snapshots in `diode.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SnapshotFile {
    automatic: Option<bool>,
    max_number: Option<u64>,
    max_mb: Option<u64>,
}

/// The settings of snapshots in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Snapshots {
    /// Whether a snapshot is made when a model is published after a training.
    pub automatic: bool,
    pub limits: SnapshotLimits,
}

impl Snapshots {
    /// Combines flags and file.
    pub(super) fn resolve(args: &SnapshotArgs, file: &SnapshotFile) -> Self {
        let megabytes = args.max_snapshots_mb.or(file.max_mb).unwrap_or(MAX_MEGABYTES);
        Self {
            automatic: args.auto_snapshot.or(file.automatic).unwrap_or(true),
            limits: SnapshotLimits {
                number: args.max_snapshots.or(file.max_number).unwrap_or(MAX_NUMBER),
                bytes: megabytes.saturating_mul(1_000_000),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let file = SnapshotFile { automatic: Some(false), max_number: Some(7), ..SnapshotFile::default() };
        let args = SnapshotArgs { max_snapshots: Some(3), ..SnapshotArgs::default() };
        let expected =
            Snapshots { automatic: false, limits: SnapshotLimits { number: 3, bytes: 50_000_000_000 } };
        assert_eq!(Snapshots::resolve(&args, &file), expected);
        let usual = Snapshots::resolve(&SnapshotArgs::default(), &SnapshotFile::default());
        assert!(usual.automatic && usual.limits.number == 100);
    }
}
