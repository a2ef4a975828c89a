//! An evaluation as one page. It has no scripts and loads nothing.

use std::fmt::Write as _;

use diode_core::ProblemGroup;
use diode_train::{Judged, ProblemRow, TrainingSet};

use super::document::Document;
use super::svg::{Axis, Bar, Plot, bars, escaped};
use super::tables::{self, Table, percent};
use super::words::telling_groups;
use crate::output;

/// The first bytes of every page.
pub(crate) const BEGINNING: &str = "<!doctype html>";

const STYLE: &str = include_str!("page.css");

pub(crate) fn page(document: &Document, judged: &[Judged], set: &TrainingSet) -> String {
    let name = escaped(&document.main.name());
    let hardware = escaped(&set.hardware().name);
    let report = &document.main.evaluation.report;
    let mut page = format!(
        "{BEGINNING}\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{name} on {hardware}</title>\n<style>\n{STYLE}</style>\n\
         <h1>{name} on {hardware}</h1>\n<p>Judged by {} of {}, {} ({}).</p>\n",
        output::count(set.timings(), "timing"),
        output::count(report.problems, "problem"),
        escaped(&report.split),
        set.method(),
    );
    page += &facts(document);
    page += "<h2>Ways to choose</h2>\n<p>The share of the best time that each reaches, as geometric mean over \
             problems and of the worst problem. \u{201c}Timed\u{201d} is how many configs it has to time for every new problem.";
    if let Some(library) = &document.main.evaluation.with_library {
        let how =
            if library.predicted { "picked where predicted to be fastest" } else { "timed beside the picks" };
        let _ = write!(page, " \u{201c}Of everything\u{201d} counts the library kernel, {how}.");
    }
    page += "</p>\n";
    page += &table(&tables::choices(document));
    page += "<div class=\"plots\">\n";
    page += &agreement(judged);
    page += &regret(&document.main.evaluation.per_problem);
    page += &errors(document);
    page += &calibration(document);
    page += "</div>\n";
    if !document.worst.is_empty() {
        page += "<h2>Worst first picks</h2>\n";
        page += &table(&tables::worst(&document.worst));
    }
    let _ = write!(
        page,
        "<footer>Data {}. Made by diode {}.</footer>\n</html>\n",
        set.digest(),
        env!("CARGO_PKG_VERSION")
    );
    page
}

/// The figures that readers look for first.
fn facts(document: &Document) -> String {
    let evaluation = &document.main.evaluation;
    let report = &evaluation.report;
    let share = |k: &str| report.top_k.get(k).map_or(f64::NAN, |top| top.geomean);
    let mut facts = vec![
        (percent(share("1")), "of the best Triton time by the first pick".to_owned()),
        (
            percent(report.top_k.get("1").map_or(f64::NAN, |top| top.worst)),
            "by the worst first pick".to_owned(),
        ),
        (percent(share("5")), "by the best of five picks".to_owned()),
    ];
    if let Some(top) = evaluation.with_library.as_ref().and_then(|with| with.top_k.get("1")) {
        facts.push((percent(top.geomean), "of everything, the library included".to_owned()));
    }
    if let Some(&within) = report.within_5_percent.get("1") {
        facts.push((percent(within), "of first picks within 5 % of the best".to_owned()));
    }
    facts.push((percent(report.mape_within_2x), "mean error of times within twice the best".to_owned()));
    let items = facts.iter().map(|(figure, words)| format!("<li><b>{figure}</b>{words}</li>\n"));
    format!("<ul class=\"facts\">\n{}</ul>\n", items.collect::<String>())
}

/// A plot of predicted against measured times, over all timings.
fn agreement(judged: &[Judged]) -> String {
    let rows = || judged.iter().flat_map(|judged| &judged.rows);
    let measured = Axis::logarithmic("measured, µs", rows().map(|row| row.measured_us));
    let predicted = Axis::logarithmic("predicted, µs", rows().map(|row| row.measured_us));
    let mut plot = Plot::new(measured, predicted);
    plot.density(rows().map(|row| (row.measured_us, row.predicted_us())));
    plot.line((0.0, 0.0), (f64::MAX, f64::MAX), "even");
    section(
        "Predicted against measured",
        "All timings; stronger where more of them are. On the dashed line a prediction is right; at the edge \
         are those outside of the measured range.",
        &plot.finish("Predicted against measured times"),
    )
}

