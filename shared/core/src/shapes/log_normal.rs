//! Log-normal sizes. torch-diode's authors fitted them to real workloads.

use crate::error::Invalid;
use crate::shapes::Sizes;

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

const N: usize = 624;
const M: usize = 397;

/// The generator's state.
pub(super) struct Mt19937 {
    state: [u32; N],
    next: usize,
}

impl Mt19937 {
    /// Seeds from one number, as `numpy.random.seed(seed)` does.
    pub(super) fn from_word(seed: u32) -> Self {
        let mut state = [0_u32; N];
        state[0] = seed;
        for i in 1..N {
            let previous = state[i - 1];
            state[i] = 1_812_433_253_u32.wrapping_mul(previous ^ (previous >> 30)).wrapping_add(i as u32);
        }
        Self { state, next: N }
    }

    /// Seeds from a key of one number, as CPython's `random.seed(seed)` does.
    pub(super) fn from_key(key: u32) -> Self {
        let mut mt = Self::from_word(19_650_218);
        let state = &mut mt.state;
        let mut i = 1;
        for _ in 0..N {
            let previous = state[i - 1];
            state[i] = (state[i] ^ (previous ^ (previous >> 30)).wrapping_mul(1_664_525)).wrapping_add(key);
            i += 1;
            if i >= N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        for _ in 0..N - 1 {
            let previous = state[i - 1];
            state[i] =
                (state[i] ^ (previous ^ (previous >> 30)).wrapping_mul(1_566_083_941)).wrapping_sub(i as u32);
            i += 1;
            if i >= N {
                state[0] = state[N - 1];
                i = 1;
            }
        }
        state[0] = 0x8000_0000;
        mt
    }

    pub(super) fn next_u32(&mut self) -> u32 {
        if self.next == N {
            self.refill();
        }
        let mut y = self.state[self.next];
        self.next += 1;
        y ^= y >> 11;
        y ^= (y << 7) & 0x9d2c_5680;
        y ^= (y << 15) & 0xefc6_0000;
        y ^ (y >> 18)
    }

    /// A double in [0, 1) with 53 random bits.
    pub(super) fn next_f64(&mut self) -> f64 {
        let high = f64::from(self.next_u32() >> 5);
        let low = f64::from(self.next_u32() >> 6);
        (high * 67_108_864.0 + low) / 9_007_199_254_740_992.0
    }

    fn refill(&mut self) {
        for i in 0..N {
            let y = (self.state[i] & 0x8000_0000) | (self.state[(i + 1) % N] & 0x7fff_ffff);
            let twist = if y & 1 == 0 { 0 } else { 0x9908_b0df };
            self.state[i] = self.state[(i + M) % N] ^ (y >> 1) ^ twist;
        }
        self.next = 0;
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
