//! The flags that describe models. The models' layers are the problems.

use clap::Args;
use diode_core::shapes::{Convolution, Transformer, Workload};
use diode_core::{DType, Invalid, Problem};

use crate::input::arguments::size;

/// The flags that draw sizes. They are refused together with a model, which has sizes of its own.
const DRAWING: [&str; 8] = [
    "num_shapes",
    "power_of_two",
    "log_normal",
    "min_size",
    "max_size",
    "no_rectangular",
    "no_odd_sizes",
    "ops",
];

/// The layers of models, one problem each, with B in columns as `nn.Linear` has it.
#[derive(Debug, Args)]
#[command(next_help_heading = "Problems of a model")]
pub(super) struct ModelArgs {
    /// Take the linear layers of a transformer: hidden, intermediate and heads, and
    /// where they differ from the usual kv_heads and head_dim; vocab for the last layer
    #[arg(long, value_name = "NAME=SIZE,…", conflicts_with_all = DRAWING)]
    transformer: Vec<Transformer>,

    /// Tokens per prompt that the transformer reads at once, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "transformer", value_parser = size, default_values_t = [512, 2048, 8192])]
    prefill_tokens: Vec<u64>,

    /// Sequences that the transformer continues at once, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "transformer", value_parser = size, default_values_t = [1, 8, 32, 128])]
    decode_batches: Vec<u64>,

    /// Devices that share every layer of the transformer
    #[arg(long, value_name = "N", requires = "transformer", default_value_t = 1, value_parser = size)]
    tensor_parallel: u64,

    /// Take a convolution of square images, unrolled to a multiplication: in, out,
    /// kernel and size, and where they differ from 1 and 0 stride and padding
    #[arg(long, value_name = "NAME=SIZE,…", conflicts_with_all = DRAWING)]
    convolution: Vec<Convolution>,

    /// Images that the convolution sees at once, separated by commas
    #[arg(long, value_name = "N,…", value_delimiter = ',', requires = "convolution", value_parser = size, default_values_t = [1, 32])]
    images: Vec<u64>,
}

impl ModelArgs {
    /// Whether a model is described.
    pub(super) fn any(&self) -> bool {
        !self.transformer.is_empty() || !self.convolution.is_empty()
    }

    /// Every layer in each of these types.
    pub(super) fn problems(&self, dtypes: &[DType]) -> Result<Vec<Problem>, Invalid> {
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
