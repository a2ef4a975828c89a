//! The worker that answers about served models.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use diode_worker::workloads::{Answer, Answered, Asked, What};
use js_sys::{Array, Uint8Array};
use leptos::prelude::*;

use crate::remote::Downloaded;
use crate::scheduler::Worker;

/// Takes the answer to a question.
type Then = Box<dyn FnOnce(Result<Answer, String>)>;

/// Why nothing is answered.
const FAILED: &str = "Your browser could not start the program that predicts. Load this page again, since the server may \
                      have a newer version of it, and allow web workers for this page. `diode tune` answers, too.";

thread_local! {
    static SERVED: RefCell<Served> = RefCell::default();
}

/// The worker of this tab. It starts with the first question, and stays for the next page.
#[derive(Default)]
struct Served {
    worker: Option<Worker>,
    waiting: HashMap<u32, Then>,
    /// The number of questions so far.
    asked: u32,
    /// The model that the worker has.
    model: Option<Arc<Downloaded>>,
}

/// Asks a question that needs no model.
pub(super) fn ask(what: What, then: impl FnOnce(Result<Answer, String>) + 'static) {
    send(what, None, Box::new(then));
}

/// Asks a question that a model answers.
pub(super) fn ask_of(
    model: &Arc<Downloaded>,
    what: What,
    then: impl FnOnce(Result<Answer, String>) + 'static,
) {
    send(what, Some(model), Box::new(then));
}

fn send(what: What, model: Option<&Arc<Downloaded>>, then: Then) {
    let then = SERVED.with_borrow_mut(|served| served.tell(what, model, then).err());
    if let Some(then) = then {
        then(Err(FAILED.to_owned()));
    }
}

impl Served {
    /// Sends a question. Gives `then` back if the worker does not take it.
    fn tell(&mut self, what: What, model: Option<&Arc<Downloaded>>, then: Then) -> Result<(), Then> {
        if self.worker.is_none() {
            self.worker = Worker::start(|said| arrive(said.as_deref())).ok();
            self.model = None;
        }
        self.asked += 1;
        let Some((worker, json)) =
            self.worker.as_ref().zip(serde_json::to_string(&Asked { number: self.asked, what }).ok())
        else {
            return Err(then);
        };
        let message = Array::of1(&json.into());
        if let Some(model) = model
            && !self.model.as_ref().is_some_and(|known| Arc::ptr_eq(known, model))
        {
            message.push(&Uint8Array::from(model.file.as_slice()));
            self.model = Some(Arc::clone(model));
        }
        if worker.tell(&message).is_err() {
            return Err(then);
        }
        self.waiting.insert(self.asked, then);
        Ok(())
    }
}

/// Gives an answer to whoever asked.
fn arrive(said: Option<&str>) {
    match said.and_then(|json| serde_json::from_str::<Answered>(json).ok()) {
        Some(Answered { number, answer }) => {
            if let Some(then) = SERVED.with_borrow_mut(|served| served.waiting.remove(&number)) {
                then(answer);
            }
        }
        None => {
            // The program has failed: whoever waits is told so, and the next question starts another.
            let failed = SERVED.take();
            failed.waiting.into_values().for_each(|then| then(Err(FAILED.to_owned())));
        }
    }
}

/// Says why there is no answer.
pub(super) fn failure(why: String) -> AnyView {
    view! {
        <div class="failure" role="alert">
            <strong>"There is no answer"</strong>
            <p>{why}</p>
        </div>
    }
    .into_any()
}
