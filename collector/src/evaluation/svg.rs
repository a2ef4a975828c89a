//! Small plots as SVG text, with axes, points, cells and bars. Colours come from the page's style
//! sheet, so that plots suit light and dark pages.

use std::fmt::Write as _;

use crate::output::significant;

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
    pub(crate) fn logarithmic(label: &'static str, values: impl Iterator<Item = f64>) -> Self {
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

/// A plot with two axes.
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
    pub(crate) fn density(&mut self, points: impl Iterator<Item = (f64, f64)>) {
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
        for mark in self.x.marks() {
            let (x, _) = self.at(mark, self.y.from);
            let _ = write!(
                axes,
                "<line class=\"grid\" x1=\"{x:.1}\" y1=\"{TOP}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
                 <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                number(mark)
            );
        }
        for mark in self.y.marks() {
            let (_, y) = self.at(self.x.from, mark);
            let _ = write!(
                axes,
                "<line class=\"grid\" x1=\"{LEFT}\" y1=\"{y:.1}\" x2=\"{right}\" y2=\"{y:.1}\"/>\
                 <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                y + 4.0,
                number(mark)
            );
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
pub(crate) fn bars(name: &str, bars: &[Bar]) -> String {
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
