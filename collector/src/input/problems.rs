//! Where problems come from: texts, lists in any form, models by name, or flags that name one problem.

mod list;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::bail;
use clap::Args;
use diode_core::hardware::Hardware;
use diode_core::problem::{ProblemWords, begins_problem};
use diode_core::{Bias, DType, Groups, Invalid, Layout, Op, Problem, ProblemFields, Scaling, Stage};
use diode_workloads::layers::Serving;
use diode_workloads::named::Named;
use diode_workloads::served::{Reader, has_kernels};
use diode_workloads::{catalogue, model_config::Quantization};
use serde::Serialize;

use crate::failure::Usage;
use crate::input::arguments::{dtype, size, whole};
use crate::input::generator::ModelArgs;
use crate::input::models::this_gpu;
use crate::input::served::{config_path, quantization};
use crate::output::count;

pub(crate) use crate::input::problems::list::{ListOptions, read_list};

/// The problems of a question.
#[derive(Debug, Args)]
#[command(next_help_heading = "Problems")]
pub(crate) struct ProblemArgs {
    /// Sizes as MxNxK, or BxMxNxK for a batch, then type, layouts, scaling and groups: 16x4096x4096 fp16 nt, 16x4096x14336
    /// fp8 row, grouped 512x1536x2048 groups 128 top8, moe 128x768x2048 top8 64 tokens fp8 block. Or a model such as
    /// Qwen3-8B, or a list as in --problems
    #[arg(
        value_name = "PROBLEM",
        help_heading = None::<&'static str>,
        required_unless_present_any = ["m", "problems", "transformer", "convolution"],
        conflicts_with_all = ["b", "m", "n", "k", "problems", "transformer", "convolution"]
    )]
    texts: Vec<String>,

    /// List of problems: one a line, CSV, JSON, a recording of torch_diode.record(), a dataset, a table, or torch-diode's shape
    /// set; - for standard input
    #[arg(long, alias = "list", value_name = "FILE", conflicts_with_all = ["b", "m", "n", "k", "transformer", "convolution"])]
    problems: Option<PathBuf>,

    /// Operator: mm, addmm, bmm, baddbmm, scaled_mm, grouped_mm, scaled_grouped_mm or fused_moe [default: mm, or bmm for
    /// a batch]
    #[arg(long)]
    op: Option<Op>,

    /// Batch size
    #[arg(long, value_parser = whole::<u64>)]
    b: Option<u64>,

    /// Rows of A and of the output
    #[arg(long, value_parser = whole::<u64>, requires_all = ["n", "k"], conflicts_with_all = ["transformer", "convolution"])]
    m: Option<u64>,

    /// Columns of B and of the output
    #[arg(long, value_parser = whole::<u64>, requires = "m")]
    n: Option<u64>,

    /// Columns of A and rows of B
    #[arg(long, value_parser = whole::<u64>, requires = "m")]
    k: Option<u64>,

    /// Type of inputs and output [default: bfloat16]
    #[arg(long, value_parser = dtype)]
    dtype: Option<DType>,

    /// Multiply as nn.Linear does: B in columns, and a vector as the bias of addmm
    #[arg(long)]
    linear: bool,

    /// Order of A in memory: row or column [default: row]
    #[arg(long, value_name = "LAYOUT", conflicts_with = "linear")]
    a_layout: Option<Layout>,

    /// Order of B in memory: row, or column as in nn.Linear [default: row, or column where operands are scaled or grouped]
    #[arg(long, value_name = "LAYOUT", conflicts_with = "linear")]
    b_layout: Option<Layout>,

    /// Bias of addmm and baddbmm: matrix, or vector as in nn.Linear [default: matrix]
    #[arg(long, conflicts_with = "linear")]
    bias: Option<Bias>,

    /// Scales of the operands: tensor, row or block
    #[arg(long)]
    scaling: Option<Scaling>,

    /// Number of groups, or of experts
    #[arg(long, value_name = "N", value_parser = whole::<u32>)]
    groups: Option<u32>,

    /// Groups that each token goes to [default: 1]
    #[arg(long, value_name = "N", value_parser = whole::<u32>, requires = "groups")]
    top_k: Option<u32>,

    /// Multiplication of fused_moe: gate-up or down
    #[arg(long, requires = "groups")]
    stage: Option<Stage>,

    #[command(flatten)]
    pub(crate) served: ServedArgs,

    #[command(flatten)]
    layers: ModelArgs,
}

