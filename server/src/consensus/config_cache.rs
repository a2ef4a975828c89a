//! Lists and numbers of configs, kept for the next view.

use std::sync::{Arc, Mutex, PoisonError};

use super::numbers::Numbers;
use crate::solutions::ConfigLists;

/// A cache with more configs than this is not kept. So many configs take some megabytes, however many lists they are
/// in.
const MAX_KEPT: usize = 1 << 16;

/// How many caches are kept: about one for each core. If more requests compute at once, the others begin without a
/// cache.
const KEPT: usize = 4;

#[derive(Default)]
pub(crate) struct ConfigCache {
    pub(super) lists: ConfigLists,
    pub(super) numbers: Numbers,
}

/// Caches of earlier requests, for later requests. Nearly all views share a few lists of over a thousand configs.
/// Reading and numbering a list takes longer than reading the times of one view.
#[derive(Clone, Default)]
pub(crate) struct ConfigCaches(Arc<Mutex<Vec<ConfigCache>>>);

impl ConfigCaches {
    /// Runs `work` with the cache of an earlier request, if one is free. Keeps the cache for a later request.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut ConfigCache) -> T) -> T {
        let mut learnt = self.all(|kept| kept.pop()).unwrap_or_default();
        let done = work(&mut learnt);
        if learnt.lists.configs() <= MAX_KEPT {
            self.all(|kept| {
                if kept.len() < KEPT {
                    kept.push(learnt);
                }
            });
        }
        done
    }

    fn all<T>(&self, use_it: impl FnOnce(&mut Vec<ConfigCache>) -> T) -> T {
        use_it(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use diode_core::{Config, hardware};

    use super::super::tests::{problem, stored, tile};
    use super::super::{Computed, Consensus, compute};
    use super::*;

    #[test]
    fn what_is_learnt_changes_nothing_and_does_not_grow_for_ever() {
        let (config_caches, h200) = (ConfigCaches::default(), hardware::find("nvidia-h200").unwrap());
        let few = stored(&[(tile(64, 5), 190_000), (tile(128, 3), 200_000)]);
        let others = stored(&[(tile(32, 2), 170_000), (tile(128, 3), 210_000)]);
        for solutions in [&few, &others, &few] {
            let fresh = Consensus::of_stored(solutions, &mut ConfigCache::default());
            assert_eq!(config_caches.with(|learnt| Consensus::of_stored(solutions, learnt)), fresh);
            let Computed { entry, .. } =
                config_caches.with(|learnt| compute(solutions, learnt, &problem(), &h200));
            assert_eq!(entry, fresh.board_entry(&problem(), &h200));
        }
        assert_eq!(config_caches.with(|learnt| learnt.lists.configs()), 4);
        let split = |k_split| (Config::DecomposeK { k_split }, 100_000);
        let many: Vec<_> = (2..=MAX_KEPT as u32 / 8).map(split).collect();
        for shift in 0..9 {
            config_caches.with(|learnt| Consensus::of_stored(&stored(&many[shift..]), learnt));
        }
        assert_eq!(config_caches.with(|learnt| learnt.lists.configs()), 0);
    }
}
