use std::path::PathBuf;

use clap::Args;
use diode_compat::AnyModel;
use diode_core::hardware::fits;
use diode_core::space::{Space, SpaceName};
use diode_core::{Config, DType, Epilogue, Micros, Problem, Tflops};
use diode_model::epilogue::uncounted;
use diode_model::{Candidate, Prediction};

use crate::failure::Usage;
use crate::input::arguments::{at_least_one, probability, space};
use crate::input::models;
use crate::input::problems::AskedArgs;
use crate::output;

/// Predict the fastest configs for problems
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode predict 16x4096x4096 --hardware nvidia-h100\n  diode predict --model h200.safetensors --op mm --m 4096 --n 4096 --k 4096 --dtype bfloat16 --top 5\n  diode predict --list sizes.txt --hardware nvidia-h200 --json"
)]
pub(crate) struct Predict {
    #[command(flatten)]
    asked: AskedArgs,

    /// Model file [default: the model that comes with diode for the hardware]
    #[arg(long, value_name = "FILE", conflicts_with = "hardware")]
    model: Option<PathBuf>,

    /// Hardware to predict for, such as nvidia-h100 [default: this node's GPU]
    #[arg(long, value_name = "NAME")]
    hardware: Option<String>,

    /// How many configs to show of each problem [default: 10, or 1 of each of several problems]
    #[arg(long, value_name = "N", value_parser = at_least_one)]
    top: Option<usize>,

    /// Show as many as must be measured for their best to be within 5 % of the best of all with
    /// this probability, such as 0.95
    #[arg(long, value_name = "P", conflicts_with = "top", value_parser = probability)]
    confidence: Option<f64>,

    /// Predict for programs that let float32 inputs be rounded to TF32
    #[arg(long, conflicts_with = "space")]
    tf32: bool,

    /// Which configs to rank: default, inductor-exhaustive or full [default: the model's own]
    #[arg(long, value_parser = space)]
    space: Option<SpaceName>,

    /// What follows the multiplication, in a tile's own kernel or after the library in another one: none, relu,
    /// gelu, gelu-tanh, silu, silu-gate, residual or float32
    #[arg(long, value_name = "NAME", default_value = "none")]
    epilogue: Epilogue,

    /// Print one JSON document: a prediction, or a list of them for several problems, with null for one
    /// that has none
    #[arg(long)]
    json: bool,
}

impl Predict {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let problems = self.asked.problems()?;
        let model = match &self.model {
            Some(path) => models::read_model(path)?,
            None => models::shipped_model(self.hardware.as_deref())?,
        };
        if self.tf32 {
            self.check_tf32(&model, &problems)?;
        }
        let alone = problems.len() == 1;
        let (mut predictions, mut failures) = (Vec::new(), Vec::new());
        for problem in &problems {
            match self.predict(&model, problem, alone) {
                Ok(prediction) => predictions.push(Some(prediction)),
                Err(error) if alone => return Err(error),
                Err(error) => {
                    predictions.push(None);
                    failures.push(error.context(format!("{} {}", problem.op, problem.dims())));
                }
            }
        }
        // If every problem fails, the request as a whole is wrong.
        if failures.len() == problems.len()
            && let Some(error) = failures.pop()
        {
            return Err(error);
        }
        for error in failures {
            say!("note: no prediction for {error:#}");
        }
        let hardware = model.ranked_hardware()?;
        if let Some(why) = problems.first().and_then(|first| uncounted(self.epilogue, &hardware, first)) {
            say!("note: {why}");
        }
        let hardware = hardware.name;
        match (&problems[..], &predictions[..]) {
            ([_], [Some(prediction)]) if self.json => output::json(prediction),
            ([problem], [Some(prediction)]) => output::text_out(&in_words(problem, &hardware, prediction)?),
            (_, several) if self.json => output::json(&several),
            (problems, several) => output::text_out(&in_a_table(problems, &hardware, several)?),
        }
    }

    fn check_tf32(&self, model: &AnyModel, problems: &[Problem]) -> Result<(), Usage> {
        if model.as_ranking().is_none() {
            return Err(Usage::new("--tf32: this kind of model does not know TF32; leave it out"));
        }
        match problems.first() {
            Some(first) if problems.iter().all(|problem| problem.a_dtype != DType::Float32) => {
                let given = first.a_dtype;
                Err(Usage::new(format!(
                    "--tf32: got problems in {given}, expected float32; add --dtype float32"
                )))
            }
            _ => Ok(()),
        }
    }

    fn predict(&self, model: &AnyModel, problem: &Problem, alone: bool) -> anyhow::Result<Prediction> {
        fits(&model.ranked_hardware()?, problem).map_err(Usage::new)?;
        let space = self.space.map_or_else(|| model.space(), Space::Named);
        let space = match model.as_ranking() {
            Some(model) if self.tf32 && problem.a_dtype == DType::Float32 => model.rounding_space(problem)?,
            _ => space,
        };
        let top = match self.confidence {
            Some(_) if self.space.is_some() && space != model.space() => {
                anyhow::bail!(
                    "--confidence: got it with --space, expected the model's own space, of which it was measured; leave out --space, or use --top"
                )
            }
            Some(probability) => picks_for(model, problem, probability)?,
            None => self.top.unwrap_or(if alone { 10 } else { 1 }),
        };
        let prediction = model.best(problem, &space, top, self.epilogue)?;
        if let Some(warning) = &prediction.outside_training_range {
            if alone {
                say!("note: {warning}");
            } else {
                say!("note: {} {}: {warning}", problem.op, problem.dims());
            }
        }
        Ok(prediction)
    }
}

