//! Waiting, failing and having nothing each look the same on every page.

use std::sync::Arc;

use leptos::prelude::*;

use crate::remote::{Load, Remote};

/// Shows a resource once it is there; until then a quiet block as high as what
/// will stand in its place.
pub(crate) fn loaded<T, V>(
    remote: Remote<T>,
    height: &'static str,
    show: impl Fn(Arc<T>) -> V + Send + 'static,
) -> impl IntoView
where
    T: Send + Sync + 'static,
    V: IntoView + 'static,
{
    move || match remote.get() {
        Load::Waiting => skeleton(height).into_any(),
        Load::Ready(value) => show(value).into_any(),
        Load::Failed(message) => failure(message, move || remote.retry()).into_any(),
    }
}

/// Stands where something will appear.
pub(crate) fn skeleton(height: &'static str) -> impl IntoView {
    view! {
        <div class="skeleton" style:height=height role="status">
            <span class="visually-hidden">"Loading"</span>
        </div>
    }
}

/// Says what went wrong, with a way to try again.
pub(crate) fn failure(message: String, retry: impl Fn() + 'static) -> impl IntoView {
    view! {
        <div class="failure" role="alert">
            <strong>"This could not be loaded"</strong>
            <p>{message}</p>
            <button type="button" class="button small" on:click=move |_| retry()>"Try again"</button>
        </div>
    }
}

/// Says that there is nothing yet and what can be done.
pub(crate) fn empty(heading: impl IntoView, advice: impl IntoView) -> impl IntoView {
    view! {
        <div class="empty">
            <strong>{heading}</strong>
            <p>{advice}</p>
        </div>
    }
}
