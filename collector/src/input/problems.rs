//! Where problems come from: the generators, the layers of a model, a list, or flags that name one
//! problem.

use std::collections::HashSet;
use std::fmt;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context as _, bail};
use clap::Args;
use diode_compat::ShapeSet;
use diode_core::problem::{begins_problem, is_serving_word, serving_problems};
use diode_core::{
    Bias, DType, Groups, Invalid, Layout, Op, OutputLayout, Problem, ProblemFields, Scaling, Stage, numbered,
};
use diode_workloads::catalogue;
use serde::de::{Error, Unexpected, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use crate::failure::Usage;
use crate::input::arguments::{dtype, whole};
use crate::input::served::config_path;

/// The most bytes of a list, enough for some 50,000 lines. More problems than that are work for `collect`.
const MAX_SIZES_BYTES: u64 = 1 << 20;

/// The problems of a question.
#[derive(Debug, Args)]
pub(crate) struct AskedArgs {
    /// Sizes as MxNxK, or BxMxNxK for a batch. Words name scaled and grouped problems: 16x4096x14336 fp8 row, grouped
    /// 512x1536x2048 groups 128 top8, moe 128x768x2048 top8 64 tokens fp8 block
    #[arg(value_name = "SIZE", required_unless_present_any = ["m", "list"], conflicts_with_all = ["b", "m", "n", "k", "list"])]
    sizes: Vec<Asked>,

    /// A file with one size per line, or a list of problems as torch_diode.record() writes it (.json); - for sizes from
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["b", "m", "n", "k"])]
    list: Option<PathBuf>,

    /// Operator: mm, addmm, bmm, baddbmm, scaled_mm, grouped_mm, scaled_grouped_mm or fused_moe [default: mm, or bmm for
    /// a batch]
    #[arg(long)]
    op: Option<Op>,

    /// Batch size
    #[arg(long, value_parser = whole::<u64>)]
    b: Option<u64>,

    /// Rows of A and of the output
    #[arg(long, value_parser = whole::<u64>, requires_all = ["n", "k"])]
    m: Option<u64>,

    /// Columns of B and of the output
    #[arg(long, value_parser = whole::<u64>, requires = "m")]
    n: Option<u64>,

    /// Columns of A and rows of B
    #[arg(long, value_parser = whole::<u64>, requires = "m")]
    k: Option<u64>,

    /// Type of inputs and output
    #[arg(long, default_value = "bfloat16", value_parser = dtype)]
    dtype: DType,

    #[command(flatten)]
    form: FormArgs,
}

/// What a problem has beside its op, sizes and type.
#[derive(Debug, Args)]
struct FormArgs {
    /// Order of A in memory: row or column
    #[arg(long, default_value = "row")]
    a_layout: Layout,

    /// Order of B in memory: row, or column as in nn.Linear [default: row, or column where operands are scaled or grouped]
    #[arg(long)]
    b_layout: Option<Layout>,

    /// Bias of addmm and baddbmm: matrix, or vector as in nn.Linear [default: matrix]
    #[arg(long)]
    bias: Option<Bias>,

    /// Scales of the operands: tensor, row or block
    #[arg(long)]
    scaling: Option<Scaling>,

    /// Number of groups, or of experts
    #[arg(long, value_parser = whole::<u32>)]
    groups: Option<u32>,

    /// Groups that each token goes to [default: 1]
    #[arg(long, value_parser = whole::<u32>, requires = "groups")]
    top_k: Option<u32>,

    /// Multiplication of fused_moe: gate-up or down
    #[arg(long, requires = "groups")]
    stage: Option<Stage>,
}

