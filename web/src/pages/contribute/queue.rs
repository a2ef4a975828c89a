//! Files that are sent one after the other; one that fails does not keep the others.

use std::collections::VecDeque;

use leptos::prelude::*;
use web_sys::File;

use super::Stage;
use super::send::{Upload, send};
use crate::turns::put_off;
use crate::{cache, format};

/// A file as it is listed.
#[derive(Clone)]
pub(super) struct Entry {
    pub(super) number: usize,
    /// Its name and size.
    pub(super) name: String,
    pub(super) stage: RwSignal<Stage>,
}

/// A file that waits, with the version of the terms that the visitor agrees to.
struct Waiting {
    file: File,
    agreed: Option<u32>,
    stage: RwSignal<Stage>,
}

#[derive(Clone, Copy)]
pub(super) struct Queue {
    entries: RwSignal<Vec<Entry>>,
    waiting: StoredValue<VecDeque<Waiting>, LocalStorage>,
    /// Dropping an upload aborts it, so leaving the page does too.
    upload: StoredValue<Option<Upload>, LocalStorage>,
    is_sending: StoredValue<bool>,
    added: StoredValue<usize>,
}

impl Queue {
    pub(super) fn new() -> Self {
        Self {
            entries: RwSignal::new(Vec::new()),
            waiting: StoredValue::new_local(VecDeque::new()),
            upload: StoredValue::new_local(None),
            is_sending: StoredValue::new(false),
            added: StoredValue::new(0),
        }
    }

    /// All files, in the order in which they came; tracked.
    pub(super) fn entries(self) -> Vec<Entry> {
        self.entries.get()
    }

    /// Lists a file and sends it in its turn, unless something is wrong with it or with the terms.
    pub(super) fn add(self, file: File, agreed: Result<Option<u32>, &str>) {
        let name = format!("{}, {}", file.name(), format::bytes(file.size() as u64));
        let agreed =
            if file.size() > 0.0 { agreed } else { Err("the file is empty; choose one with timings") };
        let first = agreed.map_or_else(|why| Stage::Refused(why.to_owned()), |_| Stage::Waiting);
        self.added.update_value(|added| *added += 1);
        let number = self.added.get_value();
        // An event has no owner to end it, so it stays until the tab is closed.
        let stage = RwSignal::new(first);
        self.entries.update(|entries| {
            // Another try takes the place of a refusal.
            entries.retain(|entry| {
                entry.name != name || !matches!(*entry.stage.read_untracked(), Stage::Refused(_))
            });
            entries.push(Entry { number, name, stage });
        });
        if let Ok(agreed) = agreed {
            self.waiting.update_value(|waiting| waiting.push_back(Waiting { file, agreed, stage }));
            self.send_next();
        }
    }

    fn send_next(self) {
        // The page may be gone by now.
        if self.is_sending.try_get_value() != Some(false) {
            return;
        }
        let next = self.waiting.try_update_value(VecDeque::pop_front).flatten();
        let Some(Waiting { file, agreed, stage }) = next else { return };
        self.is_sending.set_value(true);
        let report = move |next: Stage| {
            if matches!(next, Stage::Stored(_)) {
                cache::clear();
            }
            let is_over = matches!(next, Stage::Stored(_) | Stage::Refused(_));
            stage.try_set(next);
            if is_over {
                self.is_sending.try_set_value(false);
                // Later: the next upload takes the place of the one that reports this.
                put_off(move || self.send_next());
            }
        };
        self.upload.set_value(send(&file, agreed, report));
    }
}
