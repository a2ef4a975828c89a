//! The flags that say how problems are drawn.

use clap::Args;
use diode_core::shapes::{
    Convolution, Distribution, LogNormalParameters, Narrowed, Transformer, Workload, generate,
};
use diode_core::{DType, Invalid, Op, Problem};

use crate::failure::Usage;
use crate::input::arguments::{dtype, real, size, whole};

/// The flags that describe a model, whose layers have sizes of their own.
const LAYERS: [&str; 2] = ["transformer", "convolution"];

/// How problems are drawn: sizes are uniform unless another distribution is chosen,
/// and those of a model where one is described.
#[derive(Debug, Args)]
#[command(next_help_heading = "Drawn problems")]
pub(crate) struct GeneratorArgs {
    /// Seed of the generators; the same seed gives the same problems everywhere
    #[arg(long, default_value_t = 42, value_parser = whole::<u32>)]
    pub(crate) seed: u32,

    /// How many problems to draw
    #[arg(long, default_value_t = 10, value_name = "N", conflicts_with_all = LAYERS, value_parser = whole::<usize>)]
    num_shapes: usize,

    /// Draw powers of two
    #[arg(long, conflicts_with = "log_normal", conflicts_with_all = LAYERS)]
    power_of_two: bool,

    /// Draw from log-normal distributions fitted to real workloads
    #[arg(long, conflicts_with_all = LAYERS)]
    log_normal: bool,

    /// Smallest size [default: 32]
    #[arg(long, value_name = "SIZE", conflicts_with = "log_normal", conflicts_with_all = LAYERS, value_parser = whole::<u64>)]
    min_size: Option<u64>,

    /// Largest size [default: 4096]
    #[arg(long, value_name = "SIZE", conflicts_with = "log_normal", conflicts_with_all = LAYERS, value_parser = whole::<u64>)]
    max_size: Option<u64>,

    /// Draw squares only: M, N and K are the same
    #[arg(long, conflicts_with = "log_normal", conflicts_with_all = LAYERS)]
    no_rectangular: bool,

    /// Draw even sizes only (log-normal sizes always are)
    #[arg(long, conflicts_with_all = LAYERS)]
    no_odd_sizes: bool,

    /// Input types to draw from, separated by commas [default: float16,bfloat16; of models: bfloat16]
    #[arg(long, alias = "dtype", value_name = "DTYPES", value_delimiter = ',', num_args = 1.., value_parser = dtype)]
    dtypes: Vec<DType>,

    /// Operators to draw from, separated by commas [default: mm,addmm,bmm]
    #[arg(long, aliases = ["op", "operations"], value_name = "OPS", value_delimiter = ',', num_args = 1.., conflicts_with_all = LAYERS)]
    pub(crate) ops: Vec<Op>,

    #[command(flatten)]
    log_normal_parameters: LogNormalArgs,

    #[command(flatten)]
    models: ModelArgs,
}

/// Means and standard deviations of the logarithms; they need `--log-normal`.
#[derive(Debug, Args)]
#[command(next_help_heading = "Log-normal parameters")]
struct LogNormalArgs {
    /// Mean of ln M [default: 6.57]
    #[arg(long, value_name = "X", requires = "log_normal", value_parser = real, default_value_t = LogNormalParameters::M_MEAN, hide_default_value = true)]
    log_normal_m_mean: f64,
    /// Standard deviation of ln M [default: 2.56]
    #[arg(long, value_name = "X", requires = "log_normal", value_parser = real, default_value_t = LogNormalParameters::M_STD, hide_default_value = true)]
    log_normal_m_std: f64,
    /// Mean of ln N [default: 5.91]
    #[arg(long, value_name = "X", requires = "log_normal", value_parser = real, default_value_t = LogNormalParameters::N_MEAN, hide_default_value = true)]
    log_normal_n_mean: f64,
    /// Standard deviation of ln N [default: 1.67]
    #[arg(long, value_name = "X", requires = "log_normal", value_parser = real, default_value_t = LogNormalParameters::N_STD, hide_default_value = true)]
    log_normal_n_std: f64,
    /// Mean of ln K [default: 6.20]
    #[arg(long, value_name = "X", requires = "log_normal", value_parser = real, default_value_t = LogNormalParameters::K_MEAN, hide_default_value = true)]
    log_normal_k_mean: f64,
    /// Standard deviation of ln K [default: 2.16]
    #[arg(long, value_name = "X", requires = "log_normal", value_parser = real, default_value_t = LogNormalParameters::K_STD, hide_default_value = true)]
    log_normal_k_std: f64,
}

impl GeneratorArgs {
    /// Draws the problems. Problems that cannot be drawn count as a mistake in the flags.
    pub(crate) fn problems(&self) -> Result<Vec<Problem>, Usage> {
        if self.models.any() {
            let dtypes = or_default(&self.dtypes, &[DType::BFloat16]);
            return self.models.problems(dtypes).map_err(Usage::new);
        }
        self.problems_of(self.seed, self.num_shapes)
    }

    /// Problems to judge a model by that learns from [`Self::problems`]. They are drawn in the same way
    /// with the next seed. If they are layers of a model, the training must leave them out.
    pub(crate) fn problems_to_judge_by(&self, count: usize) -> Result<Vec<Problem>, Usage> {
        if self.models.any() {
            return held_out(self.problems()?, count);
        }
        self.problems_of(self.seed.wrapping_add(1), count)
    }

