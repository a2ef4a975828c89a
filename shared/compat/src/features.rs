//! The inputs of torch-diode's networks.
//!
//! torch-diode's mistakes are repeated here, because weights only fit the inputs that they were
//! trained on. In the set of 36 features, every type but float16 counts as 32 bits, the products of
//! sizes leave the batch out, and K has no logarithm.

use diode_core::{DType, Problem, Tile};

/// One of torch-diode's two feature sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PredecessorFeatures {
    /// The set of v1: 7 features of the problem and 5 of the config.
    Twelve,
    /// The set of base and deep: 17 features of the problem and 19 of the config.
    ThirtySix,
}

impl PredecessorFeatures {
    /// The numbers of columns for the problem and for the config.
    pub const fn counts(self) -> (usize, usize) {
        match self {
            Self::Twelve => (7, 5),
            Self::ThirtySix => (17, 19),
        }
    }

    pub const fn count(self) -> usize {
        self.counts().0 + self.counts().1
    }

    /// The name and version of these features in our files.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Twelve => "torch-diode-12/1",
            Self::ThirtySix => "torch-diode-36/1",
        }
    }
}

/// How the features reach v1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Feeding {
    /// As in its training: as scaled logarithms.
    #[default]
    Right,
    /// As in torch-diode's plug-in for Inductor: unscaled, with bfloat16 as 32 bits.
    AsThePlugIn,
}

/// v1's columns, with the mean and deviation of each logarithm in its training data.
const V1_SCALES: [(f64, f64); 12] = [
    (2.782_750_84, 0.083_227_56),  // bits of an element
    (8.239_967_46, 2.318_934_39),  // M
    (7.277_918_73, 1.656_055_74),  // N
    (7.920_359_42, 2.154_470_78),  // K
    (-2.395_581_63, 2.196_828_81), // GB of all matrices
    (3.406_792_33, 2.996_008_06),  // Gflop
    (5.802_373_95, 1.243_287_95),  // flops per byte
    (3.957_818_27, 0.923_525_21),  // block_k
    (4.194_783_21, 0.938_498_02),  // block_m
    (4.190_982_34, 0.938_720_11),  // block_n
    (0.904_590_9, 0.574_558_91),   // num_stages
    (1.283_312_08, 0.583_721_7),   // num_warps
];

/// The 12 columns of v1.
pub fn twelve(problem: &Problem, tile: &Tile, feeding: Feeding) -> [f32; 12] {
    let bits = match feeding {
        Feeding::Right => (problem.a_dtype.size() * 8) as f64,
        Feeding::AsThePlugIn => bits_or_32(problem.a_dtype),
    };
    let work = Arithmetic::of(problem, bits);
    let columns = [
        bits,
        problem.m as f64,
        problem.n as f64,
        problem.k as f64,
        work.gb,
        work.gflop,
        work.flops_per_byte,
        tile.block_k.into(),
        tile.block_m.into(),
        tile.block_n.into(),
        tile.num_stages.into(),
        tile.num_warps.into(),
    ];
    match feeding {
        Feeding::AsThePlugIn => columns.map(|value| value as f32),
        Feeding::Right => {
            let mut scaled = [0.0; 12];
            for (index, ((out, value), (mean, std))) in
                scaled.iter_mut().zip(columns).zip(V1_SCALES).enumerate()
            {
                // In training, these two columns were rounded before their logarithm was taken.
                let value = if matches!(index, 4 | 5) { f64::from(value as f32) } else { value };
                *out = ((libm::log(value) - mean) / std) as f32;
            }
            scaled
        }
    }
}

/// The 36 columns of base and deep.
pub fn thirty_six(problem: &Problem, tile: &Tile) -> [f32; 36] {
    let (p, c) = (thirty_six_problem(problem), thirty_six_config(tile));
    let mut row = [0.0; 36];
    row[..17].copy_from_slice(&p);
    row[17..].copy_from_slice(&c);
    row
}

fn thirty_six_problem(problem: &Problem) -> [f32; 17] {
    let (m, n, k) = (problem.m as f64, problem.n as f64, problem.k as f64);
    let bits = bits_or_32(problem.a_dtype);
    let work = Arithmetic::of(problem, bits);
    let columns = [
        m,
        n,
        k,
        problem.b as f64,
        bits,
        work.gb,
        work.gflop,
        work.flops_per_byte,
        m / n,
        m / k,
        n / k,
        m * n,
        m * k,
        n * k,
        m * n * k,
        libm::log(m),
        libm::log(n),
    ];
    columns.map(|value| value as f32)
}

fn thirty_six_config(tile: &Tile) -> [f32; 19] {
    let [bm, bn, bk, warps] = [tile.block_m, tile.block_n, tile.block_k, tile.num_warps].map(f64::from);
    let flag = |set: bool| f64::from(u8::from(set));
    let columns = [
        bm,
        bn,
        bk,
        tile.group_m.into(),
        tile.num_stages.into(),
        warps,
        flag(tile.even_k),
        flag(tile.allow_tf32),
        flag(tile.use_fast_accum),
        bm * bn,
        bm * bk,
        bn * bk,
        bm * bn * bk,
        warps * 32.0,
        bm / warps,
        bn / warps,
        libm::log(bm),
        libm::log(bn),
        libm::log(bk),
    ];
    columns.map(|value| value as f32)
}

/// The width that torch-diode takes a type to have.
fn bits_or_32(dtype: DType) -> f64 {
    if dtype == DType::Float16 { 16.0 } else { 32.0 }
}

struct Arithmetic {
    gb: f64,
    gflop: f64,
    flops_per_byte: f64,
}

impl Arithmetic {
    /// The figures of one matrix of the batch, since torch-diode's features leave the batch out.
    fn of(problem: &Problem, bits: f64) -> Self {
        let (m, n, k) = (problem.m as f64, problem.n as f64, problem.k as f64);
        let gb = (m * k + k * n + m * n) * (bits / 8.0) / 1e9;
        let gflop = 2.0 * m * n * k / 1e9;
        Self { gb, gflop, flops_per_byte: gflop / gb }
    }
}
