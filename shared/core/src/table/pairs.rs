//! A fast hash of problems. Nobody can construct problems whose hashes collide.

use std::hash::{BuildHasher, Hasher, RandomState};

/// How many words a problem is packed into.
const WORDS: usize = 3;

/// Two random numbers for each word.
type Drawn = [(u64, u64); WORDS];

/// Draws the random numbers of a [`PairHash`], once for each table.
///
/// The standard hash takes half of the time that a whole lookup may take. This hash is as safe here.
/// A table may hold problems from strangers, but strangers do not know the random numbers. In a
/// browser there is no source of random numbers; there, only the user who chose the problems would
/// wait longer.
#[derive(Debug, Clone)]
pub(super) struct DrawnPairs(Drawn);

impl Default for DrawnPairs {
    fn default() -> Self {
        let random = RandomState::new();
        let draw = |word: usize, half: u8| random.hash_one((word, half));
        Self(std::array::from_fn(|word| (draw(word, 0), draw(word, 1))))
    }
}

impl BuildHasher for DrawnPairs {
    type Hasher = PairHash;

    fn build_hasher(&self) -> PairHash {
        PairHash { drawn: self.0, word: 0, sum: 0 }
    }
}

/// Splits each word into halves, adds a random number to each half, multiplies both and sums the
/// products up. For two given problems, the upper halves of the sums are equal with a chance of 2⁻³²
/// (Thorup, *High Speed Hashing for Integers and Strings*).
pub(super) struct PairHash {
    drawn: Drawn,
    word: usize,
    sum: u64,
}

impl Hasher for PairHash {
    fn write_u64(&mut self, word: u64) {
        let (upper, lower) = self.drawn[self.word % WORDS];
        let product = upper.wrapping_add(word >> 32).wrapping_mul(lower.wrapping_add(word & 0xffff_ffff));
        self.sum = self.sum.wrapping_add(product);
        self.word += 1;
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    /// Returns the upper half twice, because a map uses bits from both ends.
    fn finish(&self) -> u64 {
        let upper = self.sum >> 32;
        upper << 32 | upper
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(drawn: &DrawnPairs, words: [u64; 3]) -> u64 {
        let mut hasher = drawn.build_hasher();
        words.into_iter().for_each(|word| hasher.write_u64(word));
        hasher.finish()
    }

    #[test]
    fn halves_are_multiplied_and_added_up() {
        let drawn = DrawnPairs([(1 << 32, 1), (5, 1 << 32), (0, 1 << 33)]);
        // (2^32 + 3) (1 + 4) + (5 + 6) (2^32 + 7) + 8 (2^33 + 9): the upper half is 5 + 11 + 16.
        assert_eq!(hash(&drawn, [3 << 32 | 4, 6 << 32 | 7, 8 << 32 | 9]), 32 << 32 | 32);
    }

    #[test]
    fn every_table_draws_its_own_numbers() {
        let problem = [1 << 32 | 512, 512 << 32 | 512, 0];
        let (one, other) = (DrawnPairs::default(), DrawnPairs::default());
        assert_eq!(hash(&one, problem), hash(&one.clone(), problem));
        assert_ne!(hash(&one, problem), hash(&other, problem));
    }
}
