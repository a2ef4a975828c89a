//! How to cite something.

use leptos::prelude::*;

use super::copy::Snippet;

/// An entry for BibTeX.
#[component]
pub(crate) fn Citation(
    /// The entry's key.
    key: String,
    title: String,
    /// As RFC 3339.
    made_at: String,
    /// The path of its page.
    path: String,
    note: String,
) -> impl IntoView {
    let address = format!("{}{path}", window().location().origin().unwrap_or_default());
    view! { <Snippet text=entry(&key, &title, &made_at, &address, &note) /> }
}

fn entry(key: &str, title: &str, made_at: &str, address: &str, note: &str) -> String {
    let year = made_at.split('-').next().unwrap_or_default();
    format!(
        "@misc{{{key},\n  title = {{{{{title}}}}},\n  author = {{{{The Diode contributors}}}},\n  year = {{{year}}},\n  \
         howpublished = {{\\url{{{address}}}}},\n  note = {{{note}}}\n}}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_what_bibtex_wants() {
        let text = entry("diode-a1", "A model", "2026-11-20T01:02:03Z", "http://x/models/a1", "SHA-256 00");
        assert_eq!(
            text,
            "@misc{diode-a1,\n  title = {{A model}},\n  author = {{The Diode contributors}},\n  year = {2026},\n  \
             howpublished = {\\url{http://x/models/a1}},\n  note = {SHA-256 00}\n}"
        );
    }
}