impl FormArgs {
    /// The problem with these layouts and this bias. An invalid problem counts as a mistake in the flags.
    fn problem(&self, op: Op, [b, m, n, k]: [u64; 4], dtype: DType) -> Result<Problem, Usage> {
        let plain = ProblemFields::plain(op, b, m, n, k, dtype);
        let bias = self.bias.unwrap_or(plain.bias);
        let fields = ProblemFields {
            a_layout: self.a_layout,
            b_layout: self.b_layout.unwrap_or(plain.b_layout),
            bias,
            scaling: self.scaling.unwrap_or(plain.scaling),
            groups: Groups::from_parts(self.groups, self.top_k, self.stage, None).map_err(Usage::new)?,
            ..plain
        };
        Problem::new(fields).map_err(Usage::new)
    }
}

/// A size such as `16x4096x4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    b: Option<u64>,
    m: u64,
    n: u64,
    k: u64,
}

impl FromStr for Size {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        let numbers: Option<Vec<u64>> =
            text.split(['x', '×', 'X']).map(|number| number.trim().parse().ok()).collect();
        match numbers.as_deref() {
            Some(&[m, n, k]) => Ok(Self { b: None, m, n, k }),
            Some(&[b, m, n, k]) => Ok(Self { b: Some(b), m, n, k }),
            _ => Err(
                "expected whole numbers up to 2147483648, such as 16x4096x4096 (M×N×K) or 8x16x4096x4096 (B×M×N×K)",
            ),
        }
    }
}

/// A size, or a word or text of a scaled or grouped problem.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Size(Size),
    Words(String),
    /// A model of the catalogue, or the path of a config.json.
    Model(String),
}

impl FromStr for Asked {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        text.parse().map(Self::Size).or_else(|error| {
            let words = || text.split_whitespace();
            let known = |word: &str| begins_problem(word) || is_serving_word(word);
            if words().count() > 0 && words().all(known) {
                Ok(Self::Words(text.to_owned()))
            } else if catalogue::find(text).is_some() || config_path(text).is_some_and(|path| is_json(&path))
            {
                Ok(Self::Model(text.to_owned()))
            } else {
                Err(error)
            }
        })
    }
}

impl Asked {
    /// The words of a line, or of one argument.
    fn text(&self) -> String {
        match self {
            Self::Words(text) | Self::Model(text) => text.clone(),
            Self::Size(Size { b, m, n, k }) => {
                let b = b.map_or_else(String::new, |b| format!("{b}x"));
                format!("{b}{m}x{n}x{k}")
            }
        }
    }

    /// Joins the words that follow a size, or `grouped` and `moe`, as arguments give them one by one.
    fn joined(asked: &[Self]) -> Vec<Self> {
        let mut joined: Vec<Self> = Vec::new();
        for next in asked {
            let text = next.text();
            let begins =
                text.split_whitespace().next().is_some_and(begins_problem) || matches!(next, Self::Size(_));
            match joined.last_mut() {
                // The size of `grouped` and `moe` stands after the word.
                Some(last) if !begins || matches!(last.text().as_str(), "grouped" | "moe") => {
                    *last = Self::Words(format!("{} {text}", last.text()));
                }
                _ => joined.push(next.clone()),
            }
        }
        joined
    }
}

impl AskedArgs {
    /// The model, if one is named in place of sizes.
    pub(crate) fn model(&self) -> Option<&str> {
        match self.sizes.as_slice() {
            [Asked::Model(name)] => Some(name),
            _ => None,
        }
    }

    /// The problems, at least one. An invalid problem counts as a mistake in the flags.
    pub(crate) fn problems(&self) -> anyhow::Result<Vec<Problem>> {
        if let Some(recorded) = self.list.as_deref().filter(|list| is_json(list)) {
            // The file states for each problem what flags state for all.
            return Ok(read_problems(recorded)?.0);
        }
        if let Some(Asked::Model(name)) = self.sizes.iter().find(|asked| matches!(asked, Asked::Model(_))) {
            return Err(Usage::new(format!(
                "SIZE: got the model {name}, expected sizes; `diode tune {name}` writes its kernel configs, and `diode want \
                 {name}` has it measured"
            ))
            .into());
        }
        let sizes = match (&self.list, self.m) {
            (Some(list), _) => read_sizes(list)?,
            (None, Some(m)) => {
                // The parser has checked that all three sizes are there.
                let (n, k) = (self.n.unwrap_or(m), self.k.unwrap_or(m));
                vec![Asked::Size(Size { b: self.b, m, n, k })]
            }
            (None, None) => Asked::joined(&self.sizes),
        };
        let problems: Result<Vec<Vec<Problem>>, Usage> =
            sizes.iter().map(|asked| self.asked(asked)).collect();
        Ok(problems?.into_iter().flatten().collect())
    }

