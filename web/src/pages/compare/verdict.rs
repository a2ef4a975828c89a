//! The result of a comparison: a sentence, and the distribution of the ratios.

use std::sync::Arc;

use diode_api::{RatioBin, Ratios};
use leptos::prelude::*;

use crate::charts::{Column, Columns};
use crate::components::Empty;
use crate::format;

#[component]
pub(super) fn Verdict(ratios: Arc<Ratios>, names: [String; 2]) -> impl IntoView {
    let Ratios { problems, only_a, only_b, slower, faster, same, b_over_a, .. } = *ratios;
    let [a, b] = names;
    let rest = format!("{} only on {a}, {} only on {b}.", format::count(only_a), format::count(only_b));
    let Some(ratio) = b_over_a else {
        return view! { <Empty heading="No problem that both measured">"By one method, and with these filters. " {rest}</Empty> }
            .into_any();
    };
    let compared = slower + faster + same;
    let sample = if compared < problems {
        format!(" An even sample of {} was compared.", format::count(compared))
    } else {
        String::new()
    };
    let detail = format!(
        " Geometric mean over {} that both measured. Faster on {}, slower on {}, the same on {}. {rest}{sample}",
        format::counted(problems, "problem"),
        format::count(faster),
        format::count(slower),
        format::count(same),
    );
    view! {
        <p class="verdict" data-testid="ratio">
            <strong>{format!("{b} runs at {} the speed of {a}.", format::factor(ratio))}</strong>
            <span class="hint">{detail}</span>
        </p>
        <Histogram bins=ratios.histogram.clone() />
    }
    .into_any()
}

#[component]
fn Histogram(bins: Vec<RatioBin>) -> impl IntoView {
    let most = bins.iter().map(|bin| bin.problems).max().unwrap_or(1).max(1);
    let between = |bin: &RatioBin| format!("{} to {}", format::factor(bin.from), format::factor(bin.to));
    let columns = bins.iter().map(|bin| Column {
        share: bin.problems as f64 / most as f64,
        class: if bin.to <= 1.0 { "slower" } else { "" },
        mark: None,
        text: format!("{}: {}", between(bin), format::counted(bin.problems, "problem")),
    });
    let end = |bin: Option<&RatioBin>, value: fn(&RatioBin) -> f64| {
        bin.map_or_else(String::new, |bin| format::factor(value(bin)))
    };
    let ends = [end(bins.first(), |bin| bin.from), end(bins.last(), |bin| bin.to)];
    let rows = bins.iter().map(|bin| {
        view! { <tr><td>{between(bin)}</td><td class="num">{format::count(bin.problems)}</td></tr> }
    });
    view! {
        <Columns
            columns=columns.collect()
            description="Columns: how many problems have which ratio. The table below has the same numbers.".to_owned()
            ends
        />
        <details>
            <summary>"The same as a table"</summary>
            <div class="table-box" tabindex="0">
                <table>
                    <thead><tr><th>"Speed ratio"</th><th class="num">"Problems"</th></tr></thead>
                    <tbody>{rows.collect_view()}</tbody>
                </table>
            </div>
        </details>
    }
}
