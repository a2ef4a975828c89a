//! Shows an evaluation as text.

use diode_api::EvaluationReport;

use crate::output;

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
