//! How far the ranking may be trusted, from the model's own evaluation.

use std::collections::BTreeMap;

use leptos::prelude::*;

use crate::components::bar;
use crate::format;
use crate::pages::TOP_K;

/// The share of unseen problems where the best of k picks was within 5 % of the best.
pub(super) fn sureness(within_5_percent: &BTreeMap<String, f64>) -> Option<impl IntoView + use<>> {
    let shares: Vec<(&str, f64)> =
        TOP_K.into_iter().filter_map(|k| Some((k, *within_5_percent.get(k)?))).collect();
    let rows = shares.iter().map(|(k, share)| {
        let picks = if *k == "1" { "only the first".to_owned() } else { format!("the first {k}") };
        view! { <span>{picks}</span> {bar(*share)} <span>{format::percent(*share)}</span> }
    });
    (!shares.is_empty()).then(|| {
        view! {
            <section class="card" data-testid="within-5-percent">
                <div class="card-head">
                    <h2>"How sure is that?"</h2>
                    <span class="hint">"share of unseen problems within 5 % of the best config, if you time"</span>
                </div>
                <div class="sureness">{rows.collect_view()}</div>
            </section>
        }
    })
}
