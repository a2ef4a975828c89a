//! The configs of a space in the order of their predicted times, and the picks from them.

use diode_core::{Config, Micros};

use crate::picks::{diverse, have_one_kernel};

/// The library can be one of several picks only if its predicted time, after the handicap, is less than the best
/// config's predicted time multiplied by this.
const LIBRARY_REACH: f64 = 1.3;

/// The configs of a space for one problem, with the best first.
#[derive(Debug, Clone, PartialEq)]
pub struct RankedSpace {
    pub configs: Vec<(Config, Micros)>,
    /// How many configs there were to choose from.
    pub considered: usize,
    /// The predicted time of the library, if the model predicts it.
    pub library: Option<Micros>,
    /// Whether some predicted time was shorter than the hardware allows. The floor has replaced it.
    pub bounded: bool,
    /// Whether the configs and the library round float32 to TF32.
    rounds: bool,
    /// The factor for the library's time when picks are made.
    library_handicap: f64,
}

impl RankedSpace {
    /// A ranking from sorted configs, the library's predicted time, and the factor for this time when picks
    /// are made.
    pub fn new(configs: Vec<(Config, Micros)>, library: Option<Micros>, library_handicap: f64) -> Self {
        Self { considered: configs.len(), configs, library, bounded: false, rounds: false, library_handicap }
    }

    /// The same ranking of configs that round float32 to TF32, or that do not.
    #[must_use]
    pub fn rounding(self, rounds: bool) -> Self {
        Self { rounds, ..self }
    }

    /// Whether the configs and the library round float32 to TF32.
    pub fn rounds(&self) -> bool {
        self.rounds
    }

    /// The library that computes what the configs do.
    pub fn library_config(&self) -> Config {
        Config::library(self.rounds)
    }

    /// Replaces times below `floor` by `floor`. The order stays.
    pub(crate) fn bounded_by(mut self, floor: Micros) -> Self {
        for time in self.configs.iter_mut().map(|(_, time)| time).chain(&mut self.library) {
            if *time < floor {
                *time = floor;
                self.bounded = true;
            }
        }
        self
    }

    /// The `count` picks to measure, with the best first. They are not only near-copies of the first pick.
    /// The library is one of them if it may be the best of all.
    ///
    /// `docs/guides/models.md` has the rule.
    pub fn picks(&self, count: usize) -> Vec<(Config, Micros)> {
        let Some(library) = self.library else { return diverse(&self.configs, count) };
        let counts_for = |&(config, time): &(Config, Micros)| {
            time.0 * if config.is_library() { self.library_handicap } else { 1.0 }
        };
        let best = self.configs.first().map_or(f64::INFINITY, |(_, time)| time.0);
        let library = (self.library_config(), library);
        // A single pick must have the least time. One of several picks is the library, unless the library's
        // predicted time is far off.
        let reach = if count == 1 { 1.0 } else { LIBRARY_REACH };
        if counts_for(&library) >= best * reach || count == 0 {
            return diverse(&self.configs, count);
        }
        let mut picks = diverse(&self.configs, count - 1);
        picks.push(library);
        picks.sort_by(|a, b| counts_for(a).total_cmp(&counts_for(b)));
        picks
    }

    /// The `count` configs with the least predicted times that were not picked. The library may be one of
    /// them.
    pub fn near(&self, picks: &[(Config, Micros)], count: usize) -> Vec<(Config, Micros)> {
        let library = self.library.map(|time| (self.library_config(), time));
        let is_picked =
            |one: &(Config, Micros)| picks.iter().any(|it| it.0 == one.0 || have_one_kernel(it, one));
        let all = self.configs.iter().copied().chain(library);
        let mut near: Vec<_> = all.filter(|one| !is_picked(one)).collect();
        near.sort_by(|a, b| a.1.0.total_cmp(&b.1.0));
        near.dedup_by(|a, b| have_one_kernel(a, b));
        near.truncate(count);
        near
    }
}

#[cfg(test)]
mod tests {
    use diode_core::Tile;

    use super::*;

    #[test]
    fn no_time_is_shorter_than_the_floor() {
        let config = |stages| Config::Mm(Tile::new(128, 128, 64, stages, 8));
        let configs = vec![(config(3), Micros(4.0)), (config(4), Micros(5.0)), (config(5), Micros(9.0))];
        let ranked = RankedSpace::new(configs, Some(Micros(3.0)), 1.0);
        assert_eq!(ranked.clone().bounded_by(Micros(2.0)), ranked);
        let bounded = ranked.bounded_by(Micros(6.0));
        assert!(bounded.bounded);
        assert_eq!(bounded.library, Some(Micros(6.0)));
        let times = [6.0, 6.0, 9.0].map(Micros);
        let order = [config(3), config(4), config(5)];
        assert!(bounded.configs.into_iter().eq(order.into_iter().zip(times)));
    }
}
