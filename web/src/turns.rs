//! Long work is done a few milliseconds at a time, so that the page can answer in between.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

use leptos::prelude::set_timeout;
use leptos::task::spawn_local;
use serde::de::DeserializeOwned;

use crate::api::Failure;

/// How long work may go on before the page is drawn. Drawing a long page takes longer than this, so it must not happen
/// too often.
const TURN_MS: f64 = 25.0;

/// The number of values that are read between two looks at the clock.
const BETWEEN_LOOKS: usize = 32;

/// A turn of work.
struct Turn {
    began: f64,
}

impl Turn {
    fn begin() -> Self {
        Self { began: js_sys::Date::now() }
    }

    /// If this turn has lasted long enough, lets the page answer and begins the next turn.
    async fn pass_if_long(&mut self) {
        if js_sys::Date::now() - self.began >= TURN_MS {
            pass().await;
            *self = Self::begin();
        }
    }
}

thread_local! {
    /// Postponed work, in the order in which it will be done.
    static PUT_OFF: RefCell<VecDeque<Box<dyn FnOnce()>>> = RefCell::default();
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Postpones work to a later turn, after all work that was postponed before. The page that the work is for may be
/// gone by then.
pub(crate) fn put_off(work: impl FnOnce() + 'static) {
    PUT_OFF.with_borrow_mut(|waiting| waiting.push_back(Box::new(work)));
    begin();
}

fn begin() {
    if IS_AT_WORK.replace(true) {
        return;
    }
    spawn_local(async {
        pass().await;
        let mut began = js_sys::Date::now();
        while let Some(work) = PUT_OFF.with_borrow_mut(VecDeque::pop_front) {
            work();
            follow_effects().await;
            if js_sys::Date::now() - began >= TURN_MS {
                pass().await;
                began = js_sys::Date::now();
            }
        }
        IS_AT_WORK.set(false);
    });
}

/// Lets the effects run that the last work has triggered.
async fn follow_effects() {
    let mut have_run = false;
    poll_fn(move |context| {
        if std::mem::replace(&mut have_run, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Lets the page answer before the caller goes on.
pub(crate) async fn pass() {
    let state = Rc::new(RefCell::new((false, None::<Waker>)));
    let passed = Rc::clone(&state);
    let end = move || {
        let waker = {
            let mut state = passed.borrow_mut();
            state.0 = true;
            state.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    };
    set_timeout(end, Duration::ZERO);
    poll_fn(move |context| {
        let mut state = state.borrow_mut();
        if state.0 {
            return Poll::Ready(());
        }
        state.1 = Some(context.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Reads a long JSON list.
pub(crate) async fn list_of<T: DeserializeOwned>(json: Vec<u8>) -> Result<Vec<T>, Failure> {
    let mut list = List::new(&json)?;
    let (mut values, mut turn) = (Vec::new(), Turn::begin());
    while let Some(value) = list.next()? {
        values.push(value);
        if values.len().is_multiple_of(BETWEEN_LOOKS) {
            turn.pass_if_long().await;
        }
    }
    Ok(values)
}

/// A JSON list that is read value by value.
struct List<'j> {
    rest: &'j [u8],
    is_first: bool,
}

impl<'j> List<'j> {
    fn new(json: &'j [u8]) -> Result<Self, Failure> {
        let rest = json.trim_ascii().strip_prefix(b"[").ok_or_else(|| unreadable("it is no list"))?;
        Ok(Self { rest, is_first: true })
    }

    fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>, Failure> {
        self.rest = self.rest.trim_ascii_start();
        if let Some(after) = self.rest.strip_prefix(b"]") {
            let is_all = after.is_empty();
            return if is_all { Ok(None) } else { Err(unreadable("something follows the list")) };
        }
        if !std::mem::take(&mut self.is_first) {
            self.rest =
                self.rest.strip_prefix(b",").ok_or_else(|| unreadable("a comma is missing in the list"))?;
        }
        let mut values = serde_json::Deserializer::from_slice(self.rest).into_iter();
        let value = values.next().ok_or_else(|| unreadable("the list has no end"))?;
        let value = value.map_err(|error| Failure::Unreadable(error.to_string()))?;
        self.rest = &self.rest[values.byte_offset()..];
        Ok(Some(value))
    }
}

fn unreadable(why: &str) -> Failure {
    Failure::Unreadable(why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Vec<(u8, String)>, Failure> {
        let mut list = List::new(json.as_bytes())?;
        let mut values = Vec::new();
        while let Some(value) = list.next()? {
            values.push(value);
        }
        Ok(values)
    }

    #[test]
    fn a_list_is_read_value_by_value() {
        let two = [(1, "a]".to_owned()), (2, "[,".to_owned())];
        assert_eq!(read(r#" [ [1, "a]"] , [2, "[,"] ] "#), Ok(two.to_vec()));
        assert_eq!(read("[]"), Ok(Vec::new()));
        for wrong in ["", "{}", "[", "[[1, \"a\"]", "[[1, \"a\"] [2, \"b\"]]", "[] x", "[[1]]", "[,]"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