/// How a model is served whose name stands for its multiplications.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Problems of a model by name")]
pub(crate) struct ServedArgs {
    /// GPUs among which every layer is split (tensor parallelism) [default: 1]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) tp: Option<u64>,

    /// GPUs among which experts are spread (expert parallelism) [default: 1]
    #[arg(long, value_name = "N", value_parser = size)]
    pub(crate) ep: Option<u64>,

    /// Form of the weights, bf16, fp8-block, fp8-channel, fp8-tensor, or fp8 for the model's own fp8 [default: the model's
    /// own]
    #[arg(long, value_name = "FORM")]
    quantization: Option<String>,
}

impl ServedArgs {
    /// Whether any of the flags is given.
    pub(crate) fn any(&self) -> bool {
        self.tp.is_some() || self.ep.is_some() || self.quantization.is_some()
    }

    /// The form of the weights, if one is named.
    pub(crate) fn form(&self, named: &Named) -> Result<Option<Quantization>, Usage> {
        let given = self.quantization.as_deref();
        given.map(|_| quantization(named, given, Reader::Vllm)).transpose()
    }

    /// Every multiplication of a model that kernels compute, at the usual batch sizes.
    pub(crate) fn problems(
        &self,
        named: &Named,
        reader: Reader,
        hardware: Option<&Hardware>,
    ) -> Result<Vec<Problem>, String> {
        // The type of fp8 is the hardware's.
        let hardware = match hardware.cloned().or_else(|| this_gpu().ok()) {
            Some(hardware) => hardware,
            None => Hardware::from_name("NVIDIA H200").map_err(|error| error.to_string())?,
        };
        let read = || -> Result<Vec<Problem>, String> {
            let in_words = |error: &dyn std::fmt::Display| format!("{}: {error}", named.name);
            let serving = Serving {
                tensor_parallel: self.tp.unwrap_or(1),
                expert_parallel: self.ep.unwrap_or(1),
                quantization: quantization(named, self.quantization.as_deref(), reader)
                    .map_err(|error| error.to_string())?,
            };
            named.architecture.check_split(&serving).map_err(|error| in_words(&error))?;
            named.architecture.problems(&serving, reader, &hardware).map_err(|error| in_words(&error))
        };
        let mut problems = read()?;
        let all = problems.len();
        problems.retain(has_kernels);
        if problems.len() < all {
            let left_out = count(all - problems.len(), "problem");
            say!("note: {left_out} of {} left out: no kernel computes them", named.name);
        }
        Ok(problems)
    }
}

impl ProblemArgs {
    /// The model, if one is named in place of problems, or the path of its config.json.
    pub(crate) fn model(&self) -> Option<&str> {
        match self.texts.as_slice() {
            [name] if ProblemWords::read(name).is_err() && catalogue::find(name).is_some() => Some(name),
            [path] if path.ends_with(".json") && config_path(path).is_some_and(|path| !is_list(&path)) => {
                Some(path)
            }
            _ => None,
        }
    }

    /// What the flags say of every problem.
    fn flags(&self) -> ProblemWords {
        ProblemWords {
            op: self.op,
            dtype: self.dtype,
            linear: self.linear,
            a_layout: self.a_layout,
            b_layout: self.b_layout,
            bias: self.bias,
            scaling: self.scaling,
            groups: self.groups,
            top_k: self.top_k,
            stage: self.stage,
            ..ProblemWords::default()
        }
    }

