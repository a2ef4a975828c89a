//! A scatter plot. One path draws all dots that look the same, and one listener moves the
//! tooltip. The reader can zoom by pointer, buttons or keys.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use leptos::ev::{KeyboardEvent, MouseEvent, PointerEvent};
use leptos::html::Div;
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;

use crate::charts::Tick;
use crate::charts::plot::{BOTTOM, Frame, LEFT, Line, Part, Plot, RIGHT, Shape, TOP, Tone};
use crate::charts::save::SaveChart;

/// If the pointer moves further than this many pixels between press and release, the reader has marked an
/// area to zoom into.
const DRAG: f64 = 6.0;

/// Draws a plot that is as wide as its place on the page.
#[component]
pub(super) fn Scatter(plot: Plot) -> impl IntoView {
    let linked = plot.href.is_some();
    let by_x = {
        let mut order: Vec<usize> = (0..plot.marks.len()).collect();
        order.sort_by(|a, b| plot.marks[*a].x.total_cmp(&plot.marks[*b].x));
        StoredValue::new(order)
    };
    let plot = StoredValue::new(plot);
    let container = NodeRef::<Div>::new();
    let size = use_size(container);
    let part = RwSignal::new(None::<Part>);
    let frame = Memo::new(move |_| {
        size.get().and_then(|size| plot.with_value(|plot| Frame::new(plot, part.get(), size)))
    });
    let chosen = RwSignal::new(None::<usize>);
    // A finger cannot hover. So a tap only shows the tooltip, which then has a link.
    let by_finger = RwSignal::new(false);
    let pressed_at = StoredValue::new(None::<(f64, f64)>);
    let dragged = RwSignal::new(None::<((f64, f64), (f64, f64))>);
    let navigate = use_navigate();
    let at = move |event: &MouseEvent| {
        let rect = container.get_untracked()?.get_bounding_client_rect();
        Some((f64::from(event.client_x()) - rect.left(), f64::from(event.client_y()) - rect.top()))
    };
    let find = move |at: (f64, f64)| plot.with_value(|plot| frame.get_untracked()?.nearest(plot, at));
    let choose = move |found: Option<usize>| {
        if chosen.get_untracked() != found {
            chosen.set(found);
        }
    };
    let press = move |event: PointerEvent| {
        by_finger.set(event.pointer_type() == "touch");
        let may_drag = !by_finger.get_untracked() && event.button() == 0;
        pressed_at.set_value(at(&event).filter(|_| may_drag));
    };
    let follow = move |event: MouseEvent| {
        let Some(here) = at(&event) else { return };
        match pressed_at.get_value() {
            Some(start) if (start.0 - here.0).hypot(start.1 - here.1) > DRAG => {
                dragged.set(Some((start, here)))
            }
            _ => choose(find(here)),
        }
    };
    let leave = move |_| {
        pressed_at.set_value(None);
        dragged.set(None);
        if !by_finger.get_untracked() {
            chosen.set(None);
        }
    };
    let open = {
        let navigate = navigate.clone();
        move |index: Option<usize>| {
            let href = index.and_then(|index| plot.with_value(|plot| Some(plot.href.as_ref()?(index))));
            if let Some(href) = href {
                navigate(&href, Default::default());
            }
        }
    };
    let click = {
        let open = open.clone();
        move |event: MouseEvent| {
            pressed_at.set_value(None);
            if let Some((from, to)) = dragged.get_untracked() {
                dragged.set(None);
                if let Some(wanted) = frame.get_untracked().and_then(|frame| frame.between(from, to)) {
                    part.set(Some(wanted));
                    chosen.set(None);
                }
                return;
            }
            let found = at(&event).and_then(find);
            choose(found);
            if !by_finger.get_untracked() {
                open(found);
            }
        }
    };
    let zoom = move |nearer: bool| {
        let Some(frame) = frame.get_untracked() else { return };
        let shown = |index: usize| {
            plot.with_value(|plot| {
                Some(&plot.marks[index]).filter(|mark| frame.shows(mark)).map(|mark| frame.place(mark))
            })
        };
        let around = chosen.get_untracked().and_then(shown).unwrap_or(frame.middle());
        part.set(Some(frame.stepped(around, nearer)));
    };
    // Steps through the visible dots in the order of x.
    let step = move |by: isize| {
        let Some(frame) = frame.get_untracked() else { return };
        let next = plot.with_value(|plot| {
            by_x.with_value(|order| {
                let shown: Vec<usize> =
                    order.iter().copied().filter(|index| frame.shows(&plot.marks[*index])).collect();
                let place =
                    chosen.get_untracked().and_then(|own| shown.iter().position(|index| *index == own));
                let next = match place {
                    Some(place) => place.saturating_add_signed(by).min(shown.len().saturating_sub(1)),
                    None if by > 0 => 0,
                    None => shown.len().saturating_sub(1),
                };
                shown.get(next).copied()
            })
        });
        chosen.set(next);
    };
    let keys = move |event: KeyboardEvent| {
        // Keys with these modifiers belong to the browser.
        if event.ctrl_key() || event.meta_key() || event.alt_key() {
            return;
        }
        match event.key().as_str() {
            "ArrowRight" | "ArrowDown" => step(1),
            "ArrowLeft" | "ArrowUp" => step(-1),
            "Home" => {
                chosen.set(None);
                step(1);
            }
            "End" => {
                chosen.set(None);
                step(-1);
            }
            "+" | "=" => zoom(true),
            "-" => zoom(false),
            "0" => part.set(None),
            "Escape" => chosen.set(None),
            "Enter" => open(chosen.get_untracked()),
            _ => return,
        }
        event.prevent_default();
    };
    let said =
        move || chosen.get().map(|index| plot.with_value(|plot| (plot.text)(index).replace('\n', ", ")));
    let label = plot.with_value(|plot| plot.description.clone());
    let keys_hint = if linked {
        "Arrow keys go from dot to dot, Enter opens one, + and - zoom."
    } else {
        "Arrow keys go from dot to dot, + and - zoom."
    };
    view! {
        <div
            class="chart linked"
            class:on-point=move || chosen.get().is_some()
            tabindex="0"
            role="group"
            aria-roledescription="chart"
            aria-label=format!("{label} {keys_hint}")
            node_ref=container
            on:pointerdown=press
            on:mousemove=follow
            on:mouseleave=leave
            on:click=click
            on:keydown=keys
        >
            <svg aria-hidden="true">
                {move || frame.get().map(|frame| plot.with_value(|plot| drawing(plot, &frame)))}
                {move || {
                    let (index, frame) = chosen.get().zip(frame.get())?;
                    let shown = plot.with_value(|plot| Some(&plot.marks[index]).filter(|mark| frame.shows(mark)).map(|mark| frame.place(mark)));
                    shown.map(|(x, y)| view! { <circle class="ring" cx=x cy=y r="6" /> })
                }}
                {move || dragged.get().map(|(a, b)| view! {
                    <rect class="dragged" x=a.0.min(b.0) y=a.1.min(b.1) width=(a.0 - b.0).abs() height=(a.1 - b.1).abs() />
                })}
            </svg>
            {move || {
                let (index, frame) = chosen.get().zip(frame.get())?;
                plot.with_value(|plot| {
                    Some(index).filter(|index| frame.shows(&plot.marks[*index])).map(|index| tooltip(plot, index, &frame, by_finger.get()))
                })
            }}
            <p class="visually-hidden" aria-live="polite">{said}</p>
        </div>
        <div class="row zoom">
            <button type="button" class="button small" aria-label="Zoom in" on:click=move |_| zoom(true)>"+"</button>
            <button type="button" class="button small" aria-label="Zoom out" on:click=move |_| zoom(false)>"−"</button>
            <button type="button" class="button small" prop:disabled=move || part.get().is_none() on:click=move |_| part.set(None)>
                "Show all"
            </button>
            <SaveChart chart=container />
            <span class="hint">"Drag over a part to zoom in."</span>
        </div>
    }
}

