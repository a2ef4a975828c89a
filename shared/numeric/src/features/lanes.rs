//! Simple arithmetic on eight configs at once.

use wide::f32x8;

/// The same value for every config.
#[inline(always)]
pub(super) fn all(value: f32) -> f32x8 {
    f32x8::splat(value)
}

/// 1 where a comparison is true, 0 elsewhere.
#[inline(always)]
pub(super) fn flag(mask: f32x8) -> f32x8 {
    mask & all(1.0)
}

/// From this number on, every `f32` is a whole number.
const WHOLE: f32 = 8_388_608.0;

/// Rounds to the nearest whole number. The vector crate's own rounding differs from processor to
/// processor.
#[inline(always)]
fn nearest(x: f32x8) -> f32x8 {
    let near = (x + all(WHOLE)) - all(WHOLE);
    x.simd_lt(all(WHOLE)).select(near, x)
}

/// Rounds up. `x` must not be negative.
#[inline(always)]
pub(super) fn ceil(x: f32x8) -> f32x8 {
    let near = nearest(x);
    near + flag(near.simd_lt(x))
}

/// Rounds down. `x` must not be negative.
#[inline(always)]
pub(super) fn floor(x: f32x8) -> f32x8 {
    let near = nearest(x);
    near - flag(near.simd_gt(x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_is_that_of_the_standard_library() {
        let mut x = 0.0_f32;
        while x < 1e12 {
            for value in [x, x.round(), x.round() + 0.5] {
                assert_eq!(ceil(all(value)).to_array()[0], value.ceil(), "{value}");
                assert_eq!(floor(all(value)).to_array()[0], value.floor(), "{value}");
            }
            x = x * 1.01 + 0.001;
        }
    }
}
