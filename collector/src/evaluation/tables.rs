//! The tables of an evaluation. The text and the page show the same tables.

use diode_api::TopK;

use super::document::{Document, Worst};
use crate::output;

/// A table. The first `words` columns are text, the others are numbers.
pub(crate) struct Table {
    pub(crate) header: Vec<&'static str>,
    pub(crate) rows: Vec<Vec<String>>,
    pub(crate) words: usize,
}

/// A table of all ways to choose that were judged.
pub(crate) fn choices(document: &Document) -> Table {
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
pub(crate) fn worst(worst: &[Worst]) -> Table {
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
