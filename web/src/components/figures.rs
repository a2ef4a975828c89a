//! Figures: headline numbers, terms and times that explain themselves, and bars in the rows of tables.

use leptos::prelude::*;

use crate::format;

/// A headline number and its name.
pub(crate) struct Stat {
    name: String,
    value: String,
    unit: &'static str,
    explanation: &'static str,
}

impl Stat {
    pub(crate) fn new(name: impl Into<String>, value: String) -> Self {
        Self { name: name.into(), value, unit: "", explanation: "" }
    }

    /// A headline number that may be unknown.
    pub(crate) fn maybe(name: impl Into<String>, value: Option<String>) -> Self {
        Self::new(name, value.unwrap_or_else(|| "–".to_owned()))
    }

    pub(crate) fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Adds an explanation that the number's name shows when it is pressed.
    pub(crate) fn explained(self, explanation: &'static str) -> Self {
        Self { explanation, ..self }
    }
}

/// A strip of headline numbers.
#[component]
pub(crate) fn Stats(
    /// Whether the strip is inside a card, and so needs no frame of its own.
    #[prop(optional)]
    inner: bool,
    #[prop(into)] stats: Vec<Stat>,
) -> impl IntoView {
    let cells = stats.into_iter().map(|stat| {
        let name = match stat.explanation {
            "" => stat.name.into_any(),
            why => view! { <Explained text=stat.name why /> }.into_any(),
        };
        view! {
            <div class="stat">
                <dt>{name}</dt>
                <dd>
                    {stat.value} " " {(!stat.unit.is_empty()).then(|| view! { <small>{stat.unit}</small> })}
                </dd>
            </div>
        }
    });
    view! { <dl class="stats" class:inner=inner>{cells.collect_view()}</dl> }
}

/// A text that explains itself when it is pressed, by pointer, touch or key. Escape closes the explanation.
/// Screen readers read it with the text, and a pointer that rests on the text shows it, too.
///
/// All texts share one popover, which `boot.js` fills: a board has hundreds of them.
#[component]
pub(crate) fn Explained(
    #[prop(into)] text: String,
    #[prop(into)] why: String,
    /// What is explained, if the text does not say it.
    #[prop(optional, into)]
    about: Option<String>,
) -> impl IntoView {
    view! {
        <button type="button" class="why" popovertarget="explanation" aria-label=about title=why>
            {text}
        </button>
    }
}

/// A bar for a share. It is full at 1.
#[component]
pub(crate) fn Bar(share: f64) -> impl IntoView {
    let width = format!("width: {:.1}%", (share * 100.0).clamp(0.0, 100.0));
    view! { <span class="bar" aria-hidden="true"><i style=width></i></span> }
}

/// A table cell with a number and a bar.
#[component]
pub(crate) fn BarCell(text: String, share: f64) -> impl IntoView {
    view! { <td class="num"><span class="bar-cell">{text} <Bar share /></span></td> }
}

/// At this ratio the bar reaches the right end, at its inverse the left end. Most ratios lie between, and the number beside a
/// full bar says how far beyond the end it is.
const FULL: f64 = 1.25;

/// A cell that says how Triton compares, given library time / Triton time. The bar goes right if Triton is faster, left if the
/// library is.
#[component]
pub(crate) fn RatioCell(ratio: Option<f64>) -> impl IntoView {
    let text = ratio.map_or_else(|| "–".to_owned(), format::against);
    let width = ratio.map_or(0.0, |ratio| (ratio.ln() / FULL.ln()).clamp(-1.0, 1.0) * 50.0);
    let class = if width < 0.0 { "slower" } else { "faster" };
    let style = format!("width: {:.1}%", width.abs());
    view! {
        <td class="num">
            <span class="bar-cell">
                {text}
                <span class="bar diverging" aria-hidden="true"><i class=class style=style></i></span>
            </span>
        </td>
    }
}

/// A star beside the time, which explains itself.
#[component]
pub(crate) fn CaveatMark(caveat: String) -> impl IntoView {
    view! { <Explained text="*" why=caveat about="caveat" /> }
}
