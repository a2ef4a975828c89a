//! All configs that were timed on a problem, the fastest first.

use std::sync::Arc;

use diode_api::{ConfigResult, ProblemDetail};
use leptos::prelude::*;

use super::predictions::Predictions;
use crate::components::{BarCell, legend};
use crate::format;
use crate::query::{History, parameter, use_set_parameters};
use crate::scheduler::defer;

/// The number of rows until the reader wants all. More rows would take a moment to lay out.
const FIRST_ROWS: usize = 100;

/// The number of rows that are made in one turn. More rows would block a slow computer for too long.
const AT_ONCE: usize = 10;

#[component]
pub(super) fn ConfigTable(detail: Arc<ProblemDetail>, predictions: Signal<Predictions>) -> impl IntoView {
    let filter = parameter("config");
    let set = use_set_parameters();
    let all = RwSignal::new(false);
    let matching = {
        let detail = Arc::clone(&detail);
        Memo::new(move |_| filter.with(|filter| matching(&detail.configs, filter)))
    };
    let total = detail.configs.len();
    let shown = Memo::new(move |_| {
        let limit = if all.get() { usize::MAX } else { FIRST_ROWS };
        matching.with(|ranks| ranks.iter().copied().take(limit).collect::<Vec<_>>())
    });
    let best = detail.configs.first().map_or(1.0, |result| result.us);
    let is_none = Memo::new(move |_| shown.with(Vec::is_empty));
    let none = move || {
        is_none
            .get()
            .then(|| view! { <tr><td class="dim" colspan="9">"No config matches this filter."</td></tr> })
    };
    let some = move |first: usize| {
        let ranks = Memo::new(move |_| {
            shown.with(|shown| shown.iter().copied().skip(first).take(AT_ONCE).collect::<Vec<_>>())
        });
        some_rows(Arc::clone(&detail), ranks, best, predictions)
    };
    let rows = view! {
        {none}
        <For each=move || (0..shown.with(Vec::len)).step_by(AT_ONCE) key=|first| *first children=some />
    };
    let heading = move || {
        let count = matching.with(Vec::len);
        if count == total {
            format!("All {}", format::counted(total as u64, "config"))
        } else {
            format!("{} of {}", format::count(count as u64), format::counted(total as u64, "config"))
        }
    };
    let rest = move || matching.with(Vec::len) - shown.with(Vec::len);
    view! {
        <section class="section" aria-labelledby="configs-title">
            <div class="section-head">
                <h2 id="configs-title">{heading}</h2>
                <input
                    type="search"
                    class="filter-text"
                    placeholder="Filter: 128x256 w8"
                    aria-label="Filter configs by text"
                    prop:value=move || filter.get()
                    on:input=move |event| set(&[("config", event_target_value(&event))], History::Replace)
                />
            </div>
            <div class="table-box long" tabindex="0">
                <table>
                    <thead>{move || head(predictions.with(Predictions::have_columns))}</thead>
                    <tbody>{rows}</tbody>
                </table>
            </div>
            {legend(KEY.map(|(name, why)| (name.to_owned(), why.to_owned())))}
            <div class="table-foot">
                {move || (rest() > 0).then(|| view! {
                    <button type="button" class="button small" on:click=move |_| all.set(true)>
                        {format!("Show {} more", format::count(rest() as u64))}
                    </button>
                })}
            </div>
        </section>
    }
}

/// Some rows of the table. Changes of their configs or predictions are shown in a later turn.
fn some_rows(
    detail: Arc<ProblemDetail>,
    ranks: Memo<Vec<usize>>,
    best: f64,
    predictions: Signal<Predictions>,
) -> impl IntoView {
    let shown = RwSignal::new((Vec::new(), Predictions::default()));
    Effect::new(move |_| {
        let wanted = (ranks.get(), predictions.get());
        defer(move || {
            shown.try_set(wanted);
        });
    });
    move || {
        shown.with(|(ranks, predictions)| {
            ranks.iter().map(|&rank| row(rank, &detail, best, predictions)).collect_view()
        })
    }
}

fn head(with_predictions: bool) -> impl IntoView {
    view! {
        <tr>
            <th>"Config"</th>
            <th class="num">"Rank"</th>
            <th class="num">"Time"</th>
            <th class="num">"vs best"</th>
            {with_predictions.then(|| view! {
                <th class="num steady">"Predicted"</th>
                <th class="num steady">"÷ measured"</th>
            })}
            <th class="num roomy">"Spread"</th>
            <th class="num roomy">"Repeats"</th>
            <th class="num">"Timings"</th>
        </tr>
    }
}

const KEY: [(&str, &str); 6] = [
    ("Time", "Median over uploads; the bar is the speed relative to the best"),
    ("vs best", "Time / best time"),
    ("÷ measured", "Predicted time / measured time"),
    ("Spread", format::SPREAD),
    ("Repeats", "How often it was run"),
    ("Timings", "Timings behind the median"),
];

fn row(rank: usize, detail: &ProblemDetail, best: f64, predictions: &Predictions) -> impl IntoView + use<> {
    let result = &detail.configs[rank];
    let predicted = predictions.have_columns().then(|| {
        let time = predictions.of(rank);
        view! {
            <td class="num">{format::or_dash(time.map(format::time))}</td>
            <td class="num dim">{format::or_dash(time.map(|time| format!("{:.2}", time / result.us)))}</td>
        }
    });
    let (label, shown) =
        (result.config.label(), format::kernel(&result.config, &detail.problem, detail.hardware.vendor));
    let (plain, time) = (label.replace('×', "x"), predictions.of(rank).map(|time| time.to_string()));
    view! {
        <tr class:is-best=rank == 0 data-config=plain data-predicted-us=time>
            <td class="mono">{shown}</td>
            <td class="num dim">{rank + 1}</td>
            <BarCell text=format::time(result.us) share=best / result.us />
            <td class="num">{format::factor(result.us / best)}</td>
            {predicted}
            <td class="num dim roomy">{format::or_dash(result.spread.map(format::spread))}</td>
            <td class="num dim roomy">{format::or_dash(result.repeats.map(format::count))}</td>
            <td class="num dim">{result.timings}</td>
        </tr>
    }
}

/// The ranks of the configs whose labels contain every word of a text.
fn matching(configs: &[ConfigResult], text: &str) -> Vec<usize> {
    let plain = |text: &str| text.to_ascii_lowercase().replace('×', "x");
    let text = plain(text);
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        // Skips making the labels, because there can be thousands.
        return (0..configs.len()).collect();
    }
    let matches = |result: &ConfigResult| {
        let label = plain(&result.config.label());
        words.iter().all(|word| label.contains(word))
    };
    (0..configs.len()).filter(|&rank| matches(&configs[rank])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use diode_core::{Config, Tile};

    #[test]
    fn every_word_of_the_filter_must_occur() {
        let config = |m, warps| Config::Mm(Tile::new(m, 128, 64, 3, warps));
        let configs = [config(128, 8), config(64, 8), config(128, 4), Config::Library].map(|config| {
            ConfigResult { config, us: 1.0, timings: 1, contributors: 1, spread: None, repeats: None }
        });
        assert_eq!(matching(&configs, ""), [0, 1, 2, 3]);
        assert_eq!(matching(&configs, "128x128 W8"), [0]);
        assert_eq!(matching(&configs, "s3"), [0, 1, 2]);
        assert_eq!(matching(&configs, "libr"), [3]);
    }
}
