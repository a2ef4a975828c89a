//! The errors of a model's predicted times, and where they are largest.

use std::path::PathBuf;

use clap::Args;
use diode_api::EvaluationReport;
use diode_compat::AnyModel;
use diode_core::ids::{Digest, ModelId};
use diode_core::{Config, Op, Problem};
use diode_train::{Evaluation, Judged, JudgedRow, TrainingSet, judge};
use serde::Serialize;

use crate::evaluation::speedups;
use crate::evaluation::speedups::Speedups;
use crate::evaluation::words::metrics;
use crate::input::arguments::whole;
use crate::input::datasets::Selection;
use crate::input::models;
use crate::output::files;
use crate::predecessor::flags::BatchSize;
use crate::{evaluation, output};

/// Measure a model's errors on a dataset, and show its worst predictions
///
/// All timings of the dataset count. Errors are of the logarithm of the time, as
/// torch-diode trained on; the table of picks says what they cost.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode validate-model --model cpu.safetensors --dataset validation.msgpack.zst --top-n-worst 5"
)]
pub(crate) struct ValidateModel {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// How many of the worst predictions and picks to show
    #[arg(long, default_value_t = 10, value_name = "N", value_parser = whole::<usize>)]
    top_n_worst: usize,

    /// Print one JSON document
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    batch_size: BatchSize,
}

impl ValidateModel {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.batch_size.mention("all configs of a problem are predicted at once");
        let model = models::read_model(&self.model)?;
        let set = evaluation::read_timings(&model, &self.dataset, None, &self.selection)?;
        evaluation::warn_if_trained_on(&model, &set);
        let (evaluation, judged) = Evaluation::new(&model, &set)?;
        let validation = Validation::of(&judged, evaluation.report, self.top_n_worst);
        if self.json { output::json(&validation) } else { output::text_out(&validation.in_words()) }
    }
}

/// Compare a model's picks with the configs that max-autotune would try
///
/// A speedup above 1 means: the best of the model's first N picks is faster than
/// the best of the reference configs. Both are looked up among the dataset's timings.
#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  diode validate-max-autotune --model h200.safetensors --dataset held_out.msgpack.zst --max-autotune-solution max_autotune.json"
)]
pub(crate) struct ValidateMaxAutotune {
    /// Model file
    #[arg(long, value_name = "FILE")]
    model: PathBuf,

    /// Dataset, or folder of datasets
    #[arg(long, alias = "data", value_name = "PATH")]
    dataset: PathBuf,

    /// Reference configs: torch-diode's solution as JSON or CSV
    #[arg(long, value_name = "FILE")]
    max_autotune_solution: PathBuf,

    /// Report to write, as JSON
    #[arg(long, value_name = "FILE", default_value = "model_performance_analysis_by_op.json")]
    output: PathBuf,

    #[command(flatten)]
    selection: Selection,

    #[command(flatten)]
    batch_size: BatchSize,
}

/// The report. It has no date, so that the same files give the same bytes.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    speedups: Speedups,
    metadata: Metadata,
}

#[derive(Serialize)]
struct Metadata {
    model_path: String,
    model_id: ModelId,
    validation_dataset_path: String,
    validation_dataset_digest: Digest,
    max_autotune_solution_path: String,
    hardware_name: String,
    op_name_filter: String,
    device: &'static str,
    time_unit: &'static str,
    ops_present: Vec<Op>,
    notes: Vec<String>,
}

impl ValidateMaxAutotune {
    pub(crate) fn run(self) -> anyhow::Result<()> {
        self.batch_size.mention("all configs of a problem are predicted at once");
        files::check_may_write(&self.output, true)?;
        files::check_not_input(&self.output, [&self.model, &self.dataset, &self.max_autotune_solution])?;
        files::check_replaces_report(&self.output, "{")?;
        let configs = diode_compat::read_reference_configs(&self.max_autotune_solution)?;
        let model = models::read_model(&self.model)?;
        let set = evaluation::read_timings(&model, &self.dataset, None, &self.selection)?;
        evaluation::warn_if_trained_on(&model, &set);
        let comparison = speedups::compare(&judge(&model, &set)?, &configs, &self.max_autotune_solution)?;
        for note in &comparison.notes {
            say!("note: {note}");
        }
        let text = speedups::speedups_in_words(&comparison.speedups);
        let metadata = self.metadata(&model, &set, comparison.ops, comparison.notes)?;
        let mut bytes = serde_json::to_vec_pretty(&Report { speedups: comparison.speedups, metadata })?;
        bytes.push(b'\n');
        files::write(&self.output, &bytes)?;
        output::text_out(&format!("{text}\n{}: the report\n", self.output.display()))
    }

