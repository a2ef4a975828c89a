//! Transcendental functions in plain `f32` arithmetic, eight at a time.
//!
//! The standard library's functions come from the platform and differ between browser and host.
//! These functions are polynomials, mostly from Cephes, without branches and fused operations, and give
//! the same bits everywhere. The vector type is explicit because the browser's build is optimised for
//! size, where the compiler vectorises nothing.

use wide::{f32x8, u32x8};

/// Adding this to a small `f32` rounds it to an integer in the low mantissa bits.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts. The first part has so few bits that products with it are exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// The polynomial for e to the x near 0, after the terms 1 + x. The highest power stands first.
const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];

const SQRT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
/// The polynomial for ln(1 + x) near 0, after the terms x - x²/2. The highest power stands first.
const LOG: [f32; 9] = [
    7.037_683_6e-2,
    -1.151_461e-1,
    1.167_699_9e-1,
    -1.242_014_1e-1,
    1.424_932_3e-1,
    -1.666_805_8e-1,
    2.000_071_5e-1,
    -2.499_999_4e-1,
    3.333_333e-1,
];

/// The base-2 logarithm, exact for powers of two. x is clamped to positive normal numbers.
#[inline(always)]
pub(crate) fn log2(x: f32x8) -> f32x8 {
    let c = f32x8::splat;
    let bits = x.fast_clamp(c(f32::MIN_POSITIVE), c(f32::MAX)).to_bits();
    let exponent = (bits - u32x8::splat(SQRT_HALF)).cast_signed() >> 23_i32;
    // The mantissa lies between the square roots of 1/2 and 2.
    let f = f32x8::from_bits(bits - (exponent << 23_i32).cast_unsigned()) - c(1.0);
    let mut p = c(LOG[0]);
    for coefficient in &LOG[1..] {
        p = p * f + c(*coefficient);
    }
    let square = f * f;
    let ln = f + (p * f * square - c(0.5) * square);
    ln * c(std::f32::consts::LOG2_E) + exponent.round_float()
}

/// The base-2 logarithm of one number, with the same bits as [`log2`].
#[inline(always)]
pub(crate) fn log2_of_one(x: f32) -> f32 {
    let bits = x.clamp(f32::MIN_POSITIVE, f32::MAX).to_bits();
    let exponent = bits.wrapping_sub(SQRT_HALF).cast_signed() >> 23;
    let f = f32::from_bits(bits.wrapping_sub((exponent << 23).cast_unsigned())) - 1.0;
    let p = LOG[1..].iter().fold(LOG[0], |p, coefficient| p * f + coefficient);
    let square = f * f;
    let ln = f + (p * f * square - 0.5 * square);
    ln * std::f32::consts::LOG2_E + exponent as f32
}

/// e to the x, with a relative error of at most 2e-7. x is clamped so that the result is a normal
/// number. In loops the compiler vectorises it.
#[inline(always)]
pub fn exp_of_one(x: f32) -> f32 {
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let [a, b, c, d, e, f] = EXP;
    let p = ((((a * r + b) * r + c) * r + d) * r + e) * r + f;
    let fraction = p * (r * r) + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    fraction * f32::from_bits(exponent)
}

/// The polynomial for 2 to the x between -1/2 and 1/2, with the least greatest relative error: 1e-7. The
/// highest power stands first.
pub(crate) const EXP_2: [f32; 6] =
    [1.330_060_5e-3, 9.669_691e-3, 5.550_558_5e-2, 2.402_228_3e-1, std::f32::consts::LN_2, 1.0];
/// Beyond this power of two, the sigmoid is 0 or 1.
pub(crate) const STEEPEST: f32 = 126.0;

/// The activation x · sigmoid(x), with an error of at most 1e-7 or 2e-7 of the result.
///
/// Its power of two is less exact than [`exp_of_one`] where it is small beside 1 or where the result is near 0.
#[inline(always)]
pub(crate) fn silu(x: f32x8) -> f32x8 {
    let c = f32x8::splat;
    let power = (x * c(-std::f32::consts::LOG2_E)).fast_clamp(c(-STEEPEST), c(STEEPEST));
    let shifted = power + c(ROUND);
    let r = power - (shifted - c(ROUND));
    let mut p = c(EXP_2[0]);
    for coefficient in &EXP_2[1..] {
        p = p * r + c(*coefficient);
    }
    // Integer arithmetic on lanes may wrap around.
    x / (c(1.0) + f32x8::from_bits(p.to_bits() + (shifted.to_bits() << 23_u32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane(f: impl Fn(f32x8) -> f32x8, x: f32) -> f32 {
        f(f32x8::splat(x)).to_array()[0]
    }

    #[test]
    fn exp_is_right_to_two_in_ten_million() {
        let mut worst = 0.0_f64;
        for step in -860_000..880_000 {
            let x = step as f32 * 1e-4;
            let exact = libm::exp(f64::from(x));
            worst = worst.max((f64::from(exp_of_one(x)) / exact - 1.0).abs());
        }
        assert!(worst < 2e-7, "{worst:e}");
        assert!(exp_of_one(-1e9) > 0.0 && exp_of_one(1e9).is_finite());
    }

    #[test]
    fn log2_is_right_to_a_few_in_ten_million() {
        for power in -126..128 {
            assert_eq!(lane(log2, libm::exp2f(power as f32)), power as f32);
        }
        let mut x = 1e-30_f32;
        while x < 1e30 {
            let exact = libm::log2(f64::from(x));
            let error = (f64::from(lane(log2, x)) - exact).abs();
            assert!(error < 3e-7 * exact.abs().max(1.0), "{x:e}: {error:e}");
            x *= 1.0007;
        }
        assert!(lane(log2, 0.0).is_finite());
    }

    #[test]
    fn silu_has_its_known_values() {
        assert_eq!(lane(silu, 0.0), 0.0);
        assert!((lane(silu, 1.0) - 0.731_058_6).abs() < 1e-6);
        assert!(lane(silu, -100.0).abs() < 1e-30);
        for step in -300_000..300_000 {
            let x = step as f32 * 1e-4;
            let exact = f64::from(x) / (1.0 + libm::exp(-f64::from(x)));
            let error = (f64::from(lane(silu, x)) - exact).abs();
            assert!(error < (2e-7 * exact.abs()).max(1e-7), "{x}: {error:e}");
        }
    }

    #[test]
    fn one_number_has_the_bits_of_eight() {
        for step in -95_000..95_000 {
            let x = step as f32 * 1.003e-3;
            let power = exp_of_one(x);
            assert_eq!(lane(log2, power).to_bits(), log2_of_one(power).to_bits(), "{power}");
        }
    }
}
