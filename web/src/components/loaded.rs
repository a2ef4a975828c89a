//! Waiting, failing and having nothing each look the same on every page.

use std::sync::Arc;

use leptos::prelude::*;

use crate::api::Failure;
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
        Load::Failed(reason) => failure(&reason, move || remote.retry()),
    }
}

/// The same for what a page is about, which may not exist: `missing` says so.
pub(crate) fn loaded_or_absent<T, V>(
    remote: Remote<T>,
    height: &'static str,
    show: impl Fn(Arc<T>) -> V + Send + 'static,
    missing: impl Fn() -> AnyView + Send + 'static,
) -> impl IntoView
where
    T: Send + Sync + 'static,
    V: IntoView + 'static,
{
    move || match remote.get() {
        Load::Waiting => skeleton(height).into_any(),
        Load::Ready(value) => show(value).into_any(),
        Load::Failed(Failure::NotFound(_)) => missing(),
        Load::Failed(reason) => failure(&reason, move || remote.retry()),
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

/// Says what went wrong, with a way to try again where that can help.
pub(crate) fn failure(reason: &Failure, retry: impl Fn() + 'static) -> AnyView {
    let may_pass = !matches!(reason, Failure::NotFound(_));
    let again = may_pass.then(|| {
        view! { <button type="button" class="button small" on:click=move |_| retry()>"Try again"</button> }
    });
    view! {
        <div class="failure" role="alert">
            <strong>"This could not be loaded"</strong>
            <p>{reason.to_string()}</p>
            {again}
        </div>
    }
    .into_any()
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

/// Says that what a page is about does not exist, and where to go from there.
pub(crate) fn absent(
    heading: &'static str,
    sentence: String,
    links: impl IntoIterator<Item = (String, &'static str)>,
) -> AnyView {
    let links = links.into_iter().map(|(href, text)| view! { <a class="button" href=href>{text}</a> });
    view! {
        <div>
            <h1>{heading}</h1>
            <p class="lede">{sentence}</p>
        </div>
        <div class="row">{links.collect_view()}</div>
    }
    .into_any()
}
