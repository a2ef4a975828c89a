//! What a scatter plot shows.

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
    /// Written above the line's last point.
    pub(super) label: Option<String>,
}

/// An axis: its title and how its ticks are written.
pub(super) struct Axis {
    pub(super) title: &'static str,
    pub(super) tick: fn(f64) -> String,
}

/// Makes lines that cross the plot, from the ends of its x axis.
pub(super) type Lines = Box<dyn Fn((f64, f64)) -> Vec<Line> + Send + Sync>;

/// Says something of the mark at a place. Of thousands of marks, few are ever asked about.
pub(super) type Say = Box<dyn Fn(usize) -> String + Send + Sync>;

/// Everything one plot shows.
pub(super) struct Plot {
    pub(super) marks: Vec<Mark>,
    /// What the tooltip says, its first line a heading.
    pub(super) text: Say,
    /// Where a click leads, if it does.
    pub(super) href: Option<Say>,
    pub(super) lines: Lines,
    /// Values of y that the plot must show although no dot reaches them.
    pub(super) y_reach: Vec<f64>,
    /// The mark to put a ring around.
    pub(super) ring: Option<usize>,
    pub(super) x: Axis,
    pub(super) y: Axis,
    /// Smaller dots, for a thousand and more.
    pub(super) fine: bool,
    /// What a screen reader says of it.
    pub(super) description: String,
}
