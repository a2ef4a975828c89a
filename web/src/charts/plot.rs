//! The contents of a scatter plot.

use super::look::{Shape, Tone};

/// A dot.
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    pub(super) tone: Tone,
    pub(super) shape: Shape,
}

/// A line for comparison, clipped to the plot.
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
pub(super) type Say = Box<dyn Fn(usize) -> String + Send + Sync>;

/// All contents of one plot.
pub(super) struct Plot {
    pub(super) marks: Vec<Mark>,
    /// The text of a mark's tooltip. Its first line is a heading.
    pub(super) text: Say,
    /// The address to which a click on a mark leads, if any.
    pub(super) href: Option<Say>,
    pub(super) lines: Lines,
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
