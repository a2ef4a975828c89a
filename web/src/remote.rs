//! A resource of the server that follows an address.

use std::any::TypeId;
use std::marker::PhantomData;
use std::ops::Deref;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use diode_core::ids::{ModelId, ProblemId};
use diode_model::Model;
use leptos::prelude::*;
use leptos::task::spawn_local;
use serde::de::DeserializeOwned;

use crate::api::{self, Failure};
use crate::cache::{self, AnyValue, Keep};
use crate::scheduler;

/// How often a resource that changes on the server is fetched again.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// The state of a resource.
#[derive(Debug)]
pub(crate) enum Load<T> {
    Waiting,
    Ready(Arc<T>),
    Failed(Failure),
}

/// What an address answered.
#[derive(Clone)]
struct Reply {
    path: Option<String>,
    /// How often the address had been retried.
    attempt: u32,
    /// `None` if there is no address, or as long as the answer is awaited.
    value: Option<Result<AnyValue, Failure>>,
}

impl Reply {
    fn is_of(&self, path: &Option<String>, attempt: u32) -> bool {
        self.path == *path && self.attempt == attempt
    }
}

/// How answers are decoded and kept.
#[derive(Clone)]
struct Form {
    of: TypeId,
    keep: Keep,
    decode: Decode,
}

type Decode = Rc<dyn Fn(Vec<u8>) -> Pin<Box<dyn Future<Output = Result<AnyValue, Failure>>>>>;

/// A handle on a resource that follows its address.
pub(crate) struct Remote<T> {
    wanted: Memo<Option<String>>,
    attempt: RwSignal<u32>,
    answer: RwSignal<Reply>,
    keep: Keep,
    value: PhantomData<fn() -> T>,
}

impl<T> Clone for Remote<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Remote<T> {}

impl<T: Send + Sync + 'static> Remote<T> {
    fn new(path: impl Fn() -> Option<String> + Send + Sync + 'static, keep: Keep, decode: Decode) -> Self {
        let (wanted, attempt) = (Memo::new(move |_| path()), RwSignal::new(0));
        let form = Form { of: TypeId::of::<T>(), keep, decode };
        let path = wanted.get_untracked();
        let known = path.as_deref().and_then(|path| cache::get(path, form.of));
        let answer = RwSignal::new(Reply { path, attempt: 0, value: known.map(Ok) });
        follow(wanted, attempt, answer, form);
        Self { wanted, attempt, answer, keep, value: PhantomData }
    }

    /// The state. Tracked: the caller runs again after a change.
    pub(crate) fn get(self) -> Load<T> {
        let answer = self.answer.get();
        match answer.value {
            // A file could be mistaken for the next one.
            _ if self.keep == Keep::Forever && self.wanted.get() != answer.path => Load::Waiting,
            Some(Ok(value)) => value.downcast().map_or(Load::Waiting, Load::Ready),
            Some(Err(failure)) => Load::Failed(failure),
            None => Load::Waiting,
        }
    }

    /// Whether a value is in memory, so that it is shown without a request. Not tracked.
    pub(crate) fn is_there(self) -> bool {
        self.wanted.get_untracked().is_some_and(|path| cache::get(&path, TypeId::of::<T>()).is_some())
    }

    /// The value, if it has arrived. Tracked: the caller runs again after a change.
    pub(crate) fn value(self) -> Option<Arc<T>> {
        match self.get() {
            Load::Ready(value) => Some(value),
            Load::Waiting | Load::Failed(_) => None,
        }
    }

    /// Whether a newer answer is awaited. Tracked: the caller runs again after a change.
    pub(crate) fn busy(self) -> bool {
        let (wanted, attempt) = (self.wanted.get(), self.attempt.get());
        wanted.is_some()
            && !self.answer.with(|answer| answer.value.is_some() && answer.is_of(&wanted, attempt))
    }

    /// Fetches the resource again.
    pub(crate) fn retry(self) {
        self.attempt.update(|n| *n += 1);
    }

    /// Fetches the resource again and again, as long as the owner is on the page. If a request fails, the last answer
    /// stays.
    pub(crate) fn renewed(self) -> Self
    where
        T: DeserializeOwned + PartialEq,
    {
        let renew = move || {
            let Some(path) = self.wanted.get_untracked() else { return };
            spawn_local(async move {
                let Ok(newest) = api::get::<T>(&path).await else { return };
                let is_known = |value: &AnyValue| value.downcast_ref() == Some(&newest);
                // The page may be gone by now, or may need another address. An unchanged answer is not set again, so that
                // the page keeps its selection and focus.
                let is_changed = |answer: &Reply| {
                    let is_known = matches!(&answer.value, Some(Ok(value)) if is_known(value));
                    answer.path.as_ref() == Some(&path) && !is_known
                };
                if self.answer.try_with_untracked(is_changed) == Some(true) {
                    let newest: AnyValue = Arc::new(newest);
                    cache::put(path.clone(), Keep::Briefly, Arc::clone(&newest));
                    let attempt = self.attempt.get_untracked();
                    self.answer.set(Reply { path: Some(path), attempt, value: Some(Ok(newest)) });
                }
            });
        };
        let timer = set_interval_with_handle(renew, RENEWED_EVERY).ok();
        on_cleanup(move || {
            if let Some(timer) = timer {
                timer.clear();
            }
        });
        self
    }
}

