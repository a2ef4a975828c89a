//! What stands where a resource is waited for, failed, is empty or does not exist: the same on every page.

use std::sync::Arc;

use leptos::prelude::*;

use crate::api::Failure;
use crate::remote::{Load, Remote};

/// Shows a resource once it is there; until then a quiet block as high as what
/// will stand in its place.
#[component]
pub(crate) fn Loaded<T, V>(
    remote: Remote<T>,
    height: &'static str,
    /// Shown where the server has no such resource.
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

/// Stands where something will appear.
#[component]
pub(crate) fn Skeleton(height: &'static str) -> impl IntoView {
    view! {
        <div class="skeleton" style:height=height role="status">
            <span class="visually-hidden">"Loading"</span>
        </div>
    }
}

/// Says what went wrong, with a button to try again where that can help.
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

/// Says that there is nothing yet; its children say what can be done.
#[component]
pub(crate) fn Empty(#[prop(into)] heading: String, children: Children) -> impl IntoView {
    view! {
        <div class="empty">
            <strong>{heading}</strong>
            <p>{children()}</p>
        </div>
    }
}

/// Says that what a page is about does not exist; its children are links to other pages.
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
