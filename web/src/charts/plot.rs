//! The contents of a scatter plot, the looks of its dots, and the part of it that is shown.

use std::fmt::Write as _;

use diode_core::DType;
use diode_core::stats::TIE;
use leptos::prelude::*;

use crate::charts::Scale;

/// A dot.
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) tone: Tone,
    pub(super) shape: Shape,
}

/// A line for comparison, clipped to the plot.
#[derive(Clone)]
pub(super) struct Line {
    pub(super) points: Vec<(f64, f64)>,
    pub(super) dashed: bool,
    /// A text above the line's last point.
    pub(super) label: Option<String>,
}

/// An axis: its title, and how its ticks are written.
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) tick: fn(f64) -> String,
}

/// Makes the lines that cross the plot, given the two ends of the x axis.
pub(super) type Lines = Box<dyn Fn((f64, f64)) -> Vec<Line> + Send + Sync>;

/// Makes a text about the mark with this index. It is made on demand: a plot has thousands of marks, and a
/// reader looks at few.
type Say = Box<dyn Fn(usize) -> String + Send + Sync>;

/// All contents of one plot.
pub(super) struct Plot {
    pub(super) marks: Vec<Mark>,
    /// The text of a mark's tooltip. Its first line is a heading.
    pub(super) text: Say,
    /// The address to which a click on a mark leads, if any.
    pub(super) href: Option<Say>,
    pub(super) lines: Lines,
    /// Whether the y axis is linear and begins at zero. Otherwise it is logarithmic, as the x axis is.
    pub(super) from_zero: bool,
    /// Values of y that the plot must include although no dot reaches them.
    pub(super) y_reach: Vec<f64>,
    /// The mark to put a ring around.
    pub(super) ring: Option<usize>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Whether dots are drawn smaller, because there are many.
    pub(super) fine: bool,
    /// What a screen reader says about the plot.
    pub(super) description: String,
}

/// A dashed line without a label.
pub(super) fn dashed(points: Vec<(f64, f64)>) -> Line {
    Line { points, dashed: true, label: None }
}

impl Plot {
    /// Marks alone, and the titles of both axes.
    pub(super) fn new(
        marks: Vec<Mark>,
        text: impl Fn(usize) -> String + Send + Sync + 'static,
        [x, y]: [Axis; 2],
        description: String,
    ) -> Self {
        Self {
            marks,
            text: Box::new(text),
            href: None,
            lines: Box::new(|_| Vec::new()),
            from_zero: false,
            y_reach: Vec::new(),
            ring: None,
            x,
            y,
            fine: false,
            description,
        }
    }
}

/// Pixels around the plotting area.
pub(super) const LEFT: f64 = 58.0;
pub(super) const RIGHT: f64 = 14.0;
pub(super) const TOP: f64 = 24.0;
pub(super) const BOTTOM: f64 = 40.0;
/// A dot is chosen only if the pointer is at most this many pixels away.
const REACH: f64 = 28.0;
/// One step of zooming in shows this share of the decades of each axis.
const STEP: f64 = 0.6;
/// A marked area smaller than this many pixels on either side is not zoomed into.
const LEAST: f64 = 12.0;

/// The part of a plot that is shown: the lowest and highest values on both axes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    pub(super) x: (f64, f64),
    pub(super) y: (f64, f64),
}

#[derive(Clone, Copy, PartialEq)]
pub(super) struct Frame {
    pub(super) x: Scale,
    pub(super) y: Scale,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    /// `None` if the plot has nothing to show.
    pub(super) fn new(plot: &Plot, part: Option<Part>, (width, height): (f64, f64)) -> Option<Self> {
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        let ys = plot.marks.iter().map(|mark| mark.y).chain(plot.y_reach.iter().copied());
        let x = Scale::covering(plot.marks.iter().map(|mark| mark.x), LEFT, right)?;
        let y = if plot.from_zero {
            Scale::from_zero(ys, bottom, TOP)
        } else {
            Scale::covering(ys, bottom, TOP)
        }?;
        let (x, y) = part.map_or((x, y), |part| (x.part(part.x), y.part(part.y)));
        Some(Self { x, y, width, height })
    }

    pub(super) fn place(&self, mark: &Mark) -> (f64, f64) {
        (self.x.place(mark.x), self.y.place(mark.y))
    }

    pub(super) fn shows(&self, mark: &Mark) -> bool {
        self.x.shows(mark.x) && self.y.shows(mark.y)
    }

    /// The mark nearest to a pixel, if it is within reach.
    pub(super) fn nearest(&self, plot: &Plot, (x, y): (f64, f64)) -> Option<usize> {
        let distance = |mark: &Mark| {
            let (mx, my) = self.place(mark);
            (mx - x).hypot(my - y)
        };
        let shown = plot.marks.iter().enumerate().filter(|(_, mark)| self.shows(mark));
        let nearest = shown.map(|(index, mark)| (index, distance(mark))).min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.filter(|(_, distance)| *distance < REACH).map(|(index, _)| index)
    }

