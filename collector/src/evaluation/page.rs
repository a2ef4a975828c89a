//! An evaluation as one page. It has no scripts and loads nothing.

use std::fmt::Write as _;

use diode_core::ProblemGroup;
use diode_train::{Judged, ProblemRow, TrainingSet};

use crate::evaluation::Document;
use crate::evaluation::words::{Table, percent, table_of_choices, table_of_worst, telling_groups};
use crate::output::{self, significant};

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
    page += &table(&table_of_choices(document));
    page += "<div class=\"plots\">\n";
    page += &agreement(judged);
    page += &regret(&document.main.evaluation.per_problem);
    page += &errors(document);
    page += &calibration(document);
    page += "</div>\n";
    if !document.worst.is_empty() {
        page += "<h2>Worst first picks</h2>\n";
        page += &table(&table_of_worst(&document.worst));
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

/// The drawing's size in its own units. It is narrow, so that text stays readable on a phone.
const WIDTH: f64 = 480.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 44.0;
/// The height of one bar of a bar chart, with the gap below it.
const BAR: f64 = 26.0;
/// About how many marks an axis has.
const MARKS: f64 = 5.0;

/// The range of values along one side of a plot.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Axis {
    label: &'static str,
    from: f64,
    to: f64,
    logarithmic: bool,
}

impl Axis {
    /// A linear axis between two values.
    pub(crate) fn linear(label: &'static str, from: f64, to: f64) -> Self {
        Self { label, from, to: if to > from { to } else { from + 1.0 }, logarithmic: false }
    }

    /// A logarithmic axis over values above 0, with a little room at both ends.
    fn logarithmic(label: &'static str, values: impl Iterator<Item = f64>) -> Self {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0);
        let (low, high) = usable.fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low <= high { (low, high) } else { (1.0, 10.0) };
        Self { label, from: low / 1.3, to: high * 1.3, logarithmic: true }
    }

    /// A value's place along the axis, from 0 to 1. Values outside the range get the nearest end.
    pub(crate) fn share(&self, value: f64) -> f64 {
        let share = if self.logarithmic {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        share.clamp(0.0, 1.0)
    }

    fn marks(&self) -> Vec<f64> {
        if self.logarithmic {
            let decades = (self.to / self.from).log10();
            let steps: &[f64] = if decades < 2.5 { &[1.0, 2.0, 5.0] } else { &[1.0] };
            let (first, last) = (self.from.log10().floor() as i32, self.to.log10().ceil() as i32);
            let all =
                (first..=last).flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
            return all.filter(|mark| (self.from..=self.to).contains(mark)).collect();
        }
        let rough = (self.to - self.from) / MARKS;
        let power = 10_f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|nice| nice * power).into_iter().find(|&step| step >= rough);
        let step = step.unwrap_or(rough);
        let (first, last) = ((self.from / step).ceil() as i64, (self.to / step).floor() as i64);
        (first..=last).map(|mark| mark as f64 * step).collect()
    }
}

/// A plot with two axes, as SVG. Colours come from the page's style sheet, so that plots suit light and dark
/// pages.
pub(crate) struct Plot {
    x: Axis,
    y: Axis,
    body: String,
}

impl Plot {
    pub(crate) fn new(x: Axis, y: Axis) -> Self {
        Self { x, y, body: String::new() }
    }

    fn at(&self, x: f64, y: f64) -> (f64, f64) {
        let across = LEFT + self.x.share(x) * (WIDTH - LEFT - RIGHT);
        (across, HEIGHT - BOTTOM - self.y.share(y) * (HEIGHT - TOP - BOTTOM))
    }

    /// A point. A pointer over it shows `words`.
    pub(crate) fn point(&mut self, x: f64, y: f64, class: &str, words: &str) {
        let (x, y) = self.at(x, y);
        let words = escaped(words);
        // Writing to a String cannot fail.
        let _ = write!(
            self.body,
            "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"><title>{words}</title></circle>"
        );
    }

    /// A line between two points.
    pub(crate) fn line(&mut self, from: (f64, f64), to: (f64, f64), class: &str) {
        let ((x1, y1), (x2, y2)) = (self.at(from.0, from.1), self.at(to.0, to.1));
        let _ = write!(
            self.body,
            "<line class=\"{class}\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>"
        );
    }

    /// A grid of cells that shows where points lie: the more points in a cell, the stronger its
    /// colour.
    fn density(&mut self, points: impl Iterator<Item = (f64, f64)>) {
        const ACROSS: usize = 64;
        const DOWN: usize = 40;
        let mut counts = vec![0_u32; ACROSS * DOWN];
        for (x, y) in points {
            let column = ((self.x.share(x) * ACROSS as f64) as usize).min(ACROSS - 1);
            let row = ((self.y.share(y) * DOWN as f64) as usize).min(DOWN - 1);
            counts[row * ACROSS + column] += 1;
        }
        let most = f64::from(counts.iter().copied().max().unwrap_or(1).max(1));
        let (width, height) = ((WIDTH - LEFT - RIGHT) / ACROSS as f64, (HEIGHT - TOP - BOTTOM) / DOWN as f64);
        for (index, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let (column, row) = ((index % ACROSS) as f64, (index / ACROSS) as f64);
            let (x, y) = (LEFT + column * width, HEIGHT - BOTTOM - (row + 1.0) * height);
            let share = 0.12 + 0.88 * f64::from(count).ln_1p() / most.ln_1p();
            let _ = write!(
                self.body,
                "<rect class=\"cell\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{height:.2}\" \
                 opacity=\"{share:.2}\"/>"
            );
        }
    }

