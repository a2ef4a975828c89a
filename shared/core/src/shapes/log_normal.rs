//! Log-normal sizes. torch-diode's authors fitted them to real workloads.

use super::Sizes;
use super::mt19937::Mt19937;
use crate::error::Invalid;

/// The mean and standard deviation of each size's logarithm.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LogNormalParameters {
    pub m_mean: f64,
    pub m_std: f64,
    pub n_mean: f64,
    pub n_std: f64,
    pub k_mean: f64,
    pub k_std: f64,
}

impl LogNormalParameters {
    pub const M_MEAN: f64 = 6.572_547_216_432_309_5;
    pub const M_STD: f64 = 2.556_199_441_605_505;
    pub const N_MEAN: f64 = 5.913_930_073_563_466;
    pub const N_STD: f64 = 1.669_681_418_970_24;
    pub const K_MEAN: f64 = 6.204_916_071_423_808;
    pub const K_STD: f64 = 2.164_664_685_609_017_7;
}

impl Default for LogNormalParameters {
    fn default() -> Self {
        Self {
            m_mean: Self::M_MEAN,
            m_std: Self::M_STD,
            n_mean: Self::N_MEAN,
            n_std: Self::N_STD,
            k_mean: Self::K_MEAN,
            k_std: Self::K_STD,
        }
    }
}

/// An endless stream of sizes, the same as with numpy's legacy generator.
pub struct LogNormal {
    parameters: LogNormalParameters,
    mt: Mt19937,
    kept: Option<f64>,
}

impl LogNormal {
    pub fn new(parameters: LogNormalParameters, seed: u32) -> Result<Self, Invalid> {
        let p = &parameters;
        for (name, mean, std) in
            [("m", p.m_mean, p.m_std), ("n", p.n_mean, p.n_std), ("k", p.k_mean, p.k_std)]
        {
            if !mean.is_finite() {
                return Err(Invalid::new(format!("log-normal mean of {name}"), mean, "a finite number"));
            }
            if !(std.is_finite() && std >= 0.0) {
                return Err(Invalid::new(
                    format!("log-normal std of {name}"),
                    std,
                    "a finite number, 0 or more",
                ));
            }
        }
        Ok(Self { parameters, mt: Mt19937::from_word(seed), kept: None })
    }

    /// One normally distributed number. The polar method draws two numbers at once. This function
    /// returns the second one first.
    fn gauss(&mut self) -> f64 {
        if let Some(kept) = self.kept.take() {
            return kept;
        }
        loop {
            let x1 = 2.0 * self.mt.next_f64() - 1.0;
            let x2 = 2.0 * self.mt.next_f64() - 1.0;
            let r2 = x1 * x1 + x2 * x2;
            if r2 < 1.0 && r2 != 0.0 {
                let f = libm::sqrt(-2.0 * libm::log(r2) / r2);
                self.kept = Some(f * x1);
                return f * x2;
            }
        }
    }

    fn size(&mut self, mean: f64, std: f64) -> u64 {
        let drawn = libm::exp(mean + std * self.gauss());
        // `as` truncates toward zero, as Python's int() does.
        round_to_8(drawn as u64)
    }
}

/// The nearest multiple of 8, but at least 8. A tie goes to the even multiple.
fn round_to_8(size: u64) -> u64 {
    let (quotient, rest) = (size / 8, size % 8);
    let up = rest > 4 || (rest == 4 && quotient % 2 == 1);
    // A huge size must not wrap around, so that validation refuses it.
    8_u64.saturating_mul(quotient.saturating_add(u64::from(up))).max(8)
}

impl Iterator for LogNormal {
    type Item = Sizes;

    fn next(&mut self) -> Option<Sizes> {
        let p = self.parameters;
        // torch-diode draws M, N, K in this order, although it writes shapes as (M, K, N).
        let m = self.size(p.m_mean, p.m_std);
        let n = self.size(p.n_mean, p.n_std);
        let k = self.size(p.k_mean, p.k_std);
        Some(Sizes { m, n, k })
    }
}

#[cfg(test)]
mod tests {
    use super::round_to_8;

    #[test]
    fn rounding_is_half_to_even() {
        for (size, rounded) in [
            (0, 8),
            (1, 8),
            (4, 8),
            (12, 16),
            (20, 16),
            (28, 32),
            (1000, 1000),
            (3001, 3000),
            (u64::MAX, u64::MAX),
        ] {
            assert_eq!(round_to_8(size), rounded, "{size}");
        }
    }
}