    fn asked(&self, asked: &Asked) -> Result<Vec<Problem>, Usage> {
        match asked {
            Asked::Size(size) => Ok(vec![self.problem(*size)?]),
            Asked::Words(text) | Asked::Model(text) => {
                let nothing = || {
                    let expected =
                        "a size, such as 16x4096x4096, and what is scaled or grouped: 16x4096x14336 fp8 row";
                    Usage::new(Invalid::new("problem", format_args!("`{text:.80}`"), expected))
                };
                serving_problems(text, self.dtype).ok_or_else(nothing)?.map_err(Usage::new)
            }
        }
    }

    fn problem(&self, size: Size) -> Result<Problem, Usage> {
        let usual = if size.b.is_some_and(|b| b > 1) { Op::Bmm } else { Op::Mm };
        let op = self.op.unwrap_or(usual);
        self.form.problem(op, [size.b.unwrap_or(1), size.m, size.n, size.k], self.dtype)
    }
}

fn is_json(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "json")
}

fn read_sizes(list: &Path) -> anyhow::Result<Vec<Asked>> {
    let shown = if list == Path::new("-") { "standard input".to_owned() } else { list.display().to_string() };
    let text = if list == Path::new("-") {
        let mut text = String::new();
        io::stdin().take(MAX_SIZES_BYTES + 1).read_to_string(&mut text).with_context(|| shown.clone())?;
        anyhow::ensure!(
            text.len() as u64 <= MAX_SIZES_BYTES,
            "{shown}: expected at most {MAX_SIZES_BYTES} bytes of sizes"
        );
        text
    } else {
        diode_formats::read_text(list, MAX_SIZES_BYTES, "one size per line")?
    };
    let mut sizes = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let size: Result<Asked, _> = line.trim().parse();
        sizes.push(
            size.map_err(|expected| anyhow::anyhow!("{shown}: line {number}: got `{line:.80}`, {expected}"))?,
        );
    }
    anyhow::ensure!(!sizes.is_empty(), "{shown}: expected at least one size, such as 16x4096x4096");
    Ok(sizes)
}

/// One problem.
#[derive(Debug, Args)]
pub(crate) struct ProblemArgs {
    /// Operator: mm, addmm, bmm, baddbmm, scaled_mm, grouped_mm, scaled_grouped_mm or fused_moe
    #[arg(long)]
    op: Op,

    /// Batch size
    #[arg(long, default_value_t = 1, value_parser = whole::<u64>)]
    b: u64,

    /// Rows of A and of the output
    #[arg(long, value_parser = whole::<u64>)]
    m: u64,

    /// Columns of B and of the output
    #[arg(long, value_parser = whole::<u64>)]
    n: u64,

    /// Columns of A and rows of B
    #[arg(long, value_parser = whole::<u64>)]
    k: u64,

    /// Type of inputs and output, such as bfloat16
    #[arg(long, value_parser = dtype)]
    dtype: DType,

    #[command(flatten)]
    form: FormArgs,
}

impl ProblemArgs {
    /// The problem. An invalid problem counts as a mistake in the flags.
    pub(crate) fn problem(&self) -> Result<Problem, Usage> {
        self.form.problem(self.op, [self.b, self.m, self.n, self.k], self.dtype)
    }
}