    /// The problems, at least one. Mistakes in flags and texts are all named.
    pub(crate) fn problems(
        &self,
        hardware: Option<&Hardware>,
        reader: Reader,
    ) -> anyhow::Result<Vec<Problem>> {
        let names_model =
            self.problems.is_some() || self.texts.iter().any(|text| catalogue::find(text).is_some());
        Usage::refuse_if(
            self.served.any() && !names_model,
            "--tp, --ep and --quantization: got sizes with them, expected a model such as Qwen3-235B-A22B",
        )?;
        let options = ListOptions { usual: self.flags(), served: &self.served, reader, hardware };
        if let Some(list) = &self.problems {
            return read_list(list, &options);
        }
        if self.layers.any() {
            let dtype = self.dtype.unwrap_or(DType::BFloat16);
            return Ok(self.layers.problems(&[dtype]).map_err(Usage::new)?);
        }
        if let Some(m) = self.m {
            let said = ProblemWords { b: self.b, m: Some(m), n: self.n, k: self.k, ..self.flags() };
            return Ok(said.problems(&ProblemWords::default()).map_err(Usage::new)?);
        }
        let (mut problems, mut wrong) = (Vec::new(), Vec::new());
        for asked in Asked::several(&self.texts) {
            match asked {
                Asked::List(path) => problems.extend(read_list(&path, &options)?),
                Asked::Text(text) => match options.read(&text, true) {
                    Ok(some) => problems.extend(some),
                    Err(error) => wrong.push(error),
                },
            }
        }
        Usage::refuse_if(
            problems.is_empty() && wrong.is_empty(),
            "PROBLEM: got no words, expected a size such as 16x4096x4096",
        )?;
        match wrong.len() {
            0 => Ok(problems),
            _ => Err(Usage::new(wrong.join("; ")).into()),
        }
    }
}

/// What stands for problems among the arguments.
#[derive(Debug, PartialEq)]
enum Asked {
    Text(String),
    List(PathBuf),
}

impl Asked {
    /// Joins arguments to texts. A text goes on until a size follows one that has its size.
    fn several(arguments: &[String]) -> Vec<Self> {
        let mut asked: Vec<Self> = Vec::new();
        let mut is_open = false;
        for argument in arguments {
            let is_list = argument == "-" || Path::new(argument).is_file();
            if is_list || (ProblemWords::read(argument).is_err() && catalogue::find(argument).is_some()) {
                let text = argument.clone();
                asked.push(if is_list { Self::List(text.into()) } else { Self::Text(text) });
                is_open = false;
                continue;
            }
            // An argument that names a whole problem is not torn apart, and begins another one.
            let is_whole = ProblemWords::read(argument).is_ok_and(|said| said.has_sizes());
            let lacks_size = matches!(asked.last(), Some(Self::Text(text)) if is_open && !has_size(text));
            let argument = argument.replace('×', "x").replace(" x ", "x");
            if is_whole && !lacks_size {
                asked.push(Self::Text(argument));
                is_open = true;
                continue;
            }
            for word in argument.split_whitespace() {
                match asked.last_mut() {
                    Some(Self::Text(text)) if is_open && !(begins_problem(word) && has_size(text)) => {
                        *text = format!("{text} {word}");
                    }
                    _ => asked.push(Self::Text(word.to_owned())),
                }
                is_open = true;
            }
        }
        asked
    }
}

