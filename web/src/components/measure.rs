//! Asking the server's agents to measure what nobody has measured.

mod all;
mod next;
mod one;

pub(crate) use all::MeasureAll;
pub(crate) use one::MeasureThis;

use diode_api::{Measuring, Wanted};
use diode_core::Problem;
use diode_core::ids::ProblemId;
use leptos::prelude::*;

use crate::api::{self, Failure};
use crate::query::link;

/// The path of the API at which problems of a hardware are requested.
fn wish_path(slug: &str) -> String {
    format!("/hardware/{slug}/wanted")
}

/// The path of the API that tells the states of problems.
fn state_path<'p>(slug: &str, problems: impl IntoIterator<Item = &'p ProblemId>) -> String {
    let ids: Vec<&str> = problems.into_iter().map(ProblemId::as_str).collect();
    // The ids are joined by plain commas. They need no encoding.
    format!("{}?problems={}", wish_path(slug), ids.join(","))
}

/// Requests measurements of problems, at most [`Wanted::MAX`] at a time.
async fn ask(slug: &str, problems: Vec<Problem>) -> Result<(), Failure> {
    api::tell(&wish_path(slug), &Wanted { problems }).await
}

/// The states of problems.
async fn states(slug: &str, problems: &[ProblemId]) -> Result<Vec<Measuring>, Failure> {
    api::get(&state_path(slug, problems)).await
}

/// Why a request was refused, and what to do about it.
fn refused(failure: &Failure) -> AnyView {
    let Failure::SignedOut(_) = failure else {
        return view! { <p class="error-text" role="alert">{failure.to_string()}</p> }.into_any();
    };
    let location = window().location();
    let here = [location.pathname(), location.search()].map(Result::unwrap_or_default).concat();
    view! {
        <p class="note" role="alert">
            "This server measures for people with an account. "
            <a href=link("/sign-in", [("next", here)]) rel="external">"Sign in"</a> ", then press again."
        </p>
    }
    .into_any()
}
