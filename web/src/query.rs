//! The query part of addresses: every view is a link.

use std::fmt::Write as _;

use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate, use_query_map};

/// Joins a path and its parameters; those without a value are left out.
pub(crate) fn link<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, String)>) -> String {
    address(path, parameters.into_iter().filter(|(_, value)| !value.is_empty()))
}

/// Joins a path and its parameters, empty ones too: they say something other
/// than absent ones.
pub(crate) fn address<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let mut text = path.to_owned();
    let mut separator = '?';
    for (key, value) in parameters {
        // Writing to a String cannot fail.
        let _ = write!(text, "{separator}{key}={}", encode(&value));
        separator = '&';
    }
    text
}

/// Percent-encodes everything but unreserved characters.
fn encode(text: &str) -> String {
    text.bytes().fold(String::with_capacity(text.len()), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

/// Reads one parameter of the page's address, empty where it is absent.
pub(crate) fn parameter(key: &'static str) -> Memo<String> {
    let map = use_query_map();
    Memo::new(move |_| map.with(|map| map.get(key).unwrap_or_default()))
}

/// Whether a change of the address is a step of its own in the browser's history.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    /// A step that the back button undoes.
    Push,
    /// A correction of the step before, as while typing.
    Replace,
}

/// Gives a function that changes parameters of the page's address and leaves
/// its other parameters and their order as they are; an empty value removes one.
pub(crate) fn use_set_parameters() -> impl Fn(&[(&'static str, String)], History) + Clone {
    let navigate = use_navigate();
    let location = use_location();
    move |changes, history| {
        let map = location.query.get_untracked();
        let mut pairs: Vec<_> = map.latest_values().map(|(key, value)| (&**key, value.to_owned())).collect();
        for (key, value) in changes {
            match pairs.iter_mut().find(|(own, _)| own == key) {
                Some(pair) => pair.1.clone_from(value),
                None => pairs.push((key, value.clone())),
            }
        }
        let target = link(&location.pathname.get_untracked(), pairs);
        let replace = history == History::Replace;
        navigate(&target, NavigateOptions { resolve: false, scroll: false, replace, ..Default::default() });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_leave_out_what_is_empty_and_encode_the_rest() {
        let link = link("/predict", [("m", "64".into()), ("op", String::new()), ("q", "s3 w8×&".into())]);
        assert_eq!(link, "/predict?m=64&q=s3%20w8%C3%97%26");
        assert_eq!(super::link("/", []), "/");
        assert_eq!(address("/", [("m", String::new()), ("n", "1".into())]), "/?m=&n=1");
    }
}
