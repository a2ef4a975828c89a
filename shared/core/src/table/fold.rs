//! A fast hash of problems.

use std::hash::Hasher;

/// Mixes words with one multiplication each.
///
/// The standard hash, which withstands chosen collisions, takes longer than the
/// rest of a lookup. Here whoever chooses the keys is the one who waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fold(u64);

impl Fold {
    fn mix(&mut self, word: u64) {
        /// 2⁶⁴ divided by the golden ratio: odd, with well-spread bits.
        const MULTIPLIER: u128 = 0x9e37_79b9_7f4a_7c15;
        let product = u128::from(self.0 ^ word) * MULTIPLIER;
        // A word that equals the state would leave zero, whatever came before it.
        self.0 = (product as u64 ^ (product >> 64) as u64).wrapping_add(MULTIPLIER as u64);
    }
}

impl Hasher for Fold {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