/// The most bytes of a list, enough for some 150,000 problems. One node could not measure more.
const MAX_LIST_BYTES: u64 = 16 << 20;

/// What a message says that the file must hold.
const EXPECTED: &str = "a JSON list of problems";

struct List(Vec<ListedProblem>);

impl<'de> Deserialize<'de> for List {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        numbered(deserializer, "problem").map(Self)
    }
}

/// The fields of both forms of a problem.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a problem: a map with op, b, m, n, k and dtype")]
struct ListedProblem {
    op: Op,
    b: ListedSize,
    m: ListedSize,
    n: ListedSize,
    k: ListedSize,
    dtype: Option<DType>,
    a_dtype: Option<DType>,
    b_dtype: Option<DType>,
    out_dtype: Option<DType>,
    a_layout: Option<Layout>,
    b_layout: Option<Layout>,
    bias: Option<Bias>,
    out_layout: Option<OutputLayout>,
    scaling: Option<Scaling>,
    groups: Option<Groups>,
}

/// A size. `Problem` says whether it is too large.
struct ListedSize(u64);

impl<'de> Deserialize<'de> for ListedSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_u64(ListedSizeVisitor)
    }
}

struct ListedSizeVisitor;

impl Visitor<'_> for ListedSizeVisitor {
    type Value = ListedSize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 1 to {}", Problem::MAX_DIM)
    }

    fn visit_u64<E>(self, size: u64) -> Result<ListedSize, E> {
        Ok(ListedSize(size))
    }

    fn visit_i64<E: Error>(self, size: i64) -> Result<ListedSize, E> {
        Err(E::invalid_value(Unexpected::Signed(size), &self))
    }
}

/// The distinct problems of a JSON list, and how many were repeated. Each is either a map with every field of a
/// problem, or in the short form.
pub(crate) fn read_problems(path: &Path) -> anyhow::Result<(Vec<Problem>, usize)> {
    let shown = path.display();
    let text = diode_formats::read_text(path, MAX_LIST_BYTES, EXPECTED)?;
    let List(rows) = serde_json::from_str(&text).with_context(|| format!("{shown}: expected {EXPECTED}"))?;
    let (mut problems, mut seen, mut repeated) = (Vec::new(), HashSet::new(), 0);
    for (number, row) in (1..).zip(rows) {
        let problem = row.problem().with_context(|| format!("{shown}: problem {number}"))?;
        if seen.insert(problem.id()) {
            problems.push(problem);
        } else {
            repeated += 1;
        }
    }
    anyhow::ensure!(!problems.is_empty(), "{shown}: expected at least one problem");
    Ok((problems, repeated))
}

impl ListedProblem {
    fn problem(self) -> anyhow::Result<Problem> {
        let (scaling, groups) = (self.scaling.unwrap_or(Scaling::None), self.groups);
        let Self {
            op, b: ListedSize(b), m: ListedSize(m), n: ListedSize(n), k: ListedSize(k), b_layout, ..
        } = self;
        let rest = (self.a_dtype, self.b_dtype, self.out_dtype, self.a_layout, b_layout, self.bias);
        Ok(match (self.dtype, rest, self.out_layout) {
            (Some(dtype), (None, None, None, None, b_layout, None), None) => {
                ShortProblem { op, b, m, n, k, dtype, b_layout, scaling, groups }.problem()?
            }
            (
                None,
                (Some(a_dtype), Some(b_dtype), Some(out_dtype), Some(a_layout), Some(b_layout), Some(bias)),
                out_layout,
            ) => Problem::new(ProblemFields {
                op,
                b,
                m,
                n,
                k,
                a_dtype,
                b_dtype,
                out_dtype,
                a_layout,
                b_layout,
                bias,
                out_layout,
                scaling,
                groups,
            })?,
            _ => anyhow::bail!(
                "expected {{op, b, m, n, k, dtype}} and b_layout where B is in columns, or \
                 {{op, b, m, n, k, a_dtype, b_dtype, out_dtype, a_layout, b_layout, bias}}"
            ),
        })
    }
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

