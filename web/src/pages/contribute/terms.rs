//! The terms under which a contribution is given.

use std::sync::Arc;

use diode_api::Terms;
use leptos::prelude::*;

#[component]
pub(super) fn TermsCard(
    terms: Arc<Terms>,
    /// Whether the visitor has ticked the box.
    agrees: RwSignal<bool>,
) -> impl IntoView {
    let Terms { version, licence, text, asked, .. } = &*terms;
    // The first paragraph is the title, which is not repeated.
    let paragraphs: Vec<String> = text.split("\n\n").skip(1).map(|text| text.trim().to_owned()).collect();
    let stated = format!("What you send is published under {licence}. ");
    let agreement = asked.then(|| {
        view! {
            <label>
                <input
                    type="checkbox"
                    prop:checked=move || agrees.get()
                    on:change=move |event| agrees.set(event_target_checked(&event))
                />
                {format!(" I agree to the terms of contributing, version {version}")}
            </label>
        }
    });
    view! {
        <div class="card" data-testid="terms">
            <p>{stated}<a href="/terms" rel="external">"Terms of contributing"</a></p>
            <details>
                <summary>"Read them here"</summary>
                {paragraphs.into_iter().map(|text| view! { <p>{text}</p> }).collect_view()}
            </details>
            {agreement}
        </div>
    }
}
