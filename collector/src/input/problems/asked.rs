//! Problems that the command line asks for: by sizes, by flags, or as a list.

use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context as _;
use clap::Args;
use diode_core::{Bias, DType, Layout, Op, Problem, ProblemFields};

use super::list::read_problems;
use crate::failure::Usage;
use crate::input::arguments::{dtype, whole};

/// The most bytes of a list, enough for some 50,000 lines. More problems than that are work for `collect`.
const MAX_BYTES: u64 = 1 << 20;

/// The problems of a question.
#[derive(Debug, Args)]
pub(crate) struct AskedArgs {
    /// Sizes as MxNxK, or BxMxNxK for a batch
    #[arg(value_name = "SIZE", required_unless_present_any = ["m", "list"], conflicts_with_all = ["b", "m", "n", "k", "list"])]
    sizes: Vec<Size>,

    /// A file with one size per line, or a list of problems as torch_diode.record() writes it (.json); - for sizes from
    /// standard input
    #[arg(long, value_name = "FILE", conflicts_with_all = ["b", "m", "n", "k"])]
    list: Option<PathBuf>,

    /// Operator: mm, addmm, bmm or baddbmm [default: mm, or bmm for a batch]
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

    /// Order of A in memory: row or column
    #[arg(long, default_value = "row")]
    a_layout: Layout,

    /// Order of B in memory: row, or column as in nn.Linear
    #[arg(long, default_value = "row")]
    b_layout: Layout,

    /// Bias of addmm and baddbmm: matrix, or vector as in nn.Linear [default: matrix]
    #[arg(long)]
    bias: Option<Bias>,
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

impl AskedArgs {
    /// The problems, at least one. An invalid problem counts as a mistake in the flags.
    pub(crate) fn problems(&self) -> anyhow::Result<Vec<Problem>> {
        let recorded =
            self.list.as_deref().filter(|list| list.extension().is_some_and(|ending| ending == "json"));
        if let Some(recorded) = recorded {
            // The file states for each problem what flags state for all.
            return Ok(read_problems(recorded)?.0);
        }
        let sizes = match (&self.list, self.m) {
            (Some(list), _) => read_sizes(list)?,
            (None, Some(m)) => {
                // The parser has checked that all three sizes are there.
                let (n, k) = (self.n.unwrap_or(m), self.k.unwrap_or(m));
                vec![Size { b: self.b, m, n, k }]
            }
            (None, None) => self.sizes.clone(),
        };
        sizes.into_iter().map(|size| Ok(self.problem(size)?)).collect()
    }

    fn problem(&self, size: Size) -> Result<Problem, Usage> {
        let usual = if size.b.is_some_and(|b| b > 1) { Op::Bmm } else { Op::Mm };
        let op = self.op.unwrap_or(usual);
        let plain = ProblemFields::plain(op, size.b.unwrap_or(1), size.m, size.n, size.k, self.dtype);
        let bias = self.bias.unwrap_or(plain.bias);
        let fields = ProblemFields { a_layout: self.a_layout, b_layout: self.b_layout, bias, ..plain };
        Problem::new(fields).map_err(Usage::new)
    }
}

fn read_sizes(list: &Path) -> anyhow::Result<Vec<Size>> {
    let shown = if list == Path::new("-") { "standard input".to_owned() } else { list.display().to_string() };
    let text = if list == Path::new("-") {
        let mut text = String::new();
        io::stdin().take(MAX_BYTES + 1).read_to_string(&mut text).with_context(|| shown.clone())?;
        anyhow::ensure!(
            text.len() as u64 <= MAX_BYTES,
            "{shown}: expected at most {MAX_BYTES} bytes of sizes"
        );
        text
    } else {
        diode_formats::read_text(list, MAX_BYTES, "one size per line")?
    };
    let mut sizes = Vec::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(_, line)| !line.trim().is_empty()) {
        let size: Result<Size, _> = line.trim().parse();
        sizes.push(
            size.map_err(|expected| anyhow::anyhow!("{shown}: line {number}: got `{line:.80}`, {expected}"))?,
        );
    }
    anyhow::ensure!(!sizes.is_empty(), "{shown}: expected at least one size, such as 16x4096x4096");
    Ok(sizes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_three_or_four_numbers() {
        assert_eq!("16x4096x512".parse(), Ok(Size { b: None, m: 16, n: 4096, k: 512 }));
        assert_eq!("8×16×32×64".parse(), Ok(Size { b: Some(8), m: 16, n: 32, k: 64 }));
        for bad in ["", "16", "16x32", "axbxc", "1x2x3x4x5", "16x-1x2", "16x1.5x2"] {
            assert!(bad.parse::<Size>().is_err(), "{bad}");
        }
    }
}