/// Whether a file in JSON holds a list.
fn is_list(path: &Path) -> bool {
    let head = diode_formats::read_head(path).unwrap_or_default();
    head.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[')
}

fn has_size(text: &str) -> bool {
    ProblemWords::read(text).is_ok_and(|said| said.has_sizes())
        || text.split_whitespace().any(|word| begins_problem(word) && !matches!(word, "grouped" | "moe"))
}

/// The distinct problems of a list or of a model by name, of these operators, or of all if none are named.
pub(crate) fn chosen(list: &Path, ops: &[Op]) -> anyhow::Result<Vec<Problem>> {
    let served = ServedArgs::default();
    let options =
        ListOptions { usual: ProblemWords::default(), served: &served, reader: Reader::Vllm, hardware: None };
    let mut problems = read_list(list, &options)?;
    let all = problems.len();
    problems.retain(|problem| ops.is_empty() || ops.contains(&problem.op));
    if problems.is_empty() {
        bail!(
            "{}: none of its {all} problems is of the chosen ops; choose others with --ops, or give another list",
            list.display()
        );
    }
    let (problems, repeated) = distinct(problems);
    if repeated > 0 {
        say!("note: {} repeated in the list, taken once", count(repeated, "problem"));
    }
    Ok(problems)
}

/// Every problem once, and how many were repeated.
pub(crate) fn distinct(problems: Vec<Problem>) -> (Vec<Problem>, usize) {
    let all = problems.len();
    let mut seen = HashSet::new();
    let distinct: Vec<Problem> = problems.into_iter().filter(|problem| seen.insert(problem.id())).collect();
    let repeated = all - distinct.len();
    (distinct, repeated)
}

/// The short form of a problem in lists, which `diode shapes --json` prints. Inputs and output have one type, A is
/// row-major, and a bias has the size of the output.
#[derive(Debug, Serialize)]
pub(crate) struct ShortProblem {
    pub(crate) op: Op,
    pub(crate) b: u64,
    pub(crate) m: u64,
    pub(crate) n: u64,
    pub(crate) k: u64,
    pub(crate) dtype: DType,
    /// `None` for the usual one: row-major, or column-major where operands are scaled or grouped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) b_layout: Option<Layout>,
    #[serde(skip_serializing_if = "is_unscaled")]
    pub(crate) scaling: Scaling,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<Groups>,
}

fn is_unscaled(scaling: &Scaling) -> bool {
    *scaling == Scaling::None
}

impl ShortProblem {
    /// `None` if the short form cannot express all of the problem.
    pub(crate) fn shorten(problem: &Problem) -> Option<Self> {
        let p = problem;
        let b_layout = Some(p.b_layout).filter(|layout| *layout != p.op.usual_b_layout());
        let ProblemFields { op, b, m, n, k, scaling, groups, .. } = **p;
        let short = Self { op, b, m, n, k, dtype: p.a_dtype, b_layout, scaling, groups };
        (short.problem().as_ref() == Ok(problem)).then_some(short)
    }

    fn problem(&self) -> Result<Problem, Invalid> {
        let plain = ProblemFields::plain(self.op, self.b, self.m, self.n, self.k, self.dtype);
        let b_layout = self.b_layout.unwrap_or(plain.b_layout);
        Problem::new(ProblemFields { b_layout, scaling: self.scaling, groups: self.groups, ..plain })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_follow_their_size_and_texts_stand_for_problems() {
        let asked = |arguments: &[&str]| -> Vec<String> {
            let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
            let text = |asked| match asked {
                Asked::Text(text) => text,
                Asked::List(path) => format!("list {}", path.display()),
            };
            Asked::several(&arguments).into_iter().map(text).collect()
        };
        assert_eq!(asked(&["1x2x3", "2x3x4x5"]), ["1x2x3", "2x3x4x5"]);
        assert_eq!(asked(&["1 x 2 x 3"]), ["1x2x3"]);
        assert_eq!(asked(&["16x4096x14336", "fp8", "row", "1x2x3"]), ["16x4096x14336 fp8 row", "1x2x3"]);
        let moe = "moe 128x768x2048 top8 64 tokens fp8 block";
        assert_eq!(asked(&[moe, "1x2x3"]), [moe, "1x2x3"]);
        assert_eq!(asked(&moe.split(' ').chain(["1x2x3"]).collect::<Vec<_>>()), [moe, "1x2x3"]);
        let grouped = "512x1536x2048 grouped groups 128";
        assert_eq!(asked(&[grouped, "M=2 N=3 K=4", "1,2,3"]), [grouped, "M=2 N=3 K=4", "1,2,3"]);
        assert_eq!(asked(&["addmm", "1x2x3", "Qwen3-8B", "-"]), ["addmm 1x2x3", "Qwen3-8B", "list -"]);
    }

    #[test]
    fn what_is_usual_is_not_written() {
        for (b_layout, words) in [(Layout::Row, ""), (Layout::Column, r#","b_layout":"column""#)] {
            let text = format!(r#"{{"op":"addmm","b":1,"m":4,"n":8,"k":2,"dtype":"float16"{words}}}"#);
            let plain = ProblemFields::plain(Op::Addmm, 1, 4, 8, 2, DType::Float16);
            let problem = Problem::new(ProblemFields { b_layout, ..plain }).unwrap();
            assert_eq!(serde_json::to_string(&ShortProblem::shorten(&problem).unwrap()).unwrap(), text);
        }
    }

    #[test]
    fn a_problem_that_is_more_is_not_shortened() {
        let plain = ProblemFields::plain(Op::Addmm, 1, 4, 8, 2, DType::Float16);
        let vector = Problem::new(ProblemFields { bias: Bias::Vector, ..plain }).unwrap();
        assert!(ShortProblem::shorten(&vector).is_none());
    }
}
