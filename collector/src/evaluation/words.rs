//! An evaluation as text.

use diode_api::{EvaluationReport, TopK};
use diode_compat::{Speedups, Validation, WorstPick, WorstPrediction};
use diode_core::Problem;
use diode_train::EvaluationGroup;

use crate::evaluation::{Contender, Document, Worst};
use crate::output;

pub(crate) fn in_words(document: &Document) -> String {
    let Document { main, worst, max_autotune, .. } = document;
    let mut text = metrics(&main.evaluation.report);
    text += &format!("\n{}", text_of(&table_of_choices(document)));
    if let Some(library) = &main.evaluation.with_library {
        let how =
            if library.predicted { "picked when predicted to be fastest" } else { "timed beside the picks" };
        text += &format!(
            "\"Of everything\" counts the library kernel, {how}; {} have its time.\n",
            output::count(library.problems, "problem")
        );
    }
    text += &format!("\n{}", groups(main));
    if !worst.is_empty() {
        text += &format!("\nWorst first picks\n{}", text_of(&table_of_worst(worst)));
    }
    if let Some(speedups) = max_autotune {
        text += &format!("\n{}", speedups_in_words(speedups));
    }
    text
}

fn text_of(table: &Table) -> String {
    output::table(&table.header, &table.rows, table.words)
}

/// The groups by kind, and the groups by every other property in which the problems differ.
pub(crate) fn telling_groups(main: &Contender) -> impl Iterator<Item = &EvaluationGroup> {
    let groups = &main.evaluation.groups;
    let differs = |by: &str| groups.iter().filter(|group| group.by == by).count() > 1;
    groups.iter().filter(move |group| group.by == "kind" || differs(group.by))
}

fn groups(main: &Contender) -> String {
    let rows: Vec<Vec<String>> = telling_groups(main)
        .map(|group| {
            let top = |k: &str| group.top_k.get(k).map_or(0.0, |top| top.geomean);
            vec![
                group.by.to_owned(),
                group.value.clone(),
                group.problems.to_string(),
                percent(top("1")),
                percent(group.top_k.get("1").map_or(0.0, |top| top.worst)),
                percent(top("5")),
                percent(group.mape_within_2x),
            ]
        })
        .collect();
    output::table(&["by", "group", "problems", "top 1", "worst", "top 5", "time error"], &rows, 2)
}

/// Shares of top-k and errors, as a table and two lines.
pub(crate) fn metrics(report: &EvaluationReport) -> String {
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let mut picks: Vec<_> = report.top_k.iter().collect();
    // The keys are numbers written as text.
    picks.sort_by_key(|(k, _)| k.parse::<u32>().unwrap_or(u32::MAX));
    let rows: Vec<Vec<String>> = picks
        .into_iter()
        .map(|(k, top)| {
            let within = report.within_5_percent.get(k).map_or(String::new(), |share| percent(*share));
            vec![format!("top {k}"), percent(top.geomean), percent(top.worst), within]
        })
        .collect();
    format!(
        "{}: {}, up to {} each\n\n{}\ntime error: {} over all timings, {} within twice the best\n\
         median rank correlation {:.3}{}\n",
        report.split,
        output::count(report.problems, "problem"),
        output::count(report.configs, "config"),
        output::table(&["picks", "of the best", "worst problem", "within 5 %"], &rows, 1),
        percent(report.mape_all),
        percent(report.mape_within_2x),
        report.spearman_median,
        rank_time(report.rank_us_per_problem),
    )
}

/// The end of a sentence that says how long ranking takes. Empty if ranking was not timed.
fn rank_time(us: f64) -> String {
    if us > 0.0 { format!("; ranking takes {} per problem", output::duration(us)) } else { String::new() }
}

/// Parses a number of folds. It must be two or more: with one fold, nothing would be left to train on.
pub(crate) fn parse_folds(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(folds) if folds >= 2 => Ok(folds),
        _ => Err("expected a number of folds, 2 or more".to_owned()),
    }
}

/// Parses a number of folds, where 0 means no cross-validation.
pub(crate) fn parse_folds_or_none(text: &str) -> Result<usize, String> {
    if text == "0" { Ok(0) } else { parse_folds(text).map_err(|error| format!("{error}, or 0 for none")) }
}

/// A table. The first `words` columns are text, the others are numbers.
pub(crate) struct Table {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) words: usize,
}

/// A table of all ways to choose that were judged.
pub(crate) fn table_of_choices(document: &Document) -> Table {
    let with_library = document.main.evaluation.with_library.is_some();
    let row = |what: String, timed: usize, triton: Option<TopK>, everything: Option<TopK>| {
        let mut row = vec![what, timed.to_string()];
        row.extend(shares(triton));
        row.extend(with_library.then(|| shares(everything)).into_iter().flatten());
        row
    };
    let mut rows = Vec::new();
    for contender in std::iter::once(&document.main).chain(&document.compared) {
        let evaluation = &contender.evaluation;
        for (picks, timed, words) in [("1", 0, "first pick"), ("5", 5, "best of 5 picks")] {
            let everything = evaluation.with_library.as_ref();
            rows.push(row(
                format!("{}: {words}", contender.name()),
                timed,
                evaluation.report.top_k.get(picks).copied(),
                everything.and_then(|with| with.top_k.get(picks).copied()),
            ));
        }
    }
    let baselines = document.baselines.values();
    rows.extend(baselines.map(|one| row(one.what.clone(), one.timed, one.triton, one.with_library)));
    let mut header = vec!["way to choose", "timed", "of best Triton", "worst"];
    header.extend(with_library.then_some(["of everything", "worst"]).into_iter().flatten());
    Table { header, rows, words: 1 }
}

