//! A scatter plot on logarithmic axes: one path for all dots, one listener for
//! the tooltip.

use std::fmt::Write as _;

use leptos::ev::MouseEvent;
use leptos::html::Div;
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;

use super::scale::{LogScale, Tick};
use super::size::use_size;

/// Pixels around the plotting area.
const LEFT: f64 = 58.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 24.0;
const BOTTOM: f64 = 40.0;
/// How near the pointer must come to a dot, in pixels.
const REACH: f64 = 28.0;

/// A dot.
pub(super) struct Mark {
    pub(super) x: f64,
    pub(super) y: f64,
    /// What the tooltip says, its first line a heading.
    pub(super) text: String,
    /// Where a click leads.
    pub(super) href: Option<String>,
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

/// Everything one plot shows.
pub(super) struct Plot {
    pub(super) marks: Vec<Mark>,
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

/// A plot at its size on the page.
#[derive(Clone, Copy, PartialEq)]
struct Frame {
    x: LogScale,
    y: LogScale,
    width: f64,
    height: f64,
}

impl Frame {
    fn new(plot: &Plot, (width, height): (f64, f64)) -> Option<Self> {
        let ys = plot.marks.iter().map(|mark| mark.y).chain(plot.y_reach.iter().copied());
        Some(Self {
            x: LogScale::covering(plot.marks.iter().map(|mark| mark.x), LEFT, width - RIGHT)?,
            y: LogScale::covering(ys, height - BOTTOM, TOP)?,
            width,
            height,
        })
    }

    fn place(&self, mark: &Mark) -> (f64, f64) {
        (self.x.place(mark.x), self.y.place(mark.y))
    }