    /// The part between two pixels. `None` if they are too near to each other: the reader then meant a
    /// click.
    pub(super) fn between(&self, a: (f64, f64), b: (f64, f64)) -> Option<Part> {
        let within = |value: f64, low: f64, high: f64| value.clamp(low, high);
        let (right, bottom) = (self.width - RIGHT, self.height - BOTTOM);
        let (left, end) = (within(a.0.min(b.0), LEFT, right), within(a.0.max(b.0), LEFT, right));
        let (top, low) = (within(a.1.min(b.1), TOP, bottom), within(a.1.max(b.1), TOP, bottom));
        (end - left >= LEAST && low - top >= LEAST).then(|| Part {
            x: (self.x.value_at(left), self.x.value_at(end)),
            y: (self.y.value_at(low), self.y.value_at(top)),
        })
    }

    /// The part after one step of zooming in or out around a pixel.
    pub(super) fn stepped(&self, (x, y): (f64, f64), nearer: bool) -> Part {
        let share = if nearer { STEP } else { 1.0 / STEP };
        let ends = |scale: &Scale, at: f64, from: f64, to: f64| {
            (scale.value_at(at + (from - at) * share), scale.value_at(at + (to - at) * share))
        };
        Part { x: ends(&self.x, x, LEFT, self.width - RIGHT), y: ends(&self.y, y, self.height - BOTTOM, TOP) }
    }

    pub(super) fn middle(&self) -> (f64, f64) {
        ((LEFT + self.width - RIGHT) / 2.0, (TOP + self.height - BOTTOM) / 2.0)
    }
}

/// From this ratio on, a colour has full strength.
const FAR: f64 = 1.25;

/// Whether Triton or the library is faster, and how clearly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tone {
    /// The plain colour, for dots without a comparison.
    Plain,
    LibraryFar,
    Library,
    Tie,
    Triton,
    TritonFar,
}

impl Tone {
    /// The tone for a ratio of library time to Triton time.
    pub(crate) fn of(ratio: Option<f64>) -> Self {
        match ratio {
            None => Self::Plain,
            Some(ratio) if (ratio - 1.0).abs() <= TIE => Self::Tie,
            Some(ratio) if ratio <= 1.0 / FAR => Self::LibraryFar,
            Some(ratio) if ratio < 1.0 => Self::Library,
            Some(ratio) if ratio < FAR => Self::Triton,
            Some(_) => Self::TritonFar,
        }
    }

    pub(crate) fn class(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::LibraryFar => "library-far",
            Self::Library => "library",
            Self::Tie => "tie",
            Self::Triton => "triton",
            Self::TritonFar => "triton-far",
        }
    }

    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Plain => "not compared",
            Self::LibraryFar => "library 1.25× faster",
            Self::Library => "library faster",
            Self::Tie => "tie, to 1 %",
            Self::Triton => "Triton faster",
            Self::TritonFar => "Triton 1.25× faster",
        }
    }
}

/// The shape of a dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Shape {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Shape {
    pub(crate) fn of(dtype: DType) -> Self {
        match dtype {
            DType::BFloat16 => Self::Circle,
            DType::Float16 => Self::Square,
            DType::Float32 => Self::Triangle,
            _ => Self::Diamond,
        }
    }

    /// Appends the outline of a dot around a point.
    pub(super) fn draw(self, path: &mut String, (x, y): (f64, f64)) {
        // Writing to a String cannot fail.
        let _ = match self {
            Self::Circle => write!(path, "M{:.1} {y:.1}a3 3 0 1 0 6 0a3 3 0 1 0 -6 0", x - 3.0),
            Self::Square => write!(path, "M{:.1} {:.1}h5.4v5.4h-5.4z", x - 2.7, y - 2.7),
            Self::Triangle => write!(path, "M{x:.1} {:.1}l3.6 6.2h-7.2z", y - 3.8),
            Self::Diamond => write!(path, "M{x:.1} {:.1}l3.8 3.8l-3.8 3.8l-3.8 -3.8z", y - 3.8),
        };
    }

    /// The outline of one dot, in a box of 10 by 10.
    pub(crate) fn outline(self) -> String {
        let mut path = String::new();
        self.draw(&mut path, (5.0, 5.0));
        path
    }
}

/// A line below the chart for each kind of dot.
pub(crate) fn legend(entries: Vec<(Shape, Tone, String)>) -> impl IntoView {
    let entry = |(shape, tone, words): (Shape, Tone, String)| {
        view! {
            <li>
                <svg viewBox="0 0 10 10" aria-hidden="true">
                    <path class=format!("marks {}", tone.class()) d=shape.outline() />
                </svg>
                {words}
            </li>
        }
    };
    view! { <ul class="legend">{entries.into_iter().map(entry).collect_view()}</ul> }
}

#[cfg(test)]
mod look_tests {
    use super::*;

    #[test]
    fn ratios_have_tones() {
        for (ratio, tone) in [
            (None, Tone::Plain),
            (Some(0.5), Tone::LibraryFar),
            (Some(0.9), Tone::Library),
            (Some(0.995), Tone::Tie),
            (Some(1.009), Tone::Tie),
            (Some(1.1), Tone::Triton),
            (Some(1.3), Tone::TritonFar),
        ] {
            assert_eq!(Tone::of(ratio), tone, "{ratio:?}");
        }
    }
}
