//! Where problems come from: random generators, and the layers of models. From the same seed, a
//! generator gives the same shapes, dtypes and ops as torch-diode's generator, so that datasets of
//! both programs can be compared.

mod log_normal;
mod models;
mod mt19937;
mod narrowed;
mod sampling;
mod uniform;

pub use log_normal::{LogNormal, LogNormalParameters};
pub use models::{Convolution, Transformer, Workload};
pub use narrowed::Narrowed;
pub use sampling::OpSampler;
pub use uniform::{power_of_two, uniform};

use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::{DType, Op, Problem, ProblemFields};

/// The M, N and K of one multiplication.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Sizes {
    pub m: u64,
    pub n: u64,
    pub k: u64,
}

/// How sizes are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Whole numbers from `min` to `max`. No triple of sizes occurs twice.
    Uniform { min: u64, max: u64 },
    /// Powers of two from `min` to `max`. No triple of sizes occurs twice.
    PowerOfTwo { min: u64, max: u64 },
    /// Whole numbers or powers of two, limited to squares or even sizes.
    Narrowed(Narrowed),
    /// Log-normal sizes, rounded to multiples of 8. Triples may repeat.
    LogNormal(LogNormalParameters),
}

/// No collection times this many problems. A larger request is a typing mistake.
pub const MAX_SHAPES: usize = 10_000_000;

/// Draws problems as torch-diode's `collect` does. Sizes come from one random stream. The dtype and
/// op of each shape come from a second stream with the same seed.
///
/// ```
/// use diode_core::shapes::{Distribution, LogNormalParameters, generate};
/// use diode_core::{DType, Op};
///
/// let log_normal = Distribution::LogNormal(LogNormalParameters::default());
/// let problems = generate(log_normal, 42, 1, &[DType::Float16], &[Op::Mm])?;
/// assert_eq!(problems[0].dims(), "2544×296×2016");
/// # Ok::<(), diode_core::Invalid>(())
/// ```
pub fn generate(
    distribution: Distribution,
    seed: u32,
    count: usize,
    dtypes: &[DType],
    ops: &[Op],
) -> Result<Vec<Problem>, Invalid> {
    if count > MAX_SHAPES {
        return Err(Invalid::new("number of shapes", count, format!("at most {MAX_SHAPES}")));
    }
    let sizes = match distribution {
        Distribution::Uniform { min, max } => uniform(seed, count, min, max)?,
        Distribution::PowerOfTwo { min, max } => power_of_two(seed, count, min, max)?,
        Distribution::Narrowed(narrowed) => narrowed.draw(seed, count)?,
        Distribution::LogNormal(parameters) => LogNormal::new(parameters, seed)?.take(count).collect(),
    };
    let mut sampler = OpSampler::new(seed, dtypes, ops)?;
    sizes
        .into_iter()
        .map(|Sizes { m, n, k }| {
            let (dtype, op) = sampler.draw();
            Problem::new(ProblemFields::plain(op, 1, m, n, k, dtype))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(seed: u32) -> Vec<String> {
        let dtypes = [DType::Float16, DType::BFloat16];
        let ops = [Op::Mm, Op::Addmm, Op::Bmm];
        generate(Distribution::LogNormal(LogNormalParameters::default()), seed, 10, &dtypes, &ops)
            .unwrap()
            .iter()
            .map(|p| format!("({},{},{}) {} {}", p.m, p.k, p.n, p.a_dtype, p.op))
            .collect()
    }

    #[test]
    fn log_normal_golden_vectors() {
        assert_eq!(
            drawn(42),
            [
                "(2544,2016,296) float16 mm",
                "(35088,296,248) float16 bmm",
                "(40512,176,1336) bfloat16 mm",
                "(2864,176,168) float16 bmm",
                "(1328,8,16) bfloat16 bmm",
                "(168,976,64) float16 bmm",
                "(72,11824,32) float16 mm",
                "(400,24,416) bfloat16 bmm",
                "(176,40,448) bfloat16 mm",
                "(1872,264,136) bfloat16 addmm",
            ]
        );
        assert_eq!(
            drawn(43),
            [
                "(1376,216,80) float16 mm",
                "(184,200,1552) bfloat16 addmm",
                "(2552,7616,10616) bfloat16 bmm",
                "(232,1328,208) float16 addmm",
                "(8,1440,88) bfloat16 bmm",
                "(520,128,9368) float16 bmm",
                "(48,512,80) bfloat16 mm",
                "(472,208,15336) bfloat16 bmm",
                "(824,392,1616) bfloat16 addmm",
                "(2960,3032,712) bfloat16 bmm",
            ]
        );
    }

    fn mkn(sizes: &[Sizes]) -> Vec<(u64, u64, u64)> {
        sizes.iter().map(|s| (s.m, s.k, s.n)).collect()
    }

    #[test]
    fn uniform_golden_vectors() {
        assert_eq!(
            mkn(&uniform(42, 5, 32, 4096).unwrap()),
            [(2651, 488, 134), (3069, 1158, 1035), (946, 603, 3048), (451, 2803, 3065), (3686, 2265, 388)]
        );
        assert_eq!(
            mkn(&uniform(43, 3, 32, 4096).unwrap()),
            [(189, 1203, 2883), (3155, 621, 3961), (1926, 1547, 2783)]
        );
        assert_eq!(
            mkn(&power_of_two(42, 5, 32, 4096).unwrap()),
            [(64, 32, 512), (256, 256, 128), (64, 64, 2048), (32, 32, 64), (256, 256, 32)]
        );
    }

    #[test]
    fn requests_that_never_end_are_refused() {
        assert!(power_of_two(42, 513, 32, 4096).unwrap_err().to_string().contains("512"));
        assert_eq!(power_of_two(42, 512, 32, 4096).unwrap().len(), 512);
        assert!(uniform(1, 2, 7, 7).is_err());
        assert!(uniform(1, 1, 8, 7).is_err());
    }
}
