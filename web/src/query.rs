//! The query part of addresses. Every view of the dashboard has an address. The back button shows a page as the reader
//! left it: with the same rows, scrolled to the same place.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::fmt::{Display, Write as _};

use leptos::ev::{keydown, pointerdown, popstate, touchstart, wheel};
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

/// The key under which the hardware that the reader looked at last is stored.
const HARDWARE: &str = "diode-hardware";

/// The slug of the hardware that the reader looked at last, if any.
pub(crate) fn remembered_hardware() -> Option<String> {
    window().local_storage().ok()??.get_item(HARDWARE).ok()?
}

/// Remembers the hardware that the reader looks at. Without storage, nothing is remembered.
pub(crate) fn remember_hardware(slug: &str) {
    if let Ok(Some(storage)) = window().local_storage() {
        let _ = storage.set_item(HARDWARE, slug);
    }
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

/// The most frames until a page must have its old height.
const PATIENCE: u32 = 600;

thread_local! {
    /// How far each address was scrolled when the reader left it.
    static PLACES: RefCell<HashMap<String, f64>> = RefCell::default();
    static WENT_BACK: Cell<bool> = const { Cell::new(false) };
    /// Counts the reader's acts. Once the reader scrolls or presses something, the page must not be
    /// scrolled for them.
    static ACTS: Cell<u32> = const { Cell::new(0) };
}

/// Whether the reader came to this page by the browser's back or forward button.
pub(crate) fn went_back() -> bool {
    WENT_BACK.get()
}

/// Remembers and restores scroll positions as long as the dashboard runs.
pub(crate) fn remember_places() {
    let leave = || {
        let window = window();
        WENT_BACK.set(false);
        acted();
        if let (Ok(address), Ok(place)) = (window.location().href(), window.scroll_y()) {
            PLACES.with_borrow_mut(|places| places.insert(address, place));
        }
    };
    // Every way to open another page begins with a press of a pointer or a key.
    window_event_listener(pointerdown, move |_| leave());
    window_event_listener(keydown, move |_| leave());
    window_event_listener(wheel, |_| acted());
    window_event_listener(touchstart, |_| acted());
    window_event_listener(popstate, move |_| {
        WENT_BACK.set(true);
        let address = window().location().href().unwrap_or_default();
        if let Some(place) = PLACES.with_borrow(|places| places.get(&address).copied()) {
            restore(address, place, ACTS.get(), PATIENCE);
        }
    });
}

/// Scrolls to a place as soon as the page is high enough.
fn restore(address: String, place: f64, acts: u32, patience: u32) {
    request_animation_frame(move || {
        let window = window();
        let here = window.location().href().is_ok_and(|here| here == address);
        if !here || acts != ACTS.get() || patience == 0 {
            return;
        }
        window.scroll_to_with_x_and_y(0.0, place);
        if window.scroll_y().is_ok_and(|now| (now - place).abs() > 1.0) {
            restore(address, place, acts, patience - 1);
        }
    });
}

fn acted() {
    ACTS.set(ACTS.get().wrapping_add(1));
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