    /// Whether the problems are the layers of a model. Then no others can be drawn beside them.
    pub(crate) fn of_a_model(&self) -> bool {
        self.models.any()
    }

    fn problems_of(&self, seed: u32, count: usize) -> Result<Vec<Problem>, Usage> {
        let dtypes = or_default(&self.dtypes, &[DType::Float16, DType::BFloat16]);
        let ops = or_default(&self.ops, &[Op::Mm, Op::Addmm, Op::Bmm]);
        if let Some(op) = ops.iter().find(|op| !op.is_plain()) {
            return Err(Usage::new(format!(
                "--ops: got {op}, whose sizes are those of a model; list such problems in a file, as in \
                 `16x4096x14336 fp8 row`"
            )));
        }
        generate(self.distribution(), seed, count, dtypes, ops).map_err(Usage::new)
    }

    fn distribution(&self) -> Distribution {
        if self.log_normal {
            let p = &self.log_normal_parameters;
            return Distribution::LogNormal(LogNormalParameters {
                m_mean: p.log_normal_m_mean,
                m_std: p.log_normal_m_std,
                n_mean: p.log_normal_n_mean,
                n_std: p.log_normal_n_std,
                k_mean: p.log_normal_k_mean,
                k_std: p.log_normal_k_std,
            });
        }
        let (min, max) = (self.min_size.unwrap_or(32), self.max_size.unwrap_or(4096));
        match (self.power_of_two, self.no_rectangular || self.no_odd_sizes) {
            (false, false) => Distribution::Uniform { min, max },
            (true, false) => Distribution::PowerOfTwo { min, max },
            (powers_of_two, true) => Distribution::Narrowed(Narrowed {
                min,
                max,
                powers_of_two,
                square: self.no_rectangular,
                even: self.no_odd_sizes,
            }),
        }
    }
}

/// Holds out at most one problem in this many, so that enough problems are left to learn from.
const HELD_OUT_SHARE: usize = 4;

/// The first problems in the order of their ids. That order is the same everywhere and does not depend on
/// sizes.
fn held_out(mut problems: Vec<Problem>, count: usize) -> Result<Vec<Problem>, Usage> {
    if problems.len() < HELD_OUT_SHARE {
        return Err(Usage::new(format!(
            "problems of the model: got {}, expected at least {HELD_OUT_SHARE}, so that some can be held out to judge by",
            problems.len()
        )));
    }
    problems.sort_by_cached_key(Problem::id);
    problems.truncate(count.min(problems.len() / HELD_OUT_SHARE));
    Ok(problems)
}

fn or_default<'a, T>(given: &'a [T], default: &'a [T]) -> &'a [T] {
    if given.is_empty() { default } else { given }
}

/// The layers of models, one problem each, with B in columns as `nn.Linear` has it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Problems of a model by its sizes")]
pub(crate) struct ModelArgs {
    /// Take the linear layers of a transformer: hidden, intermediate and heads, and
    /// where they differ from the usual kv_heads and head_dim; vocab for the last layer
    #[arg(long, value_name = "NAME=SIZE,…")]
    transformer: Vec<Transformer>,

    /// Tokens per prompt that the transformer reads at once, separated by commas [default: 512,2048,8192]
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "transformer", value_parser = size, default_values_t = [512, 2048, 8192], hide_default_value = true)]
    prefill_tokens: Vec<u64>,

    /// Sequences that the transformer continues at once, separated by commas [default: 1,8,32,128]
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "transformer", value_parser = size, default_values_t = [1, 8, 32, 128], hide_default_value = true)]
    decode_batches: Vec<u64>,

    /// Devices that share every layer of the transformer
    #[arg(long, value_name = "N", requires = "transformer", default_value_t = 1, value_parser = size)]
    tensor_parallel: u64,

    /// Take a convolution of square images, unrolled to a multiplication: in, out,
    /// kernel and size, and where they differ from 1 and 0 stride and padding
    #[arg(long, value_name = "NAME=SIZE,…")]
    convolution: Vec<Convolution>,

    /// Images that the convolution sees at once, separated by commas [default: 1,32]
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "convolution", value_parser = size, default_values_t = [1, 32], hide_default_value = true)]
    images: Vec<u64>,
}

impl ModelArgs {
    /// Whether a model is described.
    pub(crate) fn any(&self) -> bool {
        !self.transformer.is_empty() || !self.convolution.is_empty()
    }

    /// Every layer in each of these types.
    pub(crate) fn problems(&self, dtypes: &[DType]) -> Result<Vec<Problem>, Invalid> {
        let workload = Workload {
            prefill_tokens: self.prefill_tokens.clone(),
            decode_batches: self.decode_batches.clone(),
            tensor_parallel: self.tensor_parallel,
        };
        let mut problems = Vec::new();
        for &dtype in dtypes {
            for transformer in &self.transformer {
                problems.extend(transformer.problems(&workload, dtype)?);
            }
            for convolution in &self.convolution {
                for &images in &self.images {
                    problems.push(convolution.problem(images, dtype)?);
                }
            }
        }
        let mut seen = std::collections::HashSet::new();
        problems.retain(|problem| seen.insert(problem.clone()));
        Ok(problems)
    }
}