/// A plot of what first picks lose, against the problem's work.
fn regret(rows: &[ProblemRow]) -> String {
    let lost = |row: &ProblemRow| (1.0 - row.best_us / row.picked_us) * 100.0;
    let most = rows.iter().map(lost).fold(5.0, f64::max);
    let mut plot = Plot::new(
        Axis::logarithmic("work, Gflop", rows.iter().map(|row| row.gflop)),
        Axis::linear("lost by the first pick, %", 0.0, most * 1.05),
    );
    plot.line((0.0, 5.0), (f64::MAX, 5.0), "even");
    for row in rows {
        let words = format!(
            "{} {} {} ({}): {:.1} % lost; picked {}, best {}",
            row.problem.op,
            row.problem.dims(),
            row.problem.a_dtype,
            row.kind,
            lost(row),
            row.picked.label(),
            row.best.label()
        );
        let special = row.kind != ProblemGroup::Rest;
        plot.point(row.gflop, lost(row), if special { "special" } else { "point" }, &words);
    }
    section(
        "Regret by size",
        "One point per problem; rings are those that are skinny, a step of decoding, unaligned or long in K. \
         The dashed line is at 5\u{a0}%.",
        &plot.finish("Share of time lost by the first pick, by the work of the problem"),
    )
}

/// A bar chart of the error of near-best times, by group.
fn errors(document: &Document) -> String {
    let groups = telling_groups(&document.main).filter(|group| group.mape_within_2x.is_finite());
    let all: Vec<Bar> = groups
        .map(|group| Bar {
            label: format!("{} ({})", group.value, group.problems),
            value: group.mape_within_2x,
            words: percent(group.mape_within_2x),
        })
        .collect();
    section(
        "Error by group",
        "Mean error of times within twice the best; the number of problems in parentheses.",
        &bars("Mean error of near-best times by group", &all),
    )
}

/// A plot of the confidence that the model's file states against the observed one.
fn calibration(document: &Document) -> String {
    let evaluation = &document.main.evaluation;
    let observed = &evaluation.report.within_5_percent;
    let claims = &evaluation.claimed_within_5_percent;
    let lowest = claims.values().chain(observed.values()).copied().fold(1.0, f64::min);
    let from = ((lowest * 10.0 - 0.5).floor() * 10.0).max(0.0);
    let side = |label| Axis::linear(label, from, 100.0);
    let mut plot = Plot::new(side("claimed, %"), side("observed, %"));
    plot.line((from, from), (100.0, 100.0), "even");
    for (k, &claimed) in claims {
        let Some(&share) = observed.get(k) else { continue };
        let words = format!("best of {k}: claimed {}, observed {}", percent(claimed), percent(share));
        plot.point(claimed * 100.0, share * 100.0, "point", &words);
    }
    let drawing = if claims.is_empty() {
        "<p>This model's file claims nothing of its picks.</p>".to_owned()
    } else {
        plot.finish("Claimed against observed share of picks within 5 % of the best")
    };
    section(
        "Calibration",
        "How often the best of 1, 3, 5, 8 and 16 picks is within 5 % of the best: what the model's file claims from \
         its own cross-validation, and what was observed here. On the dashed line the claim is right.",
        &drawing,
    )
}

fn section(title: &str, words: &str, drawing: &str) -> String {
    format!("<section><h2>{title}</h2>\n<p>{words}</p>\n{drawing}</section>\n")
}

/// A table as markup. Columns of words do not wrap, except the first.
fn table(table: &Table) -> String {
    let class = |column: usize| match column {
        column if column >= table.words => " class=\"number\"",
        0 => "",
        _ => " class=\"exact\"",
    };
    let line = |tag: &str, cells: &[String]| {
        let cells = cells.iter().enumerate();
        let cells: String = cells
            .map(|(column, cell)| format!("<{tag}{}>{}</{tag}>", class(column), escaped(cell)))
            .collect();
        format!("<tr>{cells}</tr>\n")
    };
    let header: Vec<String> = table.header.iter().map(|&cell| cell.to_owned()).collect();
    let body: String = table.rows.iter().map(|row| line("td", row)).collect();
    format!("<div class=\"wide\"><table>\n{}{body}</table></div>\n", line("th", &header))
}
