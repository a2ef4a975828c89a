//! What every page shows in the same way while a resource is awaited, or if it failed, is empty or does not
//! exist.

use std::sync::Arc;

use leptos::prelude::*;

use crate::api::Failure;
use crate::remote::{Load, Remote};

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

/// Says that there is nothing yet. The children say what the reader can do.
#[component]
pub(crate) fn Empty(#[prop(into)] heading: String, children: Children) -> impl IntoView {
    view! {
        <div class="empty">
            <strong>{heading}</strong>
            <p>{children()}</p>
        </div>
    }
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
