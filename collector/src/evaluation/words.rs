//! An evaluation as text.

use diode_train::EvaluationGroup;

use super::contender::Contender;
use super::document::Document;
use super::reference;
use super::report::metrics;
use super::tables::{self, Table, percent};
use crate::output;

pub(crate) fn in_words(document: &Document) -> String {
    let Document { main, worst, max_autotune, .. } = document;
    let mut text = metrics(&main.evaluation.report);
    text += &format!("\n{}", text_of(&tables::choices(document)));
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
        text += &format!("\nWorst first picks\n{}", text_of(&tables::worst(worst)));
    }
    if let Some(speedups) = max_autotune {
        text += &format!("\n{}", reference::in_words(speedups));
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
