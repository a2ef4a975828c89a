//! An evaluation as text.

use diode_core::api::TopK;
use diode_train::Group;

use super::contender::Contender;
use super::document::Document;
use super::reference;
use super::report::metrics;
use crate::output;

pub(crate) fn in_words(document: &Document) -> String {
    let Document { main, worst, max_autotune, .. } = document;
    let mut text = metrics(&main.evaluation.report);
    text += &format!("\n{}", choices(document));
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
        let rows: Vec<Vec<String>> = worst
            .iter()
            .map(|worst| {
                vec![
                    worst.problem.op.to_string(),
                    worst.problem.a_dtype.to_string(),
                    worst.problem.dims(),
                    worst.kind.to_string(),
                    worst.picked.label(),
                    worst.best.label(),
                    output::duration(worst.picked_us),
                    output::duration(worst.best_us),
                    worst.best_rank.to_string(),
                    percent(worst.share),
                ]
            })
            .collect();
        let header = [
            "op",
            "dtype",
            "M×N×K",
            "kind",
            "first pick",
            "best config",
            "pick",
            "best",
            "its rank",
            "of the best",
        ];
        text += &format!("\nWorst first picks\n{}", output::table(&header, &rows, 6));
    }
    if let Some(speedups) = max_autotune {
        text += &format!("\n{}", reference::in_words(speedups));
    }
    text
}

/// All ways to choose that were judged, in one table.
pub(crate) struct Choice {
    pub(crate) what: String,
    /// How many configs it times.
    pub(crate) timed: usize,
    pub(crate) triton: Option<TopK>,
    pub(crate) with_library: Option<TopK>,
}

pub(crate) fn all_choices(document: &Document) -> Vec<Choice> {
    let mut choices = Vec::new();
    for contender in std::iter::once(&document.main).chain(&document.compared) {
        for (picks, words) in [("1", "first pick"), ("5", "best of 5 picks")] {
            let evaluation = &contender.evaluation;
            choices.push(Choice {
                what: format!("{}: {words}", contender.name()),
                timed: if picks == "1" { 0 } else { 5 },
                triton: evaluation.report.top_k.get(picks).copied(),
                with_library: evaluation
                    .with_library
                    .as_ref()
                    .and_then(|with| with.top_k.get(picks).copied()),
            });
        }
    }
    choices.extend(document.baselines.values().map(|baseline| Choice {
        what: baseline.what.clone(),
        timed: baseline.timed,
        triton: baseline.triton,
        with_library: baseline.with_library,
    }));
    choices
}

fn choices(document: &Document) -> String {
    let with_library = document.main.evaluation.with_library.is_some();
    let rows: Vec<Vec<String>> = all_choices(document)
        .into_iter()
        .map(|choice| {
            let mut row = vec![choice.what, choice.timed.to_string()];
            row.extend(cells(choice.triton));
            row.extend(with_library.then(|| cells(choice.with_library)).into_iter().flatten());
            row
        })
        .collect();
    let mut header = vec!["way to choose", "timed", "of best Triton", "worst"];
    header.extend(with_library.then_some(["of everything", "worst"]).into_iter().flatten());
    output::table(&header, &rows, 1)
}

fn cells(top: Option<TopK>) -> [String; 2] {
    top.map_or(["–".to_owned(), "–".to_owned()], |top| [percent(top.geomean), percent(top.worst)])
}

/// The groups by kind, and by all else in which the problems differ.
pub(crate) fn telling_groups(main: &Contender) -> impl Iterator<Item = &Group> {
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

fn percent(share: f64) -> String {
    if share.is_finite() { format!("{:.1} %", share * 100.0) } else { "no number".to_owned() }
}
