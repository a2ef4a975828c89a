//! A whole evaluation, as `diode evaluate --json` prints it.

use std::collections::BTreeMap;

use diode_api::{EvaluationReport, TopK};
use diode_core::{Config, Invalid, Layout, OperandAlignment, Problem, ProblemGroup, Table};
use diode_model::Predictor;
use serde::Serialize;

use super::baselines::{Baselines, OtherProblems, baselines};
use super::judged::{Judged, judge_while};
use crate::evaluation::{PICKS, Verdict, near_error, report, with_library, within_5_percent};
use crate::{TrainError, TrainingSet};

/// How good a model is on some problems.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Evaluation {
    #[serde(flatten)]
    pub report: EvaluationReport,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_library: Option<WithLibrary>,
    /// The value of `within_5_percent` that the model's file states.
    pub claimed_within_5_percent: BTreeMap<String, f64>,
    pub groups: Vec<EvaluationGroup>,
    pub per_problem: Vec<ProblemRow>,
}

/// The figures with the library kernel as a candidate, over the problems where it was timed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WithLibrary {
    pub problems: usize,
    /// Whether the model predicts the library's time and picks the library like any config. Otherwise
    /// the library is timed beside the picks.
    pub predicted: bool,
    pub top_k: BTreeMap<String, TopK>,
}

/// The figures of problems that have something in common.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EvaluationGroup {
    /// What the problems have in common: `kind`, `dtype`, `op` or `layout`.
    pub by: &'static str,
    pub value: String,
    pub problems: usize,
    pub top_k: BTreeMap<String, TopK>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub with_library: Option<BTreeMap<String, TopK>>,
    pub mape_within_2x: f64,
    pub within_5_percent: BTreeMap<String, f64>,
}

/// The result for one problem.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProblemRow {
    pub problem: Problem,
    pub kind: ProblemGroup,
    pub alignment: OperandAlignment,
    pub gflop: f64,
    pub flops_per_byte: f64,
    pub configs: usize,
    pub picked: Config,
    pub picked_us: f64,
    /// `null` if the model predicts a greater time than a number can hold.
    pub predicted_us: f64,
    pub best: Config,
    pub best_us: f64,
    /// The place of the best config among the picks, counted from 1.
    pub best_rank: usize,
    /// For each k, the share of the best config that the best of k picks reaches.
    pub shares: BTreeMap<String, f64>,
    /// The same with the library kernel as a candidate, as shares of the best of everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares_with_library: Option<BTreeMap<String, f64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub library_us: Option<f64>,
    /// The mean error of the predicted times of configs within twice the best time, as a share.
    pub near_error: f64,
}

impl Evaluation {
    /// Judges a model. Returns its predictions, too.
    pub fn new(model: &dyn Predictor, set: &TrainingSet) -> Result<(Self, Vec<Judged>), TrainError> {
        Self::of_while(model, set, &|| true)
    }

    /// Judges like [`Self::new`]. Asks `goes_on` before each problem and [stops](TrainError::Stopped) if it returns
    /// false.
    pub fn of_while(
        model: &dyn Predictor,
        set: &TrainingSet,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(Self, Vec<Judged>), TrainError> {
        let judged = judge_while(model, set, goes_on)?;
        let verdicts: Vec<Verdict> = judged.iter().map(Verdict::new).collect();
        let library = with_library(&verdicts).map(|top_k| WithLibrary {
            problems: judged.iter().filter(|judged| judged.library_us.is_some()).count(),
            predicted: judged.iter().any(Judged::predicts_library),
            top_k,
        });
        let evaluation = Self {
            report: report(&verdicts, &super::split(model, set)),
            with_library: library,
            claimed_within_5_percent: model
                .evaluation()
                .map(|report| report.within_5_percent.clone())
                .unwrap_or_default(),
            groups: groups(&judged, &verdicts),
            per_problem: judged
                .iter()
                .zip(&verdicts)
                .map(|(j, verdict)| ProblemRow::of(j, verdict))
                .collect(),
        };
        Ok((evaluation, judged))
    }

    /// The problems with the worst first picks. The worst problem stands first.
    pub fn worst(&self, count: usize) -> Vec<&ProblemRow> {
        let mut rows: Vec<&ProblemRow> = self.per_problem.iter().collect();
        rows.sort_by(|a, b| (a.best_us / a.picked_us).total_cmp(&(b.best_us / b.picked_us)));
        rows.truncate(count);
        rows
    }
}

/// Choices without a model, judged on the same problems. `table` has other problems of the same
/// hardware.
pub fn without_a_model(
    judged: &[Judged],
    set: &TrainingSet,
    table: Option<Table>,
) -> Result<Baselines, Invalid> {
    baselines(judged, set, table.map(OtherProblems::new).as_ref())
}

/// The groups to which a problem belongs, as pairs of dimension and value.
fn memberships(problem: &Problem) -> [(&'static str, String); 4] {
    let letter = |layout| if layout == Layout::Row { 'n' } else { 't' };
    [
        ("kind", ProblemGroup::for_problem(problem).to_string()),
        ("dtype", problem.a_dtype.to_string()),
        ("op", problem.op.to_string()),
        ("layout", [letter(problem.a_layout), letter(problem.b_layout)].iter().collect()),
    ]
}

fn groups(judged: &[Judged], verdicts: &[Verdict]) -> Vec<EvaluationGroup> {
    let mut members: BTreeMap<(usize, &'static str, String), Vec<Verdict>> = BTreeMap::new();
    for (judged, verdict) in judged.iter().zip(verdicts) {
        for (place, (by, value)) in memberships(&judged.problem).into_iter().enumerate() {
            members.entry((place, by, value)).or_default().push(verdict.clone());
        }
    }
    let group = |((_, by, value), verdicts): ((usize, &'static str, String), Vec<Verdict>)| EvaluationGroup {
        by,
        value,
        problems: verdicts.len(),
        top_k: report(&verdicts, "").top_k,
        with_library: with_library(&verdicts),
        mape_within_2x: near_error(&verdicts),
        within_5_percent: within_5_percent(&verdicts),
    };
    members.into_iter().map(group).collect()
}

impl ProblemRow {
    fn of(judged: &Judged, verdict: &Verdict) -> Self {
        let (first, best) = (judged.first().0, judged.best());
        let picked = judged.rows.iter().find(|row| row.config == first).unwrap_or(&judged.rows[0]);
        let problem = &judged.problem;
        let rank = judged.rows.iter().position(|row| row.config == best.config);
        let by_picks = |shares: [f64; PICKS.len()]| {
            PICKS.iter().zip(shares).map(|(k, share)| (k.to_string(), share)).collect()
        };
        Self {
            problem: problem.clone(),
            kind: ProblemGroup::for_problem(problem),
            alignment: problem.alignment(),
            gflop: problem.flops() / 1e9,
            flops_per_byte: problem.flops() / problem.bytes(),
            configs: judged.rows.len(),
            picked: picked.config,
            picked_us: picked.measured_us,
            predicted_us: picked.predicted_us(),
            best: best.config,
            best_us: best.measured_us,
            best_rank: rank.map_or(judged.rows.len(), |rank| rank + 1),
            shares: by_picks(verdict.shares()),
            shares_with_library: verdict.shares_with_library().map(by_picks),
            library_us: judged.library_us,
            near_error: verdict.near_error(),
        }
    }
}
