//! A list that is being ranked or is done. A worker ranks it (`web/worker`), so the page still answers.

use diode_core::Epilogue;
use diode_worker::{Line, Row};
use js_sys::{Array, Uint8Array};
use leptos::prelude::*;
use wasm_bindgen::JsValue;

use crate::remote::Downloaded;
use crate::worker::Worker;

/// The number of lines that are ranked together. The page adds their rows in one turn, which must be short.
const PORTION: usize = 32;
/// The number of portions that the worker has at a time. The worker ranks one while the page adds the rows
/// of the other.
const AHEAD: usize = 2;

#[derive(Clone, Copy)]
pub(super) struct ListRun {
    pub(super) rows: RwSignal<Vec<Row>>,
    /// The number of rows when the list is done.
    pub(super) total: RwSignal<usize>,
    /// The number of the current list. It tells rows of an older list from those of the current one.
    pub(super) run: RwSignal<u32>,
    /// Whether the list ended before its last line.
    pub(super) stopped: RwSignal<bool>,
    /// Whether the worker could not be started, or failed.
    pub(super) failed: RwSignal<bool>,
    /// The worker. It ends when the reader leaves the page.
    worker: StoredValue<Option<Worker>, LocalStorage>,
    /// The lines that the worker has not got yet.
    waiting: StoredValue<std::vec::IntoIter<Line>>,
    /// The number of portions that the worker has.
    asked: StoredValue<usize>,
}

impl ListRun {
    /// Starts without a list. The worker starts now, so that its program is loaded even if the network
    /// fails later.
    pub(super) fn new() -> Self {
        let list = Self {
            rows: RwSignal::new(Vec::new()),
            total: RwSignal::new(0),
            run: RwSignal::new(0),
            stopped: RwSignal::new(false),
            failed: RwSignal::new(false),
            worker: StoredValue::new_local(None),
            waiting: StoredValue::new(Vec::new().into_iter()),
            asked: StoredValue::new(0),
        };
        list.start_worker();
        list
    }

    /// Starts a list. This ends the previous list.
    pub(super) fn begin(self, model: &Downloaded, lines: Vec<Line>, tf32: bool, epilogue: Epilogue) {
        self.clear();
        self.total.set(lines.len());
        self.waiting.set_value(lines.into_iter());
        let model = Uint8Array::from(model.file.as_slice());
        self.tell(&Array::of3(&model.into(), &tf32.into(), &epilogue.as_str().into()));
        (0..AHEAD).for_each(|_| self.tell_more());
    }

    /// Ends the list and keeps its rows.
    pub(super) fn stop(self) {
        self.stopped.set(true);
        self.free_worker();
    }

    /// Ends the list and forgets its rows.
    pub(super) fn clear(self) {
        self.run.update(|run| *run += 1);
        self.rows.set(Vec::new());
        self.total.set(0);
        self.stopped.set(false);
        self.failed.set(false);
        self.free_worker();
    }

    /// Replaces the worker if it is busy or has failed.
    fn free_worker(self) {
        if self.asked.get_value() > 0 || self.worker.with_value(Option::is_none) {
            self.start_worker();
        }
    }

    fn start_worker(self) {
        self.asked.set_value(0);
        let worker = Worker::start(move |said| match said {
            Some(json) => self.arrive(&json),
            None => self.fail(),
        });
        match worker {
            Ok(worker) => self.worker.set_value(Some(worker)),
            Err(_) => self.fail(),
        }
    }

    fn tell(self, what: &JsValue) {
        let was_told =
            |worker: &Option<Worker>| worker.as_ref().is_some_and(|worker| worker.tell(what).is_ok());
        if !self.worker.with_value(was_told) {
            self.fail();
        }
    }

    /// Sends the worker the next lines, if there are any.
    fn tell_more(self) {
        let portion = self.waiting.try_update_value(|waiting| waiting.take(PORTION).collect::<Vec<_>>());
        let Some(portion) = portion.filter(|portion| !portion.is_empty()) else { return };
        let Ok(json) = serde_json::to_string(&portion) else { return self.fail() };
        self.asked.update_value(|asked| *asked += 1);
        self.tell(&json.into());
    }

    fn arrive(self, json: &str) {
        let Ok(rows) = serde_json::from_str::<Vec<Row>>(json) else { return self.fail() };
        self.asked.update_value(|asked| *asked -= 1);
        self.tell_more();
        self.rows.update(|all| all.extend(rows));
    }

    fn fail(self) {
        self.worker.set_value(None);
        self.failed.set(true);
        self.stopped.set(true);
    }
}