    fn metadata(
        &self,
        model: &AnyModel,
        set: &TrainingSet,
        ops_present: Vec<Op>,
        notes: Vec<String>,
    ) -> anyhow::Result<Metadata> {
        Ok(Metadata {
            model_path: self.model.display().to_string(),
            model_id: models::model_id(&self.model, model)?,
            validation_dataset_path: self.dataset.display().to_string(),
            validation_dataset_digest: set.digest(),
            max_autotune_solution_path: self.max_autotune_solution.display().to_string(),
            hardware_name: self.selection.hardware_name().unwrap_or("all").to_owned(),
            op_name_filter: self.selection.op_name().map_or("none".to_owned(), |op| op.to_string()),
            device: "cpu",
            time_unit: "ms",
            ops_present,
            notes,
        })
    }
}

/// What `validate-model` prints as JSON.
#[derive(Serialize)]
pub(crate) struct Validation {
    problems: usize,
    timings: usize,
    /// Mean squared error of the natural logarithm of the time, over all timings. `rmse` is its
    /// root.
    mse: f64,
    rmse: f64,
    /// The factor by which a predicted time is typically wrong.
    rmse_exp: f64,
    #[serde(flatten)]
    picks: EvaluationReport,
    worst_predictions: Vec<WorstPrediction>,
    worst_picks: Vec<WorstPick>,
}

#[derive(Serialize)]
struct WorstPrediction {
    problem: Problem,
    config: Config,
    predicted_us: f64,
    measured_us: f64,
    log_error: f64,
    /// The predicted time / the measured time.
    ratio: f64,
}

/// A problem whose first pick is far from its best config.
#[derive(Serialize)]
struct WorstPick {
    problem: Problem,
    picked: Config,
    picked_us: f64,
    best: Config,
    best_us: f64,
    /// How near the pick comes to the best: the best time / the picked time.
    share: f64,
}

impl Validation {
    pub(crate) fn of(judged: &[Judged], picks: EvaluationReport, worst: usize) -> Self {
        let rows = || judged.iter().flat_map(|judged| judged.rows.iter().map(move |row| (judged, row)));
        let timings = rows().count();
        let mse = rows().map(|(_, row)| row.log_error().powi(2)).sum::<f64>() / timings.max(1) as f64;

        let mut by_error: Vec<(&Judged, &JudgedRow)> = rows().collect();
        by_error.sort_by(|(_, a), (_, b)| b.log_error().abs().total_cmp(&a.log_error().abs()));
        let mut by_share: Vec<WorstPick> = judged.iter().filter_map(WorstPick::of).collect();
        by_share.sort_by(|a, b| a.share.total_cmp(&b.share));
        by_share.truncate(worst);
        Self {
            problems: judged.len(),
            timings,
            mse,
            rmse: mse.sqrt(),
            rmse_exp: mse.sqrt().exp(),
            picks,
            worst_predictions: by_error
                .into_iter()
                .take(worst)
                .map(|(judged, row)| WorstPrediction::of(&judged.problem, row))
                .collect(),
            worst_picks: by_share,
        }
    }