/// How many picks reach this probability on problems like this one, as the model's file states.
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
                "--confidence: got {probability}, expected at most {reached:.3}, which is what is reached for {}; \
                 time the whole space for more",
                known.group.in_words()
            )
        }
    }
}

fn in_words(problem: &Problem, hardware: &str, prediction: &Prediction) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (place, candidate) in (1..).zip(&prediction.candidates) {
        let mut row = vec![Config::try_from(candidate.config.clone())?.label(), place.to_string()];
        row.extend(times(problem, candidate));
        rows.push(row);
    }
    let hardware = output::one_line(hardware);
    let mut text = format!("{} {} {} on {hardware}\n\n", problem.op, problem.dims(), problem.a_dtype);
    let mut heads = vec!["config", "rank", "predicted", "rate"];
    heads.extend(prediction.epilogue.map(|verdict| verdict.epilogue.as_str()));
    text += &output::table(&heads, &rows, 1);
    if let Some(verdict) = prediction.epilogue {
        text += &format!("\n{}\n", verdict.in_words(output::duration));
    }
    if let Some(share) = prediction.within_5_percent.get("1") {
        text += &format!(
            "\nOn {} that it had not seen, the first pick was within 5 % of the best for {:.0} %.\n",
            prediction.group.in_words(),
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

/// The time with the epilogue, the rate, and the epilogue's part of the time.
fn times(problem: &Problem, candidate: &Candidate) -> impl Iterator<Item = String> {
    let time = Micros(candidate.predicted_us + candidate.epilogue_us.unwrap_or_default());
    let rate = output::rate(Tflops::from_work(problem.flops(), time).0);
    [output::duration(time.0), rate].into_iter().chain(candidate.epilogue_us.map(output::duration))
}

/// A table with the best pick of each problem, one per line.
fn in_a_table(
    problems: &[Problem],
    hardware: &str,
    predictions: &[Option<Prediction>],
) -> anyhow::Result<String> {
    let mut rows = Vec::new();
    for (problem, prediction) in problems.iter().zip(predictions) {
        for candidate in prediction.iter().flat_map(|one| &one.candidates) {
            let mut row = vec![
                format!("{} {} {}", problem.op, problem.dims(), problem.a_dtype),
                Config::try_from(candidate.config.clone())?.label(),
            ];
            row.extend(times(problem, candidate));
            rows.push(row);
        }
    }
    let mut heads = vec!["problem", "config", "predicted", "rate"];
    let verdict = predictions.iter().flatten().find_map(|one| one.epilogue);
    heads.extend(verdict.map(|verdict| verdict.epilogue.as_str()));
    let table = output::table(&heads, &rows, 2);
    Ok(format!("on {}\n\n{table}", output::one_line(hardware)))
}
