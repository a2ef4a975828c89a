//! Remembers configs by their bytes.
//!
//! A dataset repeats the same few thousand configs for every problem, mostly in the same order. So
//! the memo remembers which config came after each config the last time. The next bytes are first
//! compared with the config that is expected by this order. If the bytes differ, they are looked up
//! among all configs, and only new bytes are parsed. Equal bytes mean equal configs, but different
//! bytes may mean the same config, too.

use std::collections::HashMap;

use diode_core::ConfigIndex;

/// The most configs that are remembered: several times the largest space. Others are parsed every
/// time.
const MAX_MEMOIZED: usize = 1 << 14;

/// The most bytes of a config that is remembered: three times what real configs take.
const MAX_BYTES: usize = 512;

/// The configs of one op on one hardware.
pub(super) struct Memo {
    configs: Vec<Memoized>,
    by_bytes: HashMap<Box<[u8]>, usize>,
    last: usize,
}

/// A config that was read before.
struct Memoized {
    bytes: Box<[u8]>,
    config: ConfigIndex,
    /// The number of the config that followed this one the last time.
    next: usize,
}

/// The number that stands for the beginning of a problem.
const START: usize = 0;

impl Memo {
    pub(super) fn new() -> Self {
        let start = Memoized { bytes: Box::default(), config: ConfigIndex(0), next: START };
        Self { configs: vec![start], by_bytes: HashMap::new(), last: START }
    }

    /// Begins a new problem.
    pub(super) fn restart(&mut self) {
        self.last = START;
    }

    /// The bytes that probably come next, and their config. The bytes are empty if nothing is
    /// expected.
    #[inline]
    pub(super) fn expected(&self) -> (&[u8], ConfigIndex) {
        let memoized = &self.configs[self.configs[self.last].next];
        (&memoized.bytes, memoized.config)
    }

    /// Notes that the expected bytes came.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.last = self.configs[self.last].next;
    }

    /// The config of some bytes, if they came before.
    pub(super) fn find(&mut self, bytes: &[u8]) -> Option<ConfigIndex> {
        let number = *self.by_bytes.get(bytes)?;
        self.follow(number);
        Some(self.configs[number].config)
    }

    /// Remembers the config of some bytes.
    pub(super) fn learn(&mut self, bytes: Box<[u8]>, config: ConfigIndex) {
        if bytes.len() > MAX_BYTES || self.configs.len() > MAX_MEMOIZED {
            return;
        }
        let number = self.configs.len();
        self.by_bytes.insert(bytes.clone(), number);
        self.configs.push(Memoized { bytes, config, next: START });
        self.follow(number);
    }

    fn follow(&mut self, number: usize) {
        self.configs[self.last].next = number;
        self.last = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_last_time_is_expected_again() {
        let mut memo = Memo::new();
        for (bytes, index) in [(b"a", 7), (b"b", 8)] {
            assert_eq!(memo.find(bytes), None);
            memo.learn(Box::new(*bytes), ConfigIndex(index));
        }
        memo.restart();
        assert_eq!(memo.expected(), (&b"a"[..], ConfigIndex(7)));
        memo.advance();
        assert_eq!(memo.expected(), (&b"b"[..], ConfigIndex(8)));
        memo.restart();
        assert_eq!(memo.find(b"b"), Some(ConfigIndex(8)));
        memo.restart();
        assert_eq!(memo.expected().0, b"b");
        memo.advance();
        assert_eq!(memo.expected().0, b"", "nothing ever followed it");
    }

    #[test]
    fn memory_is_bounded() {
        let mut memo = Memo::new();
        memo.learn(vec![0; MAX_BYTES + 1].into(), ConfigIndex(0));
        for number in 0..2 * MAX_MEMOIZED as u32 {
            memo.learn(number.to_le_bytes().into(), ConfigIndex(number));
        }
        assert_eq!(memo.by_bytes.len(), MAX_MEMOIZED);
    }
}
