//! How to cite a model or a dataset.

use diode_api::bibtex::Cited;
use leptos::prelude::*;

use super::copy::Snippet;

/// A BibTeX entry.
#[component]
pub(crate) fn Citation(
    /// The entry's key.
    key: String,
    title: String,
    /// The date in RFC 3339.
    made_at: String,
    /// The path of the page that is cited.
    path: String,
    note: String,
) -> impl IntoView {
    let url = format!("{}{path}", window().location().origin().unwrap_or_default());
    let entry = Cited { key: &key, title: &title, made_at: &made_at, url: &url, note: &note }.bibtex();
    view! { <Snippet text=entry.trim_end() /> }
}
