//! What every page shows in the same way while a resource is awaited, or if it failed, is empty or does not
//! exist.

use std::sync::Arc;

use leptos::prelude::*;

use crate::api::Failure;
use crate::query::went_back;
use crate::remote::{Load, Remote};
use crate::scheduler::defer;

/// Shows a resource once it has arrived. Until then, a placeholder of the same height is shown.
#[component]
pub(crate) fn Loaded<T, V>(
    remote: Remote<T>,
    height: &'static str,
    /// Shown if the server has no such resource.
    #[prop(optional, into)]
    missing: Option<ViewFn>,
    children: impl Fn(Arc<T>) -> V + Send + 'static,
) -> impl IntoView
where
    T: Send + Sync + 'static,
    V: IntoView + 'static,
{
    move || match (remote.get(), &missing) {
        (Load::Waiting, _) => view! { <Skeleton height /> }.into_any(),
        (Load::Ready(value), _) => children(value).into_any(),
        (Load::Failed(Failure::NotFound(_)), Some(missing)) => missing.run(),
        (Load::Failed(reason), _) => view! { <FailedLoad reason retry=move || remote.retry() /> }.into_any(),
    }
}

/// A placeholder for content that will appear.
#[component]
pub(crate) fn Skeleton(height: &'static str) -> impl IntoView {
    view! {
        <div class="skeleton" style:height=height role="status">
            <span class="visually-hidden">"Loading"</span>
        </div>
    }
}

/// Says what went wrong. If another try can help, there is a button for it.
#[component]
pub(crate) fn FailedLoad(reason: Failure, #[prop(into)] retry: Callback<()>) -> impl IntoView {
    let may_pass = !matches!(reason, Failure::NotFound(_));
    let again = may_pass.then(|| {
        view! { <button type="button" class="button small" on:click=move |_| retry.run(())>"Try again"</button> }
    });
    view! {
        <div class="failure" role="alert">
            <strong>"This could not be loaded"</strong>
            <p>{reason.to_string()}</p>
            {again}
        </div>
    }
}

/// Says that there is nothing yet, and what the reader can do.
pub(crate) fn empty(heading: impl Into<String>, advice: impl IntoView) -> AnyView {
    view! {
        <div class="empty">
            <strong>{heading.into()}</strong>
            <p>{advice.into_any()}</p>
        </div>
    }
    .into_any()
}

/// Says that nobody has sent anything yet.
pub(crate) fn be_the_first(heading: &'static str) -> AnyView {
    empty(heading, view! { "Be the first: " <a href="/contribute">"contribute measurements"</a> "." })
}

/// Says that the subject of a page does not exist. The children are links to other pages.
#[component]
pub(crate) fn Missing(heading: &'static str, sentence: String, children: Children) -> impl IntoView {
    view! {
        <div>
            <h1>{heading}</h1>
            <p class="lede">{sentence}</p>
        </div>
        <div class="row">{children()}</div>
    }
}

/// Makes its children after the elements before it, once the page could answer in between.
#[component]
pub(crate) fn Deferred(
    /// The height of the placeholder until then. Leave it out if nothing stands below, so that no
    /// placeholder is needed.
    #[prop(optional)]
    height: Option<&'static str>,
    children: ChildrenFn,
) -> impl IntoView {
    let is_due = due();
    move || match (is_due.get(), height) {
        (true, _) => Some(children().into_any()),
        (false, Some(height)) => Some(view! { <Skeleton height /> }.into_any()),
        (false, None) => None,
    }
}

/// Becomes true after the work that is deferred already. It is true at once if the reader went back: the page must have its old
/// height to scroll to the old place.
pub(crate) fn due() -> RwSignal<bool> {
    let is_due = RwSignal::new(went_back());
    if !is_due.get_untracked() {
        defer(move || {
            is_due.try_set(true);
        });
    }
    is_due
}
