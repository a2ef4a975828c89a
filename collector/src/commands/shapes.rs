use clap::Args;
use diode_core::{DType, Layout, Op, Problem};
use serde::Serialize;

use crate::output;
use crate::problem_source::GeneratorArgs;

/// Draw problems as `collect` would, without measuring them
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode shapes --seed 42 --num-shapes 10 --log-normal --json\n  \
                  diode shapes --transformer hidden=4096,intermediate=14336,heads=32,kv_heads=8,vocab=128256")]
pub(crate) struct Shapes {
    #[command(flatten)]
    generator: GeneratorArgs,

    /// Print one JSON list of objects {op, b, m, n, k, dtype}, and b_layout where B is in columns
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Row {
    op: Op,
    b: u64,
    m: u64,
    n: u64,
    k: u64,
    dtype: DType,
    /// `None` for the usual rows.
    #[serde(skip_serializing_if = "Option::is_none")]
    b_layout: Option<Layout>,
}

impl Row {
    fn new(problem: &Problem) -> Self {
        let p = problem;
        let b_layout = Some(p.b_layout).filter(|layout| *layout != Layout::Row);
        Self { op: p.op, b: p.b, m: p.m, n: p.n, k: p.k, dtype: p.a_dtype, b_layout }
    }

    fn cells(&self) -> Vec<String> {
        let numbers = [self.b, self.m, self.n, self.k].map(|size| size.to_string());
        [self.op.to_string(), self.dtype.to_string()].into_iter().chain(numbers).collect()
    }
}

impl Shapes {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let rows: Vec<Row> = self.generator.problems()?.iter().map(Row::new).collect();
        if self.json {
            return output::json(&rows);
        }
        let mut cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        let mut header = vec!["op", "dtype", "B", "M", "N", "K"];
        if rows.iter().any(|row| row.b_layout.is_some()) {
            header.push("B lies in");
            for (cells, row) in cells.iter_mut().zip(&rows) {
                cells.push(format!("{}s", row.b_layout.unwrap_or(Layout::Row)));
            }
        }
        output::text_out(&output::table(&header, &cells, 2))
    }
}
