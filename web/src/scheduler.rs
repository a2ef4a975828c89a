//! Long work is done a few milliseconds at a time, so that the page can answer in between, or beside it by a [`Worker`].

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;

use diode_core::Epilogue;
use diode_model::Model;
use diode_worker::{Line, Ranking, Row};
use js_sys::futures::JsFuture;
use js_sys::{Promise, Reflect};
use leptos::prelude::window;
use leptos::task::spawn_local;
use serde::de::DeserializeOwned;
use wasm_bindgen::closure::Closure;
use wasm_bindgen::{JsCast as _, JsValue};
use web_sys::{MessageEvent, WorkerOptions};

use crate::api::Failure;

/// How long work may go on before the page is drawn. Drawing a long page takes longer than this, so it must not happen
/// too often.
const SLICE_MS: f64 = 25.0;

/// How long ranking may go on, so that the page answers while the reader types.
const RANKING_SLICE_MS: f64 = 10.0;

/// The number of values that are read between two looks at the clock.
const BETWEEN_LOOKS: usize = 32;

/// A slice of work, which ends by letting the page answer.
struct Slice {
    began: f64,
    ms: f64,
}

impl Slice {
    fn of(ms: f64) -> Self {
        Self { began: js_sys::Date::now(), ms }
    }

    /// If this slice has lasted long enough, lets the page answer and begins the next one. Returns whether it did.
    async fn end_if_long(&mut self) -> bool {
        let is_long = js_sys::Date::now() - self.began >= self.ms;
        if is_long {
            yield_to_browser().await;
            *self = Self::of(self.ms);
        }
        is_long
    }
}

/// Lets the browser draw the page and answer the reader before the caller goes on.
pub(crate) async fn yield_to_browser() {
    let passed = Promise::new(&mut |resolve, _| {
        // A window can always set a timer.
        let _ = window().set_timeout_with_callback(&resolve);
    });
    // The promise is never rejected.
    let _ = JsFuture::from(passed).await;
}

thread_local! {
    /// Work for later slices, in the order in which it will be done.
    static DEFERRED: RefCell<VecDeque<Box<dyn FnOnce()>>> = RefCell::default();
    static IS_AT_WORK: Cell<bool> = const { Cell::new(false) };
}

/// Leaves work to a later slice, after all work that was deferred before. The page that the work is for may be
/// gone by then.
pub(crate) fn defer(work: impl FnOnce() + 'static) {
    DEFERRED.with_borrow_mut(|waiting| waiting.push_back(Box::new(work)));
    if IS_AT_WORK.replace(true) {
        return;
    }
    spawn_local(async {
        yield_to_browser().await;
        let mut slice = Slice::of(SLICE_MS);
        while let Some(work) = DEFERRED.with_borrow_mut(VecDeque::pop_front) {
            work();
            follow_effects().await;
            slice.end_if_long().await;
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

/// Ranks lines on the page's own thread, and passes the rows of each slice to `arrive`. Ends early when `arrive` returns
/// false. A worker ranks long lists (`pages/list.rs`).
pub(crate) fn rank_in_slices(
    model: Arc<Model>,
    lines: Vec<Line>,
    tf32: bool,
    epilogue: Epilogue,
    arrive: impl Fn(Vec<Row>) -> bool + 'static,
) {
    spawn_local(async move {
        let (mut ranking, mut rows) = (Ranking::new(model, tf32, epilogue), Vec::new());
        let mut slice = Slice::of(RANKING_SLICE_MS);
        for line in lines {
            rows.push(ranking.row(line));
            if slice.end_if_long().await && !arrive(std::mem::take(&mut rows)) {
                return;
            }
        }
        arrive(rows);
    });
}

/// Reads a long JSON list.
pub(crate) async fn list_of<T: DeserializeOwned>(json: Vec<u8>) -> Result<Vec<T>, Failure> {
    let mut list = List::new(&json)?;
    let (mut values, mut slice) = (Vec::new(), Slice::of(SLICE_MS));
    while let Some(value) = list.next()? {
        values.push(value);
        if values.len().is_multiple_of(BETWEEN_LOOKS) {
            slice.end_if_long().await;
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

/// A program that runs beside the dashboard, in a thread of its own (`web/worker`). Dropping the worker ends the program
/// at once.
pub(crate) struct Worker {
    worker: web_sys::Worker,
    _on_event: Closure<dyn FnMut(MessageEvent)>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.worker.set_onmessage(None);
        self.worker.set_onerror(None);
        self.worker.terminate();
    }
}

impl Worker {
    /// Starts the program. `report` gets each text that the program posts. It gets `None` for any
    /// other message, or if the program could not be fetched or run. Fails if the browser allows no workers.
    pub(crate) fn start(report: impl Fn(Option<String>) + 'static) -> Result<Self, JsValue> {
        let address = Reflect::get(&window(), &"worker".into())?.as_string().unwrap_or_default();
        let options = WorkerOptions::new();
        Reflect::set(&options, &"type".into(), &"module".into())?;
        let worker = web_sys::Worker::new_with_options(&address, &options)?;
        // If the script could not be fetched or run, the event has no data.
        let on_event = Closure::<dyn FnMut(MessageEvent)>::new(move |event: MessageEvent| {
            report(event.data().as_string());
        });
        worker.set_onmessage(Some(on_event.as_ref().unchecked_ref()));
        worker.set_onerror(Some(on_event.as_ref().unchecked_ref()));
        Ok(Self { worker, _on_event: on_event })
    }

    pub(crate) fn tell(&self, what: &JsValue) -> Result<(), JsValue> {
        self.worker.post_message(what)
    }
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
