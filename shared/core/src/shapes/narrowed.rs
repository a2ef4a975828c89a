//! Uniform sizes that are limited to squares or even numbers.

use indexmap::IndexSet;

use super::Sizes;
use super::mt19937::Mt19937;
use super::uniform::{check_count, check_range, randint};
use crate::error::Invalid;

/// Uniform sizes or powers of two, narrowed down. torch-diode's flags for this do nothing, so it
/// draws no sizes that ours could match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Narrowed {
    pub min: u64,
    pub max: u64,
    /// Draws exponents instead of sizes.
    pub powers_of_two: bool,
    /// Makes M, N and K the same number.
    pub square: bool,
    /// Leaves odd sizes out.
    pub even: bool,
}

impl Narrowed {
    /// Draws distinct sizes: one number for each square, otherwise M, K and N in turn.
    pub(super) fn draw(&self, seed: u32, count: usize) -> Result<Vec<Sizes>, Invalid> {
        let (low, high) = self.numbers()?;
        check_count(count, u128::from(high - low + 1).pow(if self.square { 1 } else { 3 }))?;
        let mut mt = Mt19937::from_key(seed);
        let mut size = || self.size(randint(&mut mt, low, high));
        let mut shapes = IndexSet::with_capacity(count);
        while shapes.len() < count {
            let m = size();
            let (k, n) = if self.square { (m, m) } else { (size(), size()) };
            shapes.insert(Sizes { m, n, k });
        }
        Ok(shapes.into_iter().collect())
    }

    /// The range of the numbers to draw: exponents, halves of sizes, or sizes.
    fn numbers(&self) -> Result<(u64, u64), Invalid> {
        check_range(self.min, self.max)?;
        let (low, high) = match (self.powers_of_two, self.even) {
            // The only odd power of two is 1, with the exponent 0.
            (true, even) => (u64::from(self.min.ilog2()).max(u64::from(even)), u64::from(self.max.ilog2())),
            (false, true) => (self.min.div_ceil(2), self.max / 2),
            (false, false) => (self.min, self.max),
        };
        if low > high {
            let range = format_args!("{} to {}", self.min, self.max);
            return Err(Invalid::new("size range", range, "a range with an even size in it"));
        }
        Ok((low, high))
    }

    fn size(&self, number: u64) -> u64 {
        match (self.powers_of_two, self.even) {
            (true, _) => 1 << number,
            (false, true) => 2 * number,
            (false, false) => number,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::{power_of_two, uniform};

    const ALL: Narrowed = Narrowed { min: 32, max: 4096, powers_of_two: false, square: false, even: false };

    #[test]
    fn squares_are_square_and_even_sizes_even() {
        let squares = Narrowed { square: true, ..ALL }.draw(42, 5).unwrap();
        assert!(squares.iter().all(|s| s.m == s.n && s.n == s.k), "{squares:?}");
        // This number is also the first M of the stream without limits.
        assert_eq!(squares[0].m, 2651);
        let even = Narrowed { even: true, ..ALL }.draw(42, 200).unwrap();
        assert!(even.iter().all(|s| [s.m, s.n, s.k].iter().all(|&x| x % 2 == 0 && (32..=4096).contains(&x))));
        let both = Narrowed { square: true, even: true, min: 1, max: 5, ..ALL }.draw(1, 2).unwrap();
        assert_eq!(both.iter().map(|s| s.m).sum::<u64>(), 6, "2 and 4: {both:?}");
        let powers = Narrowed { powers_of_two: true, even: true, min: 1, max: 2, ..ALL }.draw(1, 1).unwrap();
        assert_eq!(powers, [Sizes { m: 2, n: 2, k: 2 }]);
    }

    #[test]
    fn nothing_narrowed_is_the_plain_stream() {
        assert_eq!(ALL.draw(42, 20), uniform(42, 20, 32, 4096));
        assert_eq!(Narrowed { powers_of_two: true, ..ALL }.draw(42, 20), power_of_two(42, 20, 32, 4096));
    }

    #[test]
    fn what_cannot_be_drawn_is_refused() {
        let error = Narrowed { square: true, min: 1, max: 8, ..ALL }.draw(1, 9).unwrap_err();
        assert!(error.to_string().contains("at most 8"), "{error}");
        let error = Narrowed { even: true, min: 7, max: 7, ..ALL }.draw(1, 1).unwrap_err();
        assert_eq!(error.to_string(), "size range: got 7 to 7, expected a range with an even size in it");
        assert!(Narrowed { powers_of_two: true, even: true, min: 1, max: 1, ..ALL }.draw(1, 1).is_err());
    }
}
