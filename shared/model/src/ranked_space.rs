//! The configs of a space in order of their predicted times, and the picks from them.

use diode_core::{Config, Micros};

use crate::picks::diverse;

/// The library may be one of several picks if its predicted time is at most this many times the best
/// config's.
const LIBRARY_REACH: f64 = 1.3;

/// The configs of a space on one problem, best first.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedSpace {
    pub configs: Vec<(Config, Micros)>,
    /// How many configs there were to choose from.
    pub considered: usize,
    /// The predicted time of the vendor's library, from models that predict it.
    pub library: Option<Micros>,
    /// What that time is multiplied by when a pick is made.
    library_handicap: f64,
}

impl RankedSpace {
    /// From configs in order, and the library's predicted time with what it is multiplied by when a pick is made.
    pub fn new(configs: Vec<(Config, Micros)>, library: Option<Micros>, library_handicap: f64) -> Self {
        Self { considered: configs.len(), configs, library, library_handicap }
    }

    /// The `count` picks to measure, best first. They are not only near-copies of the first, and
    /// the library is among them where it may be the best of all.
    ///
    /// `docs/guides/models.md` has the rule.
    pub fn picks(&self, count: usize) -> Vec<(Config, Micros)> {
        let Some(library) = self.library else { return diverse(&self.configs, count) };
        let counts_for = |&(config, time): &(Config, Micros)| {
            time.0 * if config == Config::Library { self.library_handicap } else { 1.0 }
        };
        let best = self.configs.first().map_or(f64::INFINITY, |(_, time)| time.0);
        let library = (Config::Library, library);
        // A single pick is the one with the least time. Of several picks, one is worth spending on the
        // library, unless its predicted time is far off.
        let reach = if count == 1 { 1.0 } else { LIBRARY_REACH };
        if counts_for(&library) >= best * reach || count == 0 {
            return diverse(&self.configs, count);
        }
        let mut picks = diverse(&self.configs, count - 1);
        picks.push(library);
        picks.sort_by(|a, b| counts_for(a).total_cmp(&counts_for(b)));
        picks
    }
}
