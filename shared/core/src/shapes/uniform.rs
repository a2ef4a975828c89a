//! Uniform sizes, drawn as by CPython's `random.randint`.

use indexmap::IndexSet;

use super::Sizes;
use super::mt19937::Mt19937;
use crate::Problem;
use crate::error::Invalid;

/// Distinct triples of whole numbers from `min` to `max`.
pub fn uniform(seed: u32, count: usize, min: u64, max: u64) -> Result<Vec<Sizes>, Invalid> {
    check_range(min, max)?;
    distinct(seed, count, min, max, |drawn| drawn)
}

/// Distinct triples of powers of two. The exponents are uniform between those of `min` and `max`.
pub fn power_of_two(seed: u32, count: usize, min: u64, max: u64) -> Result<Vec<Sizes>, Invalid> {
    check_range(min, max)?;
    distinct(seed, count, u64::from(min.ilog2()), u64::from(max.ilog2()), |exponent| 1 << exponent)
}

pub(super) fn check_range(min: u64, max: u64) -> Result<(), Invalid> {
    if min == 0 || max < min || max > Problem::MAX_DIM {
        return Err(Invalid::new(
            "size range",
            format_args!("{min} to {max}"),
            format!("1 <= min <= max <= {}", Problem::MAX_DIM),
        ));
    }
    Ok(())
}

/// Refuses more shapes than there are distinct ones, because drawing them would never end.
pub(super) fn check_count(count: usize, choices: u128) -> Result<(), Invalid> {
    if count as u128 > choices {
        return Err(Invalid::new(
            "number of shapes",
            count,
            format!("at most {choices}, the number of distinct shapes there are"),
        ));
    }
    Ok(())
}

fn distinct(
    seed: u32,
    count: usize,
    low: u64,
    high: u64,
    size: impl Fn(u64) -> u64,
) -> Result<Vec<Sizes>, Invalid> {
    check_count(count, u128::from(high - low + 1).pow(3))?;
    let mut mt = Mt19937::from_key(seed);
    let mut shapes = IndexSet::with_capacity(count);
    while shapes.len() < count {
        let m = size(randint(&mut mt, low, high));
        let k = size(randint(&mut mt, low, high));
        let n = size(randint(&mut mt, low, high));
        shapes.insert(Sizes { m, n, k });
    }
    Ok(shapes.into_iter().collect())
}

/// A number as CPython's `random.randint` draws it: as many top bits as the range needs, drawn
/// again until the number is in range.
pub(super) fn randint(mt: &mut Mt19937, low: u64, high: u64) -> u64 {
    let n = high - low + 1;
    let bits = u64::BITS - n.leading_zeros();
    loop {
        let drawn = u64::from(mt.next_u32() >> (32 - bits));
        if drawn < n {
            return low + drawn;
        }
    }
}
