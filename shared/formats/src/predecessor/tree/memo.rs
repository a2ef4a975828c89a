//! Configs that were read before, known by their bytes.
//!
//! A dataset repeats the same few thousand configs for every problem, mostly in
//! the same order. So a config's bytes are first compared with the bytes that
//! followed the config before it in the last problem. If they differ, they are
//! looked up, and only then parsed. Equal bytes mean equal configs. Different
//! bytes may still mean the same config.

use std::collections::HashMap;

use diode_core::ConfigIndex;

/// Configs remembered: several times the largest space. Any further one is parsed each time.
const MAX_MEMOIZED: usize = 1 << 14;

/// Bytes of a config worth remembering: three times those of a real one.
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
    /// The number of the one that followed the last time.
    next: usize,
}

/// The number before the first config of a problem.
const START: usize = 0;

impl Memo {
    pub(super) fn new() -> Self {
        let start = Memoized { bytes: Box::default(), config: ConfigIndex(0), next: START };
        Self { configs: vec![start], by_bytes: HashMap::new(), last: START }
    }

    /// A new problem begins.
    pub(super) fn restart(&mut self) {
        self.last = START;
    }

    /// The bytes that probably come next; empty if nothing is known.
    #[inline]
    pub(super) fn expected(&self) -> (&[u8], ConfigIndex) {
        let memoized = &self.configs[self.configs[self.last].next];
        (&memoized.bytes, memoized.config)
    }

    /// The expected bytes came.
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

    /// Remembers what some bytes mean.
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
