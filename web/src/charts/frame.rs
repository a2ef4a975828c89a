//! A plot at its size on the page: where its axes lie, and which part of it is shown.

use super::plot::{Mark, Plot};
use super::scale::LogScale;

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
    pub(super) x: LogScale,
    pub(super) y: LogScale,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Frame {
    /// `None` if the plot has nothing to show.
    pub(super) fn new(plot: &Plot, part: Option<Part>, (width, height): (f64, f64)) -> Option<Self> {
        let (right, bottom) = (width - RIGHT, height - BOTTOM);
        let ys = plot.marks.iter().map(|mark| mark.y).chain(plot.y_reach.iter().copied());
        let x = LogScale::covering(plot.marks.iter().map(|mark| mark.x), LEFT, right)?;
        let y = LogScale::covering(ys, bottom, TOP)?;
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
        let ends = |scale: &LogScale, at: f64, from: f64, to: f64| {
            (scale.value_at(at + (from - at) * share), scale.value_at(at + (to - at) * share))
        };
        Part { x: ends(&self.x, x, LEFT, self.width - RIGHT), y: ends(&self.y, y, self.height - BOTTOM, TOP) }
    }

    pub(super) fn middle(&self) -> (f64, f64) {
        ((LEFT + self.width - RIGHT) / 2.0, (TOP + self.height - BOTTOM) / 2.0)
    }
}