/// Keeps the answer of the wanted address. `LocalResource` would do this with 11 kB more to download.
fn follow(wanted: Memo<Option<String>>, attempt: RwSignal<u32>, answer: RwSignal<Reply>, form: Form) {
    Effect::new(move |_| {
        let (path, attempt_now) = (wanted.get(), attempt.get());
        let known = path.as_deref().and_then(|path| cache::get(path, form.of));
        let Some(path) = path.filter(|_| known.is_none()) else {
            let is_shown =
                |shown: &Reply| known.is_some() && shown.is_of(&wanted.get_untracked(), attempt_now);
            if !answer.with_untracked(is_shown) {
                answer.set(Reply {
                    path: wanted.get_untracked(),
                    attempt: attempt_now,
                    value: known.map(Ok),
                });
            }
            return;
        };
        let form = form.clone();
        spawn_local(async move {
            let value = Some(fetch(&path, form).await);
            let newest = Reply { path: Some(path), attempt: attempt_now, value };
            // The page may be gone by now, or may need another address.
            let is_wanted =
                wanted.try_get_untracked().is_some_and(|wanted| newest.is_of(&wanted, attempt_now));
            if is_wanted && attempt.try_get_untracked() == Some(attempt_now) {
                answer.set(newest);
            }
        });
    });
}

async fn fetch(path: &str, form: Form) -> Result<AnyValue, Failure> {
    let value = (form.decode)(api::get_bytes(path).await?).await?;
    cache::put(path.to_owned(), form.keep, Arc::clone(&value));
    // Showing is a task of its own, after decoding.
    scheduler::yield_to_browser().await;
    Ok(value)
}

/// Follows the address of a JSON resource. Nothing is fetched while the address is `None`. The old answer stays on
/// the page until the next one arrives, so that nothing jumps.
pub(crate) fn remote<T>(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<T>
where
    T: DeserializeOwned + Send + Sync + 'static,
{
    Remote::new(path, Keep::Briefly, at_once(api::decode::<T>))
}

/// The same for a list that may be long. It is read in slices, so that the page can answer in between.
pub(crate) fn remote_list<T>(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Vec<T>>
where
    T: DeserializeOwned + Send + Sync + 'static,
{
    let decode = |json| -> Pin<Box<dyn Future<Output = _>>> {
        Box::pin(async { Ok(Arc::new(scheduler::list_of::<T>(json).await?) as AnyValue) })
    };
    Remote::new(path, Keep::Briefly, Rc::new(decode))
}

/// Follows the address of a file that never changes, and reads the file by `decode`. After a change of the address,
/// nothing is shown until the new file arrives.
pub(crate) fn remote_file<T: Send + Sync + 'static>(
    path: impl Fn() -> Option<String> + Send + Sync + 'static,
    decode: fn(&[u8]) -> Result<T, Failure>,
) -> Remote<T> {
    Remote::new(path, Keep::Forever, at_once(decode))
}

fn at_once<T: Send + Sync + 'static>(decode: fn(&[u8]) -> Result<T, Failure>) -> Decode {
    Rc::new(move |bytes| {
        let value = decode(&bytes).map(|value| Arc::new(value) as AnyValue);
        Box::pin(std::future::ready(value))
    })
}

/// A model, and the file that it was read from. A worker gets the file.
pub(crate) struct Downloaded {
    pub(crate) model: Arc<Model>,
    pub(crate) file: Vec<u8>,
}

impl Deref for Downloaded {
    type Target = Model;

    fn deref(&self) -> &Model {
        &self.model
    }
}

/// Follows a model's id. Nothing is fetched while the id is `None`.
pub(crate) fn remote_model(id: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Downloaded> {
    file(move || id().map(|id| format!("/models/{id}/download")))
}

/// Follows the ids of a model and of a problem. Fetches the network of the model's cross-validation that was
/// trained without the problem.
pub(crate) fn remote_unseen_model(
    ids: impl Fn() -> Option<(ModelId, ProblemId)> + Send + Sync + 'static,
) -> Remote<Downloaded> {
    file(move || ids().map(|(model, problem)| format!("/models/{model}/unseen/{problem}")))
}

fn file(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Downloaded> {
    remote_file(path, |bytes| {
        let model = Model::from_bytes(bytes).map_err(|error| Failure::Unreadable(error.to_string()))?;
        Ok(Downloaded { model: Arc::new(model), file: bytes.to_vec() })
    })
}
