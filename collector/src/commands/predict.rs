use std::path::PathBuf;

use clap::Args;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Problem, Tflops};
use diode_model::{Prediction, predict};

use super::files;
use crate::arguments::{at_least_one, space};
use crate::output;
use crate::problem_source::ProblemArgs;

/// Predict the fastest configs for a problem
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode predict --model h200.safetensors --op mm --m 4096 --n 4096 --k 4096 --dtype bfloat16 --top 5"
)]
pub(crate) struct Predict {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    #[command(flatten)]
    problem: ProblemArgs,

    /// How many configs to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = at_least_one)]
    top: usize,

    /// Which configs to rank: default, inductor-exhaustive or full [default: the model's own]
    #[arg(long, value_parser = space)]
    space: Option<SpaceName>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

impl Predict {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let problem = self.problem.problem()?;
        let model = files::read_model(&self.model)?;
        let space = self.space.map_or_else(|| model.space(), Space::Named);
        let prediction = predict(&model, &problem, &space, self.top)?;
        if let Some(warning) = model.extrapolates(&problem) {
            eprintln!("note: {warning}");
        }
        if self.json {
            return output::json(&prediction);
        }
        output::text_out(&in_words(&problem, &model.metadata().hardware.name, prediction)?)
    }
}

fn in_words(problem: &Problem, hardware: &str, prediction: Prediction) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (place, candidate) in (1..).zip(prediction.candidates) {
        let time = diode_core::Micros(candidate.predicted_us);
        let config = Config::try_from(candidate.config)?;
        rows.push(vec![
            config.label(),
            place.to_string(),
            output::duration(time.0),
            output::rate(Tflops::from_work(problem.flops(), time).0),
        ]);
    }
    let mut text = format!("{} {} {} on {hardware}\n\n", problem.op, problem.dims(), problem.a_dtype);
    text += &output::table(&["config", "rank", "predicted", "rate"], &rows, 1);
    if let Some(share) = prediction.within_5_percent.get("1") {
        text += &format!(
            "\nOn problems it had not seen, the first pick was within 5 % of the best for {:.0} %.\n",
            share * 100.0
        );
    }
    Ok(text)
}
