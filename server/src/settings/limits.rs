//! How often an account or an address may do something.

use clap::Args;
use serde::Deserialize;

use crate::limits::Limits;

/// The limits by flag or variable. 0 is no limit.
#[derive(Debug, Clone, Default, Args)]
pub struct LimitArgs {
    /// Uploads and agents' results per minute and account or address; 0 for any number [default: none on loopback, else 1200]
    #[arg(long, env = "DIODE_UPLOADS_PER_MINUTE", value_name = "NUMBER")]
    pub uploads_per_minute: Option<u64>,

    /// Other requests that change something [default: none on loopback, else 1200]
    #[arg(long, env = "DIODE_CHANGES_PER_MINUTE", value_name = "NUMBER")]
    pub changes_per_minute: Option<u64>,

    /// Datasets, tables and lists of configs that the client lacks, and comparisons [default: none on loopback, else 120]
    #[arg(long, env = "DIODE_EXPORTS_PER_MINUTE", value_name = "NUMBER")]
    pub exports_per_minute: Option<u64>,
}

/// The limits in `diode.toml`. 0 is no limit.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct LimitFile {
    uploads_per_minute: Option<u64>,
    changes_per_minute: Option<u64>,
    exports_per_minute: Option<u64>,
}

/// The limits that were given.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GivenLimits {
    uploads: Option<u64>,
    changes: Option<u64>,
    exports: Option<u64>,
}

impl GivenLimits {
    pub(super) fn resolve(args: &LimitArgs, file: &LimitFile) -> Self {
        Self {
            uploads: args.uploads_per_minute.or(file.uploads_per_minute),
            changes: args.changes_per_minute.or(file.changes_per_minute),
            exports: args.exports_per_minute.or(file.exports_per_minute),
        }
    }

    /// The limits in force. A server that only this machine can reach has other defaults than a public server.
    pub(super) fn in_force(self, is_local: bool) -> Limits {
        let default = if is_local { Limits::default() } else { Limits::PUBLIC };
        let or = |given: Option<u64>, default| match given {
            Some(0) => None,
            Some(number) => Some(number),
            None => default,
        };
        Limits {
            uploads: or(self.uploads, default.uploads),
            changes: or(self.changes, default.changes),
            exports: or(self.exports, default.exports),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_alone_is_not_limited_unless_asked() {
        let none = GivenLimits::default();
        assert_eq!(none.in_force(true), Limits::default());
        assert_eq!(none.in_force(false), Limits::PUBLIC);
        let args =
            LimitArgs { uploads_per_minute: Some(5), exports_per_minute: Some(0), ..LimitArgs::default() };
        let file =
            LimitFile { uploads_per_minute: Some(9), changes_per_minute: Some(7), ..LimitFile::default() };
        let expected = Limits { uploads: Some(5), changes: Some(7), exports: None };
        for is_local in [true, false] {
            assert_eq!(GivenLimits::resolve(&args, &file).in_force(is_local), expected);
        }
    }
}