/// A table of the worst first picks.
pub(crate) fn table_of_worst(worst: &[Worst]) -> Table {
    let row = |one: &Worst| {
        vec![
            format!("{} {} {}", one.problem.op, one.problem.dims(), one.problem.a_dtype),
            one.kind.to_string(),
            one.picked.label(),
            one.best.label(),
            output::duration(one.picked_us),
            output::duration(one.best_us),
            one.best_rank.to_string(),
            percent(one.share),
        ]
    };
    Table {
        header: vec![
            "problem",
            "kind",
            "first pick",
            "best config",
            "pick",
            "best",
            "its rank",
            "of the best",
        ],
        rows: worst.iter().map(row).collect(),
        words: 4,
    }
}

fn shares(top: Option<TopK>) -> [String; 2] {
    top.map_or(["–".to_owned(), "–".to_owned()], |top| [percent(top.geomean), percent(top.worst)])
}

pub(crate) fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "–".to_owned() }
}
/// A comparison with reference configs, as a table.
pub(crate) fn speedups_in_words(speedups: &Speedups) -> String {
    let mut groups: Vec<(String, _)> =
        speedups.per_op.iter().map(|(op, by_picks)| (op.to_string(), by_picks)).collect();
    if groups.len() > 1 {
        groups.push(("all".to_owned(), &speedups.overall));
    }
    let mut rows = Vec::new();
    for (op, by_picks) in groups {
        for summary in &by_picks.0 {
            let (breakdown, metrics) = (&summary.performance_breakdown, &summary.overall_metrics);
            rows.push(vec![
                op.clone(),
                format!("top {}", summary.top_n),
                summary.shapes_analyzed.to_string(),
                format!("{:.3}x", metrics.median_speedup_ratio),
                format!("{:.3}x", metrics.worst_case),
                breakdown.model_better.count.to_string(),
                breakdown.model_equal.count.to_string(),
                breakdown.model_worse.count.to_string(),
                format!("{:.1} %", metrics.total_time_saved_pct),
            ]);
        }
    }
    let header =
        ["op", "picks", "problems", "median speedup", "worst", "faster", "equal", "slower", "time saved"];
    output::table(&header, &rows, 2)
}

/// A validation as text.
pub(crate) fn validation_in_words(found: &Validation) -> String {
    let mut text = format!(
        "{}, {}\nMSE {:.6}, RMSE {:.6} of ln(time); RMSE (exp) {:.4}: times are typically wrong by this factor\n\n{}",
        output::count(found.problems, "problem"),
        output::count(found.timings, "timing"),
        found.mse,
        found.rmse,
        found.rmse_exp,
        metrics(&found.picks),
    );
    if !found.worst_predictions.is_empty() {
        let rows: Vec<Vec<String>> = found.worst_predictions.iter().map(prediction_cells).collect();
        let header =
            ["op", "dtype", "M×N×K", "config", "predicted", "measured", "predicted/measured", "ln error"];
        text += &format!("\nWorst predictions\n{}", output::table(&header, &rows, 4));
    }
    if !found.worst_picks.is_empty() {
        let rows: Vec<Vec<String>> = found.worst_picks.iter().map(pick_cells).collect();
        let header = ["op", "dtype", "M×N×K", "first pick", "best config", "pick", "best", "of the best"];
        text += &format!("\nWorst first picks\n{}", output::table(&header, &rows, 5));
    }
    text
}

fn prediction_cells(one: &WorstPrediction) -> Vec<String> {
    let measured = [
        one.config.label(),
        output::duration(one.predicted_us),
        output::duration(one.measured_us),
        format!("{:.3}x", one.ratio),
        format!("{:+.3}", one.log_error),
    ];
    about(&one.problem).into_iter().chain(measured).collect()
}

fn pick_cells(one: &WorstPick) -> Vec<String> {
    let measured = [
        one.picked.label(),
        one.best.label(),
        output::duration(one.picked_us),
        output::duration(one.best_us),
        format!("{:.1} %", one.share * 100.0),
    ];
    about(&one.problem).into_iter().chain(measured).collect()
}

fn about(problem: &Problem) -> [String; 3] {
    [problem.op.to_string(), problem.a_dtype.to_string(), problem.dims()]
}

#[cfg(test)]
mod tests {
    use diode_core::{Config, DType, Op, ProblemFields, Tile};

    use super::*;

    #[test]
    fn the_worst_are_shown_with_factors_times_and_shares() {
        let problem = Problem::new(ProblemFields::plain(Op::Mm, 1, 64, 64, 64, DType::Float16)).unwrap();
        let config = Config::Mm(Tile::new(16, 64, 32, 3, 4));
        let prediction = WorstPrediction {
            problem: problem.clone(),
            config,
            predicted_us: 8.0,
            measured_us: 2.0,
            log_error: 4_f64.ln(),
            ratio: 4.0,
        };
        assert!(prediction_cells(&prediction).contains(&"4.000x".to_owned()));
        assert!(prediction_cells(&prediction).contains(&"8.00 µs".to_owned()));
        let pick =
            WorstPick { problem, picked: config, picked_us: 4.0, best: config, best_us: 2.0, share: 0.5 };
        assert!(pick_cells(&pick).contains(&"50.0 %".to_owned()));
    }
}
