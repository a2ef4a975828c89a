use std::path::PathBuf;

use clap::Args;
use diode_core::hardware::fits;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, Problem, Tflops};
use diode_model::{AnyModel, Prediction};

use crate::failure::Usage;
use crate::input::arguments::{at_least_one, probability, space};
use crate::input::models;
use crate::input::problems::ProblemArgs;
use crate::output;

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

    /// Show as many as must be measured for their best to be within 5 % of the best of all with
    /// this probability, such as 0.95
    #[arg(long, value_name = "P", conflicts_with = "top", value_parser = probability)]
    confidence: Option<f64>,

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
        let model = models::read_model(&self.model)?;
        fits(&model.ranked_hardware()?, &problem).map_err(Usage::new)?;
        let space = self.space.map_or_else(|| model.space(), Space::Named);
        let top = match self.confidence {
            Some(_) if space != model.space() => {
                anyhow::bail!(
                    "--confidence: got it with --space, expected the model's own space, of which it was measured; leave out --space, or use --top"
                )
            }
            Some(probability) => picks_for(&model, &problem, probability)?,
            None => self.top,
        };
        let prediction = model.best(&problem, &space, top)?;
        if let Some(warning) = &prediction.outside_training_range {
            say!("note: {warning}");
        }
        if self.json {
            return output::json(&prediction);
        }
        output::text_out(&in_words(&problem, &model.ranked_hardware()?.name, &prediction)?)
    }
}

/// How many picks a probability takes, as it was measured for problems like this one.
fn picks_for(model: &AnyModel, problem: &Problem, probability: f64) -> anyhow::Result<usize> {
    let Some(model) = model.as_ranking() else {
        anyhow::bail!("--confidence: this kind of model does not say how sure it is; use --top");
    };
    let Some(known) = model.confidence(problem) else {
        let why = model.extrapolates(problem);
        anyhow::bail!(
            "--confidence: nobody has measured how sure the model is here; {}use --top",
            why.map(|why| why + " ").unwrap_or_default()
        );
    };
    match known.picks_for(probability) {
        Some(picks) => Ok(picks as usize),
        None => {
            let reached = known.within_5_percent.last().map_or(0.0, |(_, share)| *share);
            anyhow::bail!(
                "--confidence: got {probability}, expected at most {reached:.3}, which is what is reached for {} \
                 problems; time the whole space for more",
                known.group
            )
        }
    }
}

fn in_words(problem: &Problem, hardware: &str, prediction: &Prediction) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (place, candidate) in (1..).zip(prediction.candidates.iter().cloned()) {
        let time = diode_core::Micros(candidate.predicted_us);
        let config = Config::try_from(candidate.config)?;
        rows.push(vec![
            config.label(),
            place.to_string(),
            output::duration(time.0),
            output::rate(Tflops::from_work(problem.flops(), time).0),
        ]);
    }
    let hardware = output::one_line(hardware);
    let mut text = format!("{} {} {} on {hardware}\n\n", problem.op, problem.dims(), problem.a_dtype);
    text += &output::table(&["config", "rank", "predicted", "rate"], &rows, 1);
    if let Some(share) = prediction.within_5_percent.get("1") {
        text += &format!(
            "\nOn {} problems it had not seen, the first pick was within 5 % of the best for {:.0} %.\n",
            prediction.group,
            share * 100.0
        );
    }
    if let Some((low, high)) = prediction.first_candidate_us {
        text += &format!(
            "Expected for the first pick: {} to {}, in four cases of five.\n",
            output::duration(low),
            output::duration(high)
        );
    }
    Ok(text)
}
