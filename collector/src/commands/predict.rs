use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use diode_compat::AnyModel;
use diode_core::space::{Space, SpaceName};
use diode_core::{ConfigFields, DType, Epilogue, Problem, ProblemGroup, Tflops};
use diode_model::epilogue::{Verdict, Weighed};
use diode_model::{Answer, ModelError, Question, Unsure};
use serde::Serialize;

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
        let (mut answers, mut failures) = (Vec::new(), Vec::new());
        for problem in &problems {
            match self.answer(&model, problem, alone) {
                Ok(answer) => answers.push(Some(answer)),
                Err(error) if alone => return Err(error),
                Err(error) => {
                    answers.push(None);
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
        if let Some(why) = answers.iter().flatten().next().and_then(|first| first.uncounted.as_ref()) {
            say!("note: {why}");
        }
        let hardware = model.ranked_hardware()?.name;
        match &answers[..] {
            [Some(answer)] if self.json => output::json(&Document::from(answer)),
            [Some(answer)] => output::text_out(&in_words(&hardware, answer)),
            several if self.json => {
                let documents = several.iter().map(|answer| answer.as_ref().map(Document::from));
                output::json(&documents.collect::<Vec<_>>())
            }
            several => output::text_out(&in_a_table(&hardware, several)),
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

    fn answer(&self, model: &AnyModel, problem: &Problem, alone: bool) -> anyhow::Result<Answer> {
        let mut question =
            Question { space: self.space, tf32: self.tf32, epilogue: self.epilogue, ..Question::default() };
        question.picks = match self.confidence {
            Some(_) if self.space.is_some_and(|space| Space::Named(space) != model.space()) => {
                anyhow::bail!(
                    "--confidence: got it with --space, expected the model's own space, of which it was measured; leave out --space, or use --top"
                )
            }
            Some(probability) => picks_for(model, problem, &question, probability)?,
            None => self.top.unwrap_or(if alone { 10 } else { 1 }),
        };
        let answer = match model.answer(problem, &question) {
            Err(ModelError::TooLargeForHardware(error)) => return Err(Usage::new(error).into()),
            answer => answer?,
        };
        if let Some(caveat) = &answer.caveat {
            if alone {
                say!("note: {caveat}");
            } else {
                say!("note: {} {}: {caveat}", problem.op, problem.dims());
            }
        }
        Ok(answer)
    }
}

/// How many picks reach this probability on problems like this one, as the model's file states.
fn picks_for(
    model: &AnyModel,
    problem: &Problem,
    question: &Question<'_>,
    probability: f64,
) -> anyhow::Result<usize> {
    let Some(model) = model.as_ranking() else {
        anyhow::bail!("--confidence: this kind of model does not say how sure it is; use --top");
    };
    model.picks_for(problem, question, probability).map_err(|unsure| match unsure {
        Unsure::Unmeasured { why } => anyhow::anyhow!(
            "--confidence: nobody has measured how sure the model is here; {}use --top",
            why.map(|why| why + " ").unwrap_or_default()
        ),
        Unsure::OutOfReach { most, group } => anyhow::anyhow!(
            "--confidence: got {probability}, expected at most {most:.3}, which is what is reached for {}; \
             time the whole space for more",
            group.in_words()
        ),
    })
}

/// An answer as `--json` prints it.
#[derive(Serialize)]
struct Document<'a> {
    candidates: Vec<Candidate>,
    /// By the number of first candidates. Empty if it was not measured.
    within_5_percent: BTreeMap<String, f64>,
    group: ProblemGroup,
    first_candidate_us: Option<(f64, f64)>,
    outside_training_range: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    epilogue: Option<Verdict>,
}

#[derive(Serialize)]
struct Candidate {
    #[serde(flatten)]
    config: ConfigFields,
    predicted_us: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    epilogue_us: Option<f64>,
}

impl<'a> From<&'a Answer> for Document<'a> {
    fn from(answer: &'a Answer) -> Self {
        let shares = answer.confidence.iter().flat_map(|known| &known.within_5_percent);
        let candidate = |pick: &Weighed| Candidate {
            config: pick.config.into(),
            predicted_us: pick.alone.0,
            epilogue_us: answer.verdict.map(|_| pick.following.0),
        };
        Self {
            candidates: answer.picks.iter().map(candidate).collect(),
            within_5_percent: shares.map(|(picks, share)| (picks.to_string(), *share)).collect(),
            group: answer.group(),
            first_candidate_us: answer.confidence.as_ref().and_then(|known| known.first_us),
            outside_training_range: answer.caveat.as_deref(),
            epilogue: answer.verdict,
        }
    }
}

fn in_words(hardware: &str, answer: &Answer) -> String {
    let problem = &answer.problem;
    let mut rows = Vec::new();
    for (place, pick) in (1..).zip(&answer.picks) {
        let mut row = vec![pick.config.label(), place.to_string()];
        row.extend(times(answer, pick));
        rows.push(row);
    }
    let hardware = output::one_line(hardware);
    let mut text = format!("{} {} {} on {hardware}\n\n", problem.op, problem.dims(), problem.a_dtype);
    let mut heads = vec!["config", "rank", "predicted", "rate"];
    heads.extend(answer.verdict.map(|verdict| verdict.epilogue.as_str()));
    text += &output::table(&heads, &rows, 1);
    if let Some(verdict) = answer.verdict {
        text += &format!("\n{}\n", verdict.in_words(output::duration));
    }
    let Some(known) = &answer.confidence else { return text };
    if let Some((1, share)) = known.within_5_percent.first() {
        text += &format!(
            "\nOn {} that it had not seen, the first pick was within 5 % of the best for {:.0} %.\n",
            answer.group().in_words(),
            share * 100.0
        );
    }
    if let Some((low, high)) = known.first_us {
        text += &format!(
            "Expected for the first pick: {} to {}, in four cases of five.\n",
            output::duration(low),
            output::duration(high)
        );
    }
    text
}

/// The time with the epilogue, the rate, and the epilogue's part of the time.
fn times(answer: &Answer, pick: &Weighed) -> impl Iterator<Item = String> {
    let rate = output::rate(Tflops::from_work(answer.problem.flops(), pick.total()).0);
    let following = answer.verdict.map(|_| output::duration(pick.following.0));
    [output::duration(pick.total().0), rate].into_iter().chain(following)
}

/// A table with the best pick of each problem, one per line.
fn in_a_table(hardware: &str, answers: &[Option<Answer>]) -> String {
    let mut rows = Vec::new();
    for answer in answers.iter().flatten() {
        let problem = &answer.problem;
        for pick in &answer.picks {
            let named = format!("{} {} {}", problem.op, problem.dims(), problem.a_dtype);
            let mut row = vec![named, pick.config.label()];
            row.extend(times(answer, pick));
            rows.push(row);
        }
    }
    let mut heads = vec!["problem", "config", "predicted", "rate"];
    let verdict = answers.iter().flatten().find_map(|answer| answer.verdict);
    heads.extend(verdict.map(|verdict| verdict.epilogue.as_str()));
    format!("on {}\n\n{}", output::one_line(hardware), output::table(&heads, &rows, 2))
}
