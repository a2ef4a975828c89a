use clap::Args;
use diode_core::{DType, Op, Problem};
use serde::Serialize;

use crate::output;
use crate::problem_source::GeneratorArgs;

/// Draw problems as `collect` would, without measuring them
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode shapes --seed 42 --num-shapes 10 --log-normal --json")]
pub(crate) struct Shapes {
    #[command(flatten)]
    generator: GeneratorArgs,

    /// Print one JSON list of objects {op, b, m, n, k, dtype}
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
}

impl Row {
    fn new(problem: &Problem) -> Self {
        let p = problem;
        Self { op: p.op, b: p.b, m: p.m, n: p.n, k: p.k, dtype: p.a_dtype }
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
        let cells: Vec<Vec<String>> = rows.iter().map(Row::cells).collect();
        output::text_out(&output::table(&["op", "dtype", "B", "M", "N", "K"], &cells, 2))
    }
}