    pub(crate) fn in_words(&self) -> String {
        let mut text = format!(
            "{}, {}\nMSE {:.6}, RMSE {:.6} of ln(time); RMSE (exp) {:.4}: times are typically wrong by this factor\n\n{}",
            output::count(self.problems, "problem"),
            output::count(self.timings, "timing"),
            self.mse,
            self.rmse,
            self.rmse_exp,
            metrics(&self.picks),
        );
        if !self.worst_predictions.is_empty() {
            let rows: Vec<Vec<String>> = self.worst_predictions.iter().map(WorstPrediction::cells).collect();
            let header =
                ["op", "dtype", "M×N×K", "config", "predicted", "measured", "predicted/measured", "ln error"];
            text += &format!("\nWorst predictions\n{}", output::table(&header, &rows, 4));
        }
        if !self.worst_picks.is_empty() {
            let rows: Vec<Vec<String>> = self.worst_picks.iter().map(WorstPick::cells).collect();
            let header = ["op", "dtype", "M×N×K", "first pick", "best config", "pick", "best", "of the best"];
            text += &format!("\nWorst first picks\n{}", output::table(&header, &rows, 5));
        }
        text
    }
}

impl WorstPrediction {
    fn of(problem: &Problem, row: &JudgedRow) -> Self {
        Self {
            problem: problem.clone(),
            config: row.config,
            predicted_us: row.predicted_us(),
            measured_us: row.measured_us,
            log_error: row.log_error(),
            ratio: row.log_error().exp(),
        }
    }

    fn cells(&self) -> Vec<String> {
        let measured = [
            self.config.label(),
            output::duration(self.predicted_us),
            output::duration(self.measured_us),
            format!("{:.3}x", self.ratio),
            format!("{:+.3}", self.log_error),
        ];
        about(&self.problem).into_iter().chain(measured).collect()
    }
}

impl WorstPick {
    fn of(judged: &Judged) -> Option<Self> {
        let picked = judged.rows.first()?;
        let best = judged.best();
        Some(Self {
            problem: judged.problem.clone(),
            picked: picked.config,
            picked_us: picked.measured_us,
            best: best.config,
            best_us: best.measured_us,
            share: best.measured_us / picked.measured_us,
        })
    }

    fn cells(&self) -> Vec<String> {
        let measured = [
            self.picked.label(),
            self.best.label(),
            output::duration(self.picked_us),
            output::duration(self.best_us),
            format!("{:.1} %", self.share * 100.0),
        ];
        about(&self.problem).into_iter().chain(measured).collect()
    }
}

fn about(problem: &Problem) -> [String; 3] {
    [problem.op.to_string(), problem.a_dtype.to_string(), problem.dims()]
}

#[cfg(test)]
mod prediction_errors_tests {
    use diode_core::{DType, Op, ProblemFields, Tile};

    use super::*;

    fn row(block: u32, predicted_us: f64, measured_us: f64) -> JudgedRow {
        let config = Config::Mm(Tile::new(block, 64, 32, 3, 4));
        JudgedRow { config, predicted_ln: predicted_us.ln(), measured_us }
    }

    #[test]
    fn errors_are_of_logarithms_and_the_worst_come_first() {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Float16)).unwrap();
        let rows = vec![row(16, 2.0, 4.0), row(32, 3.0, 3.0), row(64, 8.0, 2.0)];
        let judged = Judged { problem, rows, ranked: None, library_us: None, rank_us: 0.0 };
        let picks = EvaluationReport {
            problems: 1,
            configs: 3,
            top_k: Default::default(),
            mape_all: 0.0,
            mape_within_2x: 0.0,
            spearman_median: 0.0,
            rank_us_per_problem: 0.0,
            within_5_percent: Default::default(),
            split: String::new(),
        };
        let validation = Validation::of(&[judged], picks, 2);
        // The errors of ln are −ln 2, 0 and ln 4 = 2·ln 2, so the mean square is 5/3·(ln 2)².
        let expected = 5.0 / 3.0 * 2_f64.ln().powi(2);
        assert!((validation.mse - expected).abs() < 1e-12, "{}", validation.mse);
        assert!((validation.rmse_exp - expected.sqrt().exp()).abs() < 1e-12);
        let ratios: Vec<f64> = validation.worst_predictions.iter().map(|worst| worst.ratio).collect();
        assert!((ratios[0] - 4.0).abs() < 1e-12 && (ratios[1] - 0.5).abs() < 1e-12, "{ratios:?}");
        assert_eq!(validation.worst_picks[0].share, 0.5);
        let words = validation.in_words();
        assert!(words.contains("4.000x") && words.contains("8.00 µs"), "{words}");
        assert!(words.contains("50.0 %"), "{words}");
    }
}
