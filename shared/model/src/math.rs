//! Transcendental functions in plain `f32` arithmetic.
//!
//! The standard library's come from the platform and differ between browser and
//! host. These are branch-free polynomials (Cephes'), so that loops over them
//! vectorise, and give the same bits everywhere.

/// Adding this to a small `f32` rounds it to an integer in the low mantissa bits.
const ROUND: f32 = 12_582_912.0;

/// e to the x, to 2e-7 relative; x is clamped to where the result is a normal number.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // ln 2 in two parts: the first has so few bits that its products are exact.
    const LN_2_HIGH: f32 = 355.0 / 512.0;
    const LN_2_LOW: f32 = -2.121_944_4e-4;
    let x = x.clamp(-87.0, 88.0);
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = x - n * LN_2_HIGH - n * LN_2_LOW;
    let p = 1.987_569_1e-4;
    let p = p * r + 1.398_2e-3;
    let p = p * r + 8.333_452e-3;
    let p = p * r + 4.166_579_6e-2;
    let p = p * r + 1.666_666_5e-1;
    let p = p * r + 5e-1;
    let fraction = p * (r * r) + r + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(ROUND.to_bits()).wrapping_add(127) << 23;
    fraction * f32::from_bits(exponent)
}

/// The base-2 logarithm, exact for powers of two; x is clamped to the positive normal numbers.
#[inline(always)]
pub(crate) fn log2(x: f32) -> f32 {
    const SQRT_HALF: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let bits = x.clamp(f32::MIN_POSITIVE, f32::MAX).to_bits();
    let exponent = (bits.wrapping_sub(SQRT_HALF) as i32) >> 23;
    // The mantissa, between the square roots of 1/2 and 2.
    let f = f32::from_bits(bits.wrapping_sub((exponent << 23) as u32)) - 1.0;
    let p = 7.037_683_6e-2;
    let p = p * f - 1.151_461e-1;
    let p = p * f + 1.167_699_9e-1;
    let p = p * f - 1.242_014_1e-1;
    let p = p * f + 1.424_932_3e-1;
    let p = p * f - 1.666_805_8e-1;
    let p = p * f + 2.000_071_5e-1;
    let p = p * f - 2.499_999_4e-1;
    let p = p * f + 3.333_333e-1;
    let square = f * f;
    let ln = f + (p * f * square - 0.5 * square);
    ln * std::f32::consts::LOG2_E + exponent as f32
}

/// The activation x · sigmoid(x).
#[inline(always)]
pub(crate) fn silu(x: f32) -> f32 {
    x / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_right_to_two_in_ten_million() {
        let mut worst = 0.0_f64;
        for step in -860_000..880_000 {
            let x = step as f32 * 1e-4;
            let exact = libm::exp(f64::from(x));
            worst = worst.max((f64::from(exp(x)) / exact - 1.0).abs());
        }
        assert!(worst < 2e-7, "{worst:e}");
        assert!(exp(-1e9) > 0.0 && exp(1e9).is_finite());
    }

    #[test]
    fn log2_is_right_to_a_few_in_ten_million() {
        for power in -126..128 {
            assert_eq!(log2(libm::exp2f(power as f32)), power as f32);
        }
        let mut x = 1e-30_f32;
        while x < 1e30 {
            let exact = libm::log2(f64::from(x));
            let error = (f64::from(log2(x)) - exact).abs();
            assert!(error < 3e-7 * exact.abs().max(1.0), "{x:e}: {error:e}");
            x *= 1.0007;
        }
        assert!(log2(0.0).is_finite());
    }

    #[test]
    fn silu_has_its_known_values() {
        assert_eq!(silu(0.0), 0.0);
        assert!((silu(1.0) - 0.731_058_6).abs() < 1e-6);
        assert!(silu(-100.0).abs() < 1e-30);
    }
}
