//! The query part of addresses. Every view of the dashboard has an address.

use std::fmt::{Display, Write as _};

use leptos::prelude::*;
use leptos_router::NavigateOptions;
use leptos_router::hooks::{use_location, use_navigate, use_query_map};

/// Joins a path and its parameters. Leaves out parameters without a value.
pub(crate) fn link<'a>(path: &str, parameters: impl IntoIterator<Item = (&'a str, String)>) -> String {
    address(path, parameters.into_iter().filter(|(_, value)| !value.is_empty()))
}

/// Joins a path and its parameters. Keeps empty ones, because an empty parameter may differ from a missing
/// one.
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

/// The address of a problem's page, on some hardware and by some method. The API has the same one.
pub(crate) fn problem_page(id: impl Display, hardware: impl Display, method: impl Display) -> String {
    let view = [("hardware", hardware.to_string()), ("method", method.to_string())];
    link(&format!("/problems/{id}"), view)
}

/// The address of the server, for commands.
pub(crate) fn server_address() -> String {
    window().location().origin().unwrap_or_default()
}

/// Percent-encodes everything except unreserved characters.
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

/// Reads one parameter of the page's address. It is empty if the address does not have it.
pub(crate) fn parameter(key: &'static str) -> Memo<String> {
    let map = use_query_map();
    Memo::new(move |_| map.with(|map| map.get(key).unwrap_or_default()))
}

/// Reads one parameter of the page's address, or takes the default if the address does not have it.
pub(crate) fn parameter_or(key: &'static str, default: String) -> Memo<String> {
    let given = parameter(key);
    Memo::new(move |_| given.with(|given| if given.is_empty() { default.clone() } else { given.clone() }))
}

/// How a change of the address enters the browser's history.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum History {
    /// As a new step, which the back button undoes.
    Push,
    /// In place of the last step, as while the reader types.
    Replace,
}

/// Gives a function that changes parameters of the page's address. The other parameters and their order
/// stay the same. An empty value removes a parameter.
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
