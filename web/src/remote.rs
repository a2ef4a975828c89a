//! A resource of the server, as a signal that follows an address.

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

use crate::api::Failure;
use crate::cache::Keep;
use crate::{api, cache, scheduler};

/// How often a resource that changes on the server is fetched again.
const RENEWED_EVERY: Duration = Duration::from_secs(10);

/// The state of a resource.
#[derive(Debug)]
pub(crate) enum Load<T> {
    Waiting,
    Ready(Arc<T>),
    Failed(Failure),
}

impl<T> Clone for Load<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Waiting => Self::Waiting,
            Self::Ready(value) => Self::Ready(Arc::clone(value)),
            Self::Failed(failure) => Self::Failed(failure.clone()),
        }
    }
}

/// A handle on a resource that follows its address.
pub(crate) struct Remote<T: Send + Sync + 'static> {
    wanted: Memo<Option<String>>,
    state: RwSignal<Load<T>>,
    busy: RwSignal<bool>,
    attempt: RwSignal<u32>,
}

impl<T: Send + Sync + 'static> Clone for Remote<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T: Send + Sync + 'static> Copy for Remote<T> {}

impl<T: Send + Sync + 'static> Remote<T> {
    /// The state. Tracked: the caller runs again after a change.
    pub(crate) fn get(self) -> Load<T> {
        self.state.get()
    }

    /// Whether a value is there. Not tracked.
    pub(crate) fn is_there(self) -> bool {
        self.state.with_untracked(|state| matches!(state, Load::Ready(_)))
    }

    /// The value, if it has arrived. Tracked: the caller runs again after a change.
    pub(crate) fn value(self) -> Option<Arc<T>> {
        match self.state.get() {
            Load::Ready(value) => Some(value),
            Load::Waiting | Load::Failed(_) => None,
        }
    }

    /// Whether a newer answer is awaited. Tracked: the caller runs again after a change.
    pub(crate) fn busy(self) -> bool {
        self.busy.get()
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
                // The page may be gone by now, or may need another address.
                let is_wanted = self.wanted.try_get_untracked().flatten().as_ref() == Some(&path);
                // An unchanged answer is not set again, so that the page keeps its selection and focus.
                let is_known = |state: &Load<T>| matches!(state, Load::Ready(known) if **known == newest);
                if is_wanted && self.state.try_with_untracked(is_known) == Some(false) {
                    let newest = Arc::new(newest);
                    cache::put(path, Keep::Briefly, Arc::clone(&newest));
                    self.state.set(Load::Ready(newest));
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

/// Follows the address of a JSON resource. Nothing is fetched while the address is `None`. The old answer stays on
/// the page until the next one arrives, so that nothing jumps.
pub(crate) fn remote<T>(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<T>
where
    T: DeserializeOwned + Send + Sync + 'static,
{
    follow(Memo::new(move |_| path()), Keep::Briefly, Decode::AtOnce(api::decode))
}

/// The same for a list that may be long. It is read in turns, so that the page can answer in between.
pub(crate) fn remote_list<T>(path: impl Fn() -> Option<String> + Send + Sync + 'static) -> Remote<Vec<T>>
where
    T: DeserializeOwned + Send + Sync + 'static,
{
    let decode = |json| Box::pin(scheduler::list_of(json)) as Decoding<Vec<T>>;
    follow(Memo::new(move |_| path()), Keep::Briefly, Decode::InTurns(decode))
}

/// Follows the address of a file that never changes, and reads the file by `decode`. After a change of the address,
/// nothing is shown until the new file arrives: the old file could be mistaken for it.
pub(crate) fn remote_file<T>(
    path: impl Fn() -> Option<String> + Send + Sync + 'static,
    decode: fn(&[u8]) -> Result<T, Failure>,
) -> Remote<T>
where
    T: Send + Sync + 'static,
{
    follow(Memo::new(move |_| path()), Keep::Forever, Decode::AtOnce(decode))
}

/// How an answer is decoded.
enum Decode<T> {
    AtOnce(fn(&[u8]) -> Result<T, Failure>),
    InTurns(fn(Vec<u8>) -> Decoding<T>),
}

impl<T> Clone for Decode<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Decode<T> {}

type Decoding<T> = Pin<Box<dyn Future<Output = Result<T, Failure>>>>;

fn follow<T: Send + Sync + 'static>(
    wanted: Memo<Option<String>>,
    keep: Keep,
    decode: Decode<T>,
) -> Remote<T> {
    let cached = wanted.get_untracked().and_then(|path| cache::get(&path));
    let remote = Remote {
        wanted,
        state: RwSignal::new(cached.map_or(Load::Waiting, Load::Ready)),
        busy: RwSignal::new(false),
        attempt: RwSignal::new(0),
    };
    let recall = move |path: Option<&str>| {
        let known = path.and_then(cache::get);
        let enough = path.is_none() || known.is_some();
        if enough || keep == Keep::Forever {
            remote.state.set(known.map_or(Load::Waiting, Load::Ready));
        }
        enough
    };
    let arrive = move |path: String, answer: Result<Vec<u8>, Failure>| {
        let decoded = async move {
            let value = match (answer, decode) {
                (Err(failure), _) => Err(failure),
                (Ok(bytes), Decode::AtOnce(decode)) => decode(&bytes),
                (Ok(bytes), Decode::InTurns(decode)) => decode(bytes).await,
            };
            let show = move || {
                remote.state.set(match value {
                    Ok(value) => {
                        let value = Arc::new(value);
                        cache::put(path, keep, Arc::clone(&value));
                        Load::Ready(value)
                    }
                    Err(failure) => Load::Failed(failure),
                });
            };
            Box::new(show) as Show
        };
        Box::pin(decoded) as Pin<Box<dyn Future<Output = Show>>>
    };
    fetch_what_is_wanted(wanted, remote.attempt, remote.busy, Box::new(recall), Rc::new(arrive));
    remote
}

/// Shows the known answer of an address. Returns whether no request is needed.
type Recall = Box<dyn Fn(Option<&str>) -> bool>;
/// Receives and decodes the answer from an address.
type Arrive = Rc<dyn Fn(String, Result<Vec<u8>, Failure>) -> Pin<Box<dyn Future<Output = Show>>>>;
/// Shows the decoded answer.
type Show = Box<dyn FnOnce()>;

/// The part that does not depend on the type, so it is compiled once. Fetches the wanted address unless `recall` has
/// its answer, and shows the newest answer.
fn fetch_what_is_wanted(
    wanted: Memo<Option<String>>,
    attempt: RwSignal<u32>,
    busy: RwSignal<bool>,
    recall: Recall,
    arrive: Arrive,
) {
    let newest = StoredValue::new(0_u32);
    Effect::new(move |_| {
        attempt.track();
        let wanted = wanted.get();
        newest.update_value(|n| *n += 1);
        let ticket = newest.get_value();
        let known = recall(wanted.as_deref());
        busy.set(!known);
        let Some(path) = wanted.filter(|_| !known) else { return };
        let arrive = Rc::clone(&arrive);
        spawn_local(async move {
            let answer = api::get_bytes(&path).await;
            let show = arrive(path, answer).await;
            // Showing gets a turn of its own, after decoding.
            scheduler::yield_to_browser().await;
            // The page may be gone by now, or may need another address.
            if newest.try_get_value() == Some(ticket) {
                busy.set(false);
                show();
            }
        });
    });
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
