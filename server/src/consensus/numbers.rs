//! Numbers for configs. Most solutions share their list of configs, and most views share their lists.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use diode_core::Config;

/// With more configs than this, nothing is kept for the next view, because each view looks at all configs
/// that are kept.
const MAX_KEPT: usize = 1 << 14;

/// The configs of some views. Each has one number, even if several lists have it.
#[derive(Default)]
pub(crate) struct Numbers {
    configs: Vec<Config>,
    numbers: HashMap<Config, u32>,
    /// The lists by their address.
    lists: HashMap<usize, NumberedList>,
}

/// A list of configs, as numbers.
pub(super) struct NumberedList {
    /// The list is kept alive, so that no other list gets the same address.
    _list: Arc<[Config]>,
    pub(super) numbers: Vec<u32>,
    /// Whether no config occurs twice.
    pub(super) distinct: bool,
}

impl Numbers {
    /// Drops all lists and numbers if there are too many configs. Earlier numbers are then no longer valid.
    pub(super) fn make_room(&mut self) {
        if self.configs.len() > MAX_KEPT {
            *self = Self::default();
        }
    }

    /// Numbers a list, once.
    pub(super) fn add(&mut self, list: &Arc<[Config]>) {
        let address = address(list);
        if self.lists.contains_key(&address) {
            return;
        }
        let numbers: Vec<u32> = list.iter().map(|config| self.number(*config)).collect();
        let distinct = numbers.iter().collect::<HashSet<_>>().len() == numbers.len();
        self.lists.insert(address, NumberedList { _list: Arc::clone(list), numbers, distinct });
    }

    /// The numbers of a list that was added.
    pub(super) fn list(&self, list: &Arc<[Config]>) -> Option<&NumberedList> {
        self.lists.get(&address(list))
    }

    /// Every config, in the order of its number.
    pub(super) fn configs(&self) -> &[Config] {
        &self.configs
    }

    fn number(&mut self, config: Config) -> u32 {
        let configs = &mut self.configs;
        *self.numbers.entry(config).or_insert_with(|| {
            configs.push(config);
            configs.len() as u32 - 1
        })
    }
}

fn address(list: &Arc<[Config]>) -> usize {
    list.as_ptr() as usize
}

#[cfg(test)]
mod tests {
    use super::super::tests::tile;
    use super::*;

    #[test]
    fn a_config_has_one_number_in_all_lists() {
        let lists: [Arc<[Config]>; 3] = [
            [tile(128, 3), tile(64, 5)].into(),
            [tile(64, 5), Config::Library].into(),
            [tile(64, 5), tile(64, 5)].into(),
        ];
        let mut numbers = Numbers::default();
        for list in lists.iter().chain(&lists) {
            numbers.add(list);
        }
        let numbered = lists.each_ref().map(|list| {
            let list = numbers.list(list).unwrap();
            (list.numbers.clone(), list.distinct)
        });
        assert_eq!(numbered, [(vec![0, 1], true), (vec![1, 2], true), (vec![1, 1], false)]);
        assert_eq!(numbers.configs(), [tile(128, 3), tile(64, 5), Config::Library]);
    }

    #[test]
    fn what_is_kept_does_not_grow_for_ever() {
        let mut numbers = Numbers::default();
        let list: Arc<[Config]> =
            (0..=MAX_KEPT as u32).map(|k_split| Config::DecomposeK { k_split }).collect();
        numbers.add(&list);
        numbers.make_room();
        assert!(numbers.configs().is_empty() && numbers.list(&list).is_none());
        numbers.add(&list);
        assert_eq!(numbers.configs().len(), list.len());
    }
}
