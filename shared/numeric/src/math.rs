//! Transcendental functions in plain `f32` arithmetic, eight at a time.
//!
//! The standard library's functions come from the platform and differ between browser and host.
//! These functions are polynomials from Cephes without branches and fused operations, and give the
//! same bits everywhere. The vector type is explicit because the browser's build is optimised for
//! size, where the compiler vectorises nothing.

use wide::{f32x8, u32x8};

/// Adding this to a small `f32` rounds it to an integer in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;

/// ln 2 in two parts. The first part has so few bits that products with it are exact.
const LN_2_HIGH: f32 = 355.0 / 512.0;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// The polynomial for e to the x near 0, after the terms 1 + x. The highest power stands first.
const EXP: [f32; 6] = [1.987_569_1e-4, 1.398_2e-3, 8.333_452e-3, 4.166_579_6e-2, 1.666_666_5e-1, 5e-1];

/// e to the x, with a relative error of at most 2e-7. x is clamped so that the result is a normal
/// number.
#[inline(always)]
pub(crate) fn exp(x: f32x8) -> f32x8 {
    let c = f32x8::splat;
    let x = x.fast_clamp(c(-87.0), c(88.0));
    let shifted = x * c(std::f32::consts::LOG2_E) + c(ROUND);
    let n = shifted - c(ROUND);
    let r = x - n * c(LN_2_HIGH) - n * c(LN_2_LOW);
    let mut p = c(EXP[0]);
    for coefficient in &EXP[1..] {
        p = p * r + c(*coefficient);
    }
    let fraction = p * (r * r) + r + c(1.0);
    // Integer arithmetic on lanes may wrap around.
    let exponent = (shifted.to_bits() - u32x8::splat(ROUND.to_bits()) + u32x8::splat(127)) << 23_u32;
    fraction * f32x8::from_bits(exponent)
}

/// The base-2 logarithm, exact for powers of two. x is clamped to positive normal numbers.
#[inline(always)]
pub(crate) fn log2(x: f32x8) -> f32x8 {
    const SQRT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let c = f32x8::splat;
    let bits = x.fast_clamp(c(f32::MIN_POSITIVE), c(f32::MAX)).to_bits();
    let exponent = (bits - u32x8::splat(SQRT_HALF)).cast_signed() >> 23_i32;
    // The mantissa lies between the square roots of 1/2 and 2.
    let f = f32x8::from_bits(bits - (exponent << 23_i32).cast_unsigned()) - c(1.0);
    let p = c(7.037_683_6e-2);
    let p = p * f - c(1.151_461e-1);
    let p = p * f + c(1.167_699_9e-1);
    let p = p * f - c(1.242_014_1e-1);
    let p = p * f + c(1.424_932_3e-1);
    let p = p * f - c(1.666_805_8e-1);
    let p = p * f + c(2.000_071_5e-1);
    let p = p * f - c(2.499_999_4e-1);
    let p = p * f + c(3.333_333e-1);
    let square = f * f;
    let ln = f + (p * f * square - c(0.5) * square);
    ln * c(std::f32::consts::LOG2_E) + exponent.round_float()
}

/// e to the x for one number, with the same bits as `exp`. In loops the compiler vectorises it,
/// with wider vectors if the processor has them.
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

/// The activation x · sigmoid(x).
#[inline(always)]
pub(crate) fn silu(x: f32x8) -> f32x8 {
    let one = f32x8::splat(1.0);
    x / (one + exp(-x))
}

/// The activation of one number, with the same bits as [`silu`], for vectors wider than eight.
#[cfg(any(test, target_arch = "x86_64"))]
#[inline(always)]
pub(crate) fn silu_of_one(x: f32) -> f32 {
    x / (1.0 + exp_of_one(-x))
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
            worst = worst.max((f64::from(lane(exp, x)) / exact - 1.0).abs());
        }
        assert!(worst < 2e-7, "{worst:e}");
        assert!(lane(exp, -1e9) > 0.0 && lane(exp, 1e9).is_finite());
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
    }

    #[test]
    fn one_number_has_the_bits_of_eight() {
        for step in -95_000..95_000 {
            let x = step as f32 * 1.003e-3;
            assert_eq!(lane(exp, x).to_bits(), exp_of_one(x).to_bits(), "{x}");
            assert_eq!(lane(silu, x).to_bits(), silu_of_one(x).to_bits(), "{x}");
        }
    }
}
