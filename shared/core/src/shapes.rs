//! Where problems come from: random generators, and the layers of models. From the same seed, a
//! generator gives the same shapes, dtypes and ops as torch-diode's generator, so that datasets of
//! both programs can be compared.

mod log_normal;
mod models;

use indexmap::IndexSet;
use serde::{Deserialize, Serialize};

use crate::error::Invalid;
use crate::shapes::log_normal::Mt19937;
use crate::{DType, Op, Problem, ProblemFields};

pub use crate::shapes::log_normal::{LogNormal, LogNormalParameters};
pub use crate::shapes::models::{Convolution, Transformer, Workload};

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

/// For each shape in turn, draws a dtype and then an op.
pub struct OpSampler<'a> {
    mt: Mt19937,
    dtypes: &'a [DType],
    ops: &'a [Op],
}

impl<'a> OpSampler<'a> {
    pub fn new(seed: u32, dtypes: &'a [DType], ops: &'a [Op]) -> Result<Self, Invalid> {
        if dtypes.is_empty() {
            return Err(Invalid::new("dtypes", "none", "at least one"));
        }
        if ops.is_empty() {
            return Err(Invalid::new("ops", "none", "at least one"));
        }
        Ok(Self { mt: Mt19937::from_word(seed), dtypes, ops })
    }

    pub fn draw(&mut self) -> (DType, Op) {
        let dtype = self.dtypes[self.choice(self.dtypes.len())];
        let op = self.ops[self.choice(self.ops.len())];
        (dtype, op)
    }

    /// Draws an index by masking and rejection. A list with one element uses no random number.
    fn choice(&mut self, n: usize) -> usize {
        let last = n as u32 - 1;
        if last == 0 {
            return 0;
        }
        let mask = (last + 1).next_power_of_two() - 1;
        loop {
            let drawn = self.mt.next_u32() & mask;
            if drawn <= last {
                return drawn as usize;
            }
        }
    }
}

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

fn check_range(min: u64, max: u64) -> Result<(), Invalid> {
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
fn check_count(count: usize, choices: u128) -> Result<(), Invalid> {
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
fn randint(mt: &mut Mt19937, low: u64, high: u64) -> u64 {
    let n = high - low + 1;
    let bits = u64::BITS - n.leading_zeros();
    loop {
        let drawn = u64::from(mt.next_u32() >> (32 - bits));
        if drawn < n {
            return low + drawn;
        }
    }
}

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
    fn draw(&self, seed: u32, count: usize) -> Result<Vec<Sizes>, Invalid> {
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

#[cfg(test)]
mod narrowed_tests {
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
