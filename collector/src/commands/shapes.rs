use anyhow::Context as _;
use clap::Args;
use diode_core::Layout;

use crate::input::generator::GeneratorArgs;
use crate::input::problems::ShortProblem;
use crate::output;

/// Draw problems as `collect` would, without measuring them
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  diode shapes --seed 42 --num-shapes 10 --log-normal --json\n  \
                  diode shapes --transformer hidden=4096,intermediate=14336,heads=32,kv_heads=8,vocab=128256")]
pub(crate) struct Shapes {
    /// Print one JSON list of objects {op, b, m, n, k, dtype}, and b_layout where B is in columns
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    generator: GeneratorArgs,
}

fn cells(row: &ShortProblem) -> Vec<String> {
    let numbers = [row.b, row.m, row.n, row.k].map(|size| size.to_string());
    [row.op.to_string(), row.dtype.to_string()].into_iter().chain(numbers).collect()
}

impl Shapes {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let problems = self.generator.problems()?;
        let rows: Option<Vec<ShortProblem>> = problems.iter().map(ShortProblem::shorten).collect();
        let rows = rows.context("a problem was drawn that the short form cannot say")?;
        if self.json {
            return output::json(&rows);
        }
        let mut cells: Vec<Vec<String>> = rows.iter().map(cells).collect();
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
