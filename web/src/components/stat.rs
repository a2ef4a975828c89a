//! Headline numbers.

use leptos::prelude::*;

use super::explained::Explained;

/// A headline number and its name.
pub(crate) struct Stat {
    name: &'static str,
    value: String,
    unit: &'static str,
    explanation: &'static str,
    wide: bool,
    mono: bool,
}

impl Stat {
    pub(crate) fn new(name: &'static str, value: String) -> Self {
        Self { name, value, unit: "", explanation: "", wide: false, mono: false }
    }

    /// A headline number that may be unknown.
    pub(crate) fn maybe(name: &'static str, value: Option<String>) -> Self {
        Self::new(name, value.unwrap_or_else(|| "–".to_owned()))
    }

    pub(crate) fn unit(self, unit: &'static str) -> Self {
        Self { unit, ..self }
    }

    /// Adds an explanation that the number's name shows when it is pressed.
    pub(crate) fn explained(self, explanation: &'static str) -> Self {
        Self { explanation, ..self }
    }

    /// Shows the name of a config: twice as wide, in a fixed-width font.
    pub(crate) fn config(self) -> Self {
        Self { wide: true, mono: true, ..self }
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
            <div class="stat" class:wide=stat.wide>
                <dt>{name}</dt>
                <dd class:mono=stat.mono>
                    {stat.value} " " {(!stat.unit.is_empty()).then(|| view! { <small>{stat.unit}</small> })}
                </dd>
            </div>
        }
    });
    view! { <dl class="stats" class:inner=inner>{cells.collect_view()}</dl> }
}