fn drawing(plot: &Plot, frame: &Frame) -> impl IntoView + use<> {
    let mut looks: BTreeMap<(Tone, Shape), String> = BTreeMap::new();
    for mark in plot.marks.iter().filter(|mark| frame.shows(mark)) {
        let path = looks.entry((mark.tone, mark.shape)).or_default();
        if plot.fine {
            let (x, y) = frame.place(mark);
            // Writing to a String cannot fail.
            let _ = write!(path, "M{x:.1} {y:.1}h0");
        } else {
            mark.shape.draw(path, frame.place(mark));
        }
    }
    let fine = plot.fine;
    let dots = looks.into_iter().map(|((tone, _), path)| {
        let class = format!("{} {}", if fine { "dots fine" } else { "marks" }, tone.class());
        view! { <path class=class d=path /> }
    });
    let ring = plot.ring.map(|index| &plot.marks[index]).filter(|mark| frame.shows(mark));
    let ring = ring.map(|mark| frame.place(mark));
    let lines = (plot.lines)(frame.x.ends());
    view! {
        {grid(plot, frame)}
        {lines.into_iter().map(|line| drawn_line(line, frame)).collect_view()}
        {dots.collect_view()}
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
    // A line may go on below the plot. The clip hides the part outside.
    let clip = format!("inset({TOP}px {RIGHT}px calc(100% - {bottom}px) {LEFT}px)");
    let class = if line.dashed { "line dashed" } else { "line" };
    view! {
        <path class=class d=path style=format!("clip-path: view-box {clip}") />
        {line.label.map(|label| view! {
            <text class="line-label" x=last.0 - 2.0 y=last.1 - 6.0 text-anchor="end">{label}</text>
        })}
    }
}

/// The tooltip stands beside its dot, on the side with more room. `with_link`: the tooltip has a link to the
/// dot's page.
fn tooltip(plot: &Plot, index: usize, frame: &Frame, with_link: bool) -> impl IntoView + use<> {
    let (x, y) = frame.place(&plot.marks[index]);
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
    let href = plot.href.as_ref().filter(|_| with_link).map(|href| href(index));
    let link = href.map(|href| view! { "\n" <a href=href>"Open the problem"</a> });
    let text = (plot.text)(index);
    view! { <div class="tooltip" class:pinned=with_link style=format!("{side}; {end}")>{text} {link}</div> }
}

/// Follows the width and height of an element. `None` until the element is on the page.
fn use_size(element: NodeRef<Div>) -> Signal<Option<(f64, f64)>> {
    let size = RwSignal::new(None);
    let measure = move || {
        // The chart may have left the page by now.
        if let Some(element) = element.try_get_untracked().flatten() {
            let rect = element.get_bounding_client_rect();
            size.try_set(Some((rect.width(), rect.height())));
        }
    };
    Effect::new(move |_| {
        // Measuring at once would force the browser to lay the page out, and would make the drawing part of this turn.
        // At the beginning of a frame, the browser lays the page out in any case, and the frame shows the chart.
        if element.get().is_some() {
            request_animation_frame(measure);
        }
    });
    let listener = window_event_listener(leptos::ev::resize, move |_| measure());
    on_cleanup(move || listener.remove());
    size.into()
}