    pub(crate) fn problem(&self) -> Result<Problem, Invalid> {
        let plain = ProblemFields::plain(self.op, self.b, self.m, self.n, self.k, self.dtype);
        let b_layout = self.b_layout.unwrap_or(plain.b_layout);
        Problem::new(ProblemFields { b_layout, scaling: self.scaling, groups: self.groups, ..plain })
    }
}

/// Reads the problems of a shape set, in the order of the file. `ops` chooses among the ops; if it
/// is empty, all are chosen. The second value says how many repeated problems were left out.
pub(crate) fn read_shapeset(path: &Path, ops: &[Op]) -> anyhow::Result<(Vec<Problem>, usize)> {
    let mut set = diode_compat::read_shapes(path)?;
    let all = choose(&mut set, ops);
    let problems = set.distinct();
    if problems.is_empty() {
        bail!(
            "{}: none of its {all} shapes is of the chosen ops; choose others with --ops, or give another file",
            path.display()
        );
    }
    let repeated = set.problems.len() - problems.len();
    Ok((problems, repeated))
}

/// Keeps the problems of the chosen ops. Returns how many problems there were before.
fn choose(set: &mut ShapeSet, ops: &[Op]) -> usize {
    let all = set.problems.len();
    set.problems.retain(|problem| ops.is_empty() || ops.contains(&problem.op));
    all
}

#[cfg(test)]
mod tests {
    use diode_core::Bias;

    use super::*;

    #[test]
    fn sizes_are_three_or_four_numbers() {
        assert_eq!("16x4096x512".parse(), Ok(Size { b: None, m: 16, n: 4096, k: 512 }));
        assert_eq!("8×16×32×64".parse(), Ok(Size { b: Some(8), m: 16, n: 32, k: 64 }));
        for bad in ["", "16", "16x32", "axbxc", "1x2x3x4x5", "16x-1x2", "16x1.5x2"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }

    #[test]
    fn words_follow_their_size_and_texts_stand_for_problems() {
        let asked = |words: &[&str]| -> Vec<String> {
            let asked: Vec<Asked> = words.iter().map(|word| word.parse().unwrap()).collect();
            Asked::joined(&asked).iter().map(Asked::text).collect()
        };
        assert_eq!(asked(&["1x2x3", "2x3x4x5"]), ["1x2x3", "2x3x4x5"]);
        assert_eq!(asked(&["16x4096x14336", "fp8", "row", "1x2x3"]), ["16x4096x14336 fp8 row", "1x2x3"]);
        let moe = "moe 128x768x2048 top8 64 tokens fp8 block";
        assert_eq!(asked(&[moe, "1x2x3"]), [moe, "1x2x3"]);
        assert_eq!(asked(&moe.split(' ').chain(["1x2x3"]).collect::<Vec<_>>()), [moe, "1x2x3"]);
        assert!("wide".parse::<Asked>().is_err() && "16x32".parse::<Asked>().is_err());
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

    #[test]
    fn ops_are_chosen_and_repeats_are_counted() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shapes.csv");
        let text = "name,B,M,K,N,Transposed\nmm,1,4,2,8,False\nmm,1,4,2,8,False\naddmm,1,4,2,8,True\n";
        diode_formats::write_atomically(&path, text.as_bytes()).unwrap();
        let (problems, repeated) = read_shapeset(&path, &[]).unwrap();
        assert_eq!((problems.len(), repeated), (2, 1));
        assert_eq!(read_shapeset(&path, &[Op::Addmm]).unwrap().0[0].op, Op::Addmm);
        let error = read_shapeset(&path, &[Op::Bmm]).unwrap_err().to_string();
        assert!(error.contains("none of its 3 shapes"), "{error}");
    }
}