    /// The mark nearest to a pixel, if it is within reach.
    fn nearest(&self, plot: &Plot, (x, y): (f64, f64)) -> Option<usize> {
        let distance = |mark: &Mark| {
            let (mx, my) = self.place(mark);
            (mx - x).hypot(my - y)
        };
        let nearest = plot.marks.iter().map(distance).enumerate().min_by(|a, b| a.1.total_cmp(&b.1));
        nearest.filter(|(_, distance)| *distance < REACH).map(|(index, _)| index)
    }
}

/// Draws a plot as wide as its place on the page.
#[component]
pub(super) fn Scatter(plot: Plot) -> impl IntoView {
    let plot = StoredValue::new(plot);
    let container = NodeRef::<Div>::new();
    let size = use_size(container);
    let frame =
        Memo::new(move |_| size.get().and_then(|size| plot.with_value(|plot| Frame::new(plot, size))));
    let hovered = RwSignal::new(None::<usize>);
    let navigate = use_navigate();
    let find = move |event: &MouseEvent| {
        let rect = container.get_untracked()?.get_bounding_client_rect();
        let at = (f64::from(event.client_x()) - rect.left(), f64::from(event.client_y()) - rect.top());
        plot.with_value(|plot| frame.get_untracked()?.nearest(plot, at))
    };
    let follow = move |event: MouseEvent| {
        let found = find(&event);
        if hovered.get_untracked() != found {
            hovered.set(found);
        }
    };
    let open = move |event: MouseEvent| {
        let href = find(&event).and_then(|index| plot.with_value(|plot| plot.marks[index].href.clone()));
        if let Some(href) = href {
            navigate(&href, Default::default());
        }
    };
    view! {
        <div
            class="chart linked"
            class:on-point=move || hovered.get().is_some()
            node_ref=container
            on:mousemove=follow
            on:mouseleave=move |_| hovered.set(None)
            on:click=open
        >
            <svg role="img" aria-label=plot.with_value(|plot| plot.description.clone())>
                {move || frame.get().map(|frame| plot.with_value(|plot| drawing(plot, &frame)))}
                {move || {
                    let (index, frame) = hovered.get().zip(frame.get())?;
                    let (x, y) = plot.with_value(|plot| frame.place(&plot.marks[index]));
                    Some(view! { <circle class="ring" cx=x cy=y r="6" /> })
                }}
            </svg>
            {move || {
                let (index, frame) = hovered.get().zip(frame.get())?;
                Some(plot.with_value(|plot| tooltip(&plot.marks[index], &frame)))
            }}
        </div>
    }
}

fn drawing(plot: &Plot, frame: &Frame) -> impl IntoView + use<> {
    let dots = plot.marks.iter().fold(String::with_capacity(plot.marks.len() * 20), |mut path, mark| {
        let (x, y) = frame.place(mark);
        // Writing to a String cannot fail.
        let _ = write!(path, "M{x:.1} {y:.1}h0");
        path
    });
    let class = if plot.fine { "dots fine" } else { "dots" };
    let ring = plot.ring.map(|index| frame.place(&plot.marks[index]));
    let lines = (plot.lines)(frame.x.ends());
    view! {
        {grid(plot, frame)}
        {lines.into_iter().map(|line| drawn_line(line, frame)).collect_view()}
        <path class=class d=dots />
        {ring.map(|(x, y)| view! { <circle class="ring" cx=x cy=y r="6" /> })}
    }
}

fn grid(plot: &Plot, frame: &Frame) -> impl IntoView + use<> {
    let (bottom, right) = (frame.height - BOTTOM, frame.width - RIGHT);
    let class = |tick: &Tick| if tick.labelled { "grid" } else { "grid minor" };
    let (x_text, y_text) = (plot.x.tick, plot.y.tick);
    let vertical = frame.x.ticks(44.0).into_iter().map(move |tick| {
        view! {
            <path class=class(&tick) d=format!("M{:.1} {TOP}V{bottom}", tick.place) />
            {tick.labelled.then(|| view! {
                <text x=tick.place y=bottom + 16.0 text-anchor="middle">{x_text(tick.value)}</text>
            })}
        }
    });
    let horizontal = frame.y.ticks(20.0).into_iter().map(move |tick| {
        view! {
            <path class=class(&tick) d=format!("M{LEFT} {:.1}H{right}", tick.place) />
            {tick.labelled.then(|| view! {
                <text x=LEFT - 8.0 y=tick.place + 4.0 text-anchor="end">{y_text(tick.value)}</text>
            })}
        }
    });
    view! {
        {vertical.collect_view()}
        {horizontal.collect_view()}
        <text class="axis-title" x="0" y="11">{plot.y.title}</text>
        <text class="axis-title" x=right y=frame.height - 6.0 text-anchor="end">{plot.x.title}</text>
    }
}

fn drawn_line(line: Line, frame: &Frame) -> impl IntoView + use<> {
    let bottom = frame.height - BOTTOM;
    let mut path = String::new();
    let mut last = (0.0, 0.0);
    for (index, (x, y)) in line.points.into_iter().enumerate() {
        last = (frame.x.place(x), frame.y.place(y));
        let _ = write!(path, "{}{:.1} {:.1}", if index == 0 { 'M' } else { 'L' }, last.0, last.1);
    }
    // Lines may leave the plot below; nothing leaves it elsewhere.
    let clip = format!("inset({TOP}px {RIGHT}px calc(100% - {bottom}px) {LEFT}px)");
    let class = if line.dashed { "line dashed" } else { "line" };
    view! {
        <path class=class d=path style=format!("clip-path: view-box {clip}") />
        {line.label.map(|label| view! {
            <text class="line-label" x=last.0 - 2.0 y=last.1 - 6.0 text-anchor="end">{label}</text>
        })}
    }
}

/// Stands beside its dot, on the side where there is room.
fn tooltip(mark: &Mark, frame: &Frame) -> impl IntoView + use<> {
    let (x, y) = frame.place(mark);
    let side = if x > frame.width / 2.0 {
        format!("right: {:.0}px", frame.width - x + 12.0)
    } else {
        format!("left: {:.0}px", x + 12.0)
    };
    let end = if y > frame.height / 2.0 {
        format!("bottom: {:.0}px", frame.height - y + 8.0)
    } else {
        format!("top: {:.0}px", y + 8.0)
    };
    view! { <div class="tooltip" style=format!("{side}; {end}")>{mark.text.clone()}</div> }
}