    /// The drawing. `name` describes it to readers who cannot see it.
    pub(crate) fn finish(self, name: &str) -> String {
        let mut axes = String::new();
        let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);
        let mut mark = |[x1, y1, x2, y2]: [f64; 4], [x, y]: [f64; 2], anchor: &str, mark: f64| {
            let _ = write!(
                axes,
                "<line class=\"grid\" x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"/>\
                 <text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{}</text>",
                number(mark)
            );
        };
        for at in self.x.marks() {
            let (x, _) = self.at(at, self.y.from);
            mark([x, TOP, x, bottom], [x, bottom + 16.0], "middle", at);
        }
        for at in self.y.marks() {
            let (_, y) = self.at(self.x.from, at);
            mark([LEFT, y, right, y], [LEFT - 6.0, y + 4.0], "end", at);
        }
        let (middle_x, middle_y) = (f64::midpoint(LEFT, right), f64::midpoint(TOP, bottom));
        let (x_label, y_label, last) = (self.x.label, self.y.label, HEIGHT - 8.0);
        let _ = write!(
            axes,
            "<text class=\"label\" x=\"{middle_x:.1}\" y=\"{last}\" text-anchor=\"middle\">{x_label}</text>\
             <text class=\"label\" x=\"14\" y=\"{middle_y:.1}\" text-anchor=\"middle\" \
             transform=\"rotate(-90 14 {middle_y:.1})\">{y_label}</text>"
        );
        drawing(name, HEIGHT, &(axes + &self.body))
    }
}

/// One bar of a bar chart.
pub(crate) struct Bar {
    pub(crate) label: String,
    pub(crate) value: f64,
    /// The value as text, which stands beside the bar.
    pub(crate) words: String,
}

/// A chart of horizontal bars that begin at 0.
fn bars(name: &str, bars: &[Bar]) -> String {
    const START: f64 = 150.0;
    const WORDS: f64 = 64.0;
    let longest = bars.iter().map(|bar| bar.value).fold(f64::MIN_POSITIVE, f64::max);
    let mut body = String::new();
    for (place, bar) in bars.iter().enumerate() {
        let y = place as f64 * BAR + 4.0;
        let width = (bar.value / longest * (WIDTH - START - WORDS)).max(1.0);
        let (label, words) = (escaped(&bar.label), escaped(&bar.words));
        let _ = write!(
            body,
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>\
             <rect class=\"bar\" x=\"{START}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"18\" rx=\"2\"/>\
             <text class=\"label\" x=\"{:.1}\" y=\"{:.1}\">{words}</text>",
            START - 8.0,
            y + 13.5,
            START + width + 6.0,
            y + 13.5
        );
    }
    drawing(name, bars.len() as f64 * BAR + 4.0, &body)
}

fn drawing(name: &str, height: f64, body: &str) -> String {
    let name = escaped(name);
    format!("<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{name}\">{body}</svg>")
}

/// A number beside an axis, without needless zeros after the point.
fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e6 => format!("{}M", plain(value / 1e6)),
        size if size >= 1e4 => format!("{}k", plain(value / 1e3)),
        _ => plain(value),
    }
}

fn plain(value: f64) -> String {
    let text = significant(value);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Escapes text, so that it is never read as markup.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_have_round_marks() {
        assert_eq!(Axis::linear("", 0.0, 0.43).marks().len(), 5);
        assert_eq!(Axis::linear("", 0.0, 100.0).marks(), [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        let decades = Axis::logarithmic("", [3.0, 4e4].into_iter());
        assert_eq!(decades.marks(), [10.0, 100.0, 1000.0, 10_000.0]);
        let short = Axis::logarithmic("", [3.0, 30.0].into_iter());
        assert_eq!(short.marks(), [5.0, 10.0, 20.0]);
        assert_eq!(
            Axis::logarithmic("", [f64::INFINITY, f64::NAN, 0.0].into_iter()).marks(),
            [1.0, 2.0, 5.0, 10.0]
        );
    }

    #[test]
    fn values_are_placed_and_kept_inside() {
        let axis = Axis { label: "", from: 1.0, to: 100.0, logarithmic: true };
        assert_eq!((axis.share(10.0), axis.share(1e9), axis.share(0.0)), (0.5, 1.0, 0.0));
        assert_eq!(Axis::linear("", 2.0, 6.0).share(3.0), 0.25);
        assert_eq!(number(20_000.0), "20k");
        assert_eq!(number(0.05), "0.05");
        assert_eq!(number(100.0), "100");
    }

    #[test]
    fn names_cannot_become_markup() {
        let evil = "<script>alert(\"&\")</script>";
        let drawn = bars(evil, &[Bar { label: evil.to_owned(), value: 1.0, words: evil.to_owned() }]);
        assert!(!drawn.contains("<script"), "{drawn}");
        assert!(drawn.contains("&lt;script&gt;alert(&quot;&amp;&quot;)"), "{drawn}");
        let mut plot = Plot::new(Axis::linear("x", 0.0, 1.0), Axis::linear("y", 0.0, 1.0));
        plot.point(0.5, 0.5, "point", evil);
        assert!(!plot.finish(evil).contains("<script"));
    }
}
