//! The times of a model's layers, what tuning gains, and the files to save.

use std::sync::Arc;

use diode_worker::workloads::{Answer, Layer, Pass, Saved, Way, What};
use js_sys::{Array, Uint8Array};
use leptos::prelude::*;
use web_sys::Blob;

use crate::components::{BarCell, RatioCell, Select, Snippet, Stat, Stats, head, num, table, unnamed};
use crate::files::save;
use crate::format;
use crate::pages::workloads::controls::Controls;
use crate::pages::workloads::served::ask_of;
use crate::query::{History, use_set_parameters};
use crate::remote::Downloaded;

/// The line that sets a variable to the folder of the files.
pub(super) fn variable_of(variable: &str) -> String {
    format!("export {variable}=\"$PWD\"    # in the folder of the files")
}

#[component]
pub(super) fn Report(
    pass: Arc<Pass>,
    #[prop(into)] way: Signal<Option<Way>>,
    controls: Controls,
    model: Signal<Option<Arc<Downloaded>>>,
) -> impl IntoView {
    let set = use_set_parameters();
    let choose = move |tokens: String| set(&[("tokens", tokens)], History::Replace);
    let at = {
        let batches = pass.batches.clone();
        move || {
            let tokens = controls.tokens.get();
            batches.iter().position(|batch| batch.to_string() == tokens).unwrap_or(batches.len() / 2)
        }
    };
    let at = Memo::new(move |_| at());
    let caveats =
        pass.caveats.iter().map(|caveat| view! { <p class="note">{caveat.clone()}</p> }).collect_view();
    let (first, second, third) = (Arc::clone(&pass), Arc::clone(&pass), Arc::clone(&pass));
    let tokens = unnamed(&pass.batches);
    view! {
        {move || headline(&first, at.get())}
        {caveats}
        <Files pass=Arc::clone(&pass) way model />
        <section class="section" aria-labelledby="layers-title">
            <div class="section-head">
                <h2 id="layers-title">"Multiplications"</h2>
                <Select label="Tokens in a batch" choices=tokens current=controls.tokens choose=choose />
            </div>
            {move || layers(&second, at.get())}
        </section>
        <section class="section" aria-labelledby="batches-title">
            <h2 id="batches-title">"By tokens in a batch"</h2>
            {batches(&third)}
        </section>
    }
}

/// The figures first.
fn headline(pass: &Pass, at: usize) -> AnyView {
    let (before, after) = pass.totals(at);
    let tokens = pass.batches[at];
    let best = (0..pass.batches.len()).max_by(|&a, &b| pass.gain(a).total_cmp(&pass.gain(b))).unwrap_or(at);
    let is_read = pass.layers.iter().any(|layer| layer.is_read);
    let mut stats = vec![
        Stat::maybe("as fast with these files", is_read.then(|| format::factor(before / after)))
            .explained("The predicted time of all multiplications of one pass untuned / with these files"),
        Stat::new("a pass untuned", format::time(before)),
        Stat::maybe("with these files", is_read.then(|| format::time(after))),
    ];
    if is_read {
        stats.push(Stat::new(
            "at best",
            format!("{} at {} tokens", format::factor(pass.gain(best)), pass.batches[best]),
        ));
    }
    if let Some(share) = pass.within_5_percent {
        stats.push(
            Stat::new("of such picks within 5 % of the best", format::percent(share))
                .explained("Measured on problems of models that had not been learnt"),
        );
    }
    view! {
        <div class="section" data-testid="headline">
            <p class="hint">{format!("{tokens} tokens in a batch, on each GPU. All times are predicted.")}</p>
            <Stats stats=stats />
        </div>
    }
    .into_any()
}

fn layers(pass: &Pass, at: usize) -> AnyView {
    let (before, _) = pass.totals(at);
    let rows: Vec<_> = pass
        .layers
        .iter()
        .map(|layer| {
            let times = &layer.times[at];
            let share = layer.count as f64 * times.before() / before;
            view! {
                <tr>
                    <td>
                        {layer.name.clone()}
                        <small class="hint">{format!("{}, {}", layer.sizes, layer.quantization)}</small>
                    </td>
                    <td class="num roomy">{format!("{}×", layer.count)}</td>
                    <BarCell text=format::percent(share) share />
                    <td class="num">{format::or_dash(times.untuned.map(format::time))} <small class="hint roomy">{untuned(layer, at)}</small></td>
                    <td class="num">{format::time(times.pick)}</td>
                    <RatioCell ratio=times.untuned.map(|untuned| untuned / times.pick) />
                    <td class="mono roomy">{if times.keeps { layer.untuned.clone() } else { times.config.clone() }}</td>
                </tr>
            }
        })
        .collect();
    table([
        head("Layer"),
        num("A pass").roomy().why("How often one pass computes it"),
        num("Share").why("Of the time of all multiplications, untuned"),
        num("Untuned"),
        num("Our pick"),
        num("Gain").why(
            "Untuned time / our pick's. Servers take the pick only where they read files for the layer.",
        ),
        head("Config").roomy(),
    ])
    .boxed("table-box layers")
    .testid("layers")
    .rows(rows)
}

/// What runs untuned, if its time is known.
fn untuned(layer: &Layer, at: usize) -> Option<String> {
    layer.times[at].untuned.map(|_| layer.untuned.clone())
}

fn batches(pass: &Pass) -> AnyView {
    // The configs of the one layer that the files are for.
    let mut read = pass.layers.iter().filter(|layer| layer.is_read);
    let only = read.next().filter(|_| read.next().is_none());
    let rows: Vec<_> = (0..pass.batches.len())
        .map(|at| {
            let (before, after) = pass.totals(at);
            let own = only.map(|layer| &layer.times[at]);
            let config = own.map(|times| view! { <td class="mono roomy">{if times.keeps { "default".to_owned() } else { times.config.clone() }}</td> });
            let layer_gain = own.map(|times| view! { <td class="num roomy">{format::factor(times.before() / times.pick)}</td> });
            view! {
                <tr>
                    <td class="num">{format::count(pass.batches[at])}</td>
                    <td class="num">{format::time(before)}</td>
                    <td class="num">{format::time(after)}</td>
                    <RatioCell ratio=Some(before / after) />
                    {layer_gain}
                    {config}
                </tr>
            }
        })
        .collect();
    let mut heads = vec![num("Tokens"), num("Untuned"), num("With files"), num("Gain")];
    if let Some(layer) = only {
        heads.push(num(format!("Of {}", layer.name)).why("The gain of this layer alone").roomy());
        heads.push(head("Config in the file").roomy());
    }
    table(heads).testid("batches").rows(rows)
}

/// The files, and where they go.
#[component]
fn Files(
    pass: Arc<Pass>,
    #[prop(into)] way: Signal<Option<Way>>,
    model: Signal<Option<Arc<Downloaded>>>,
) -> impl IntoView {
    let paths = match &pass.files {
        Err(why) => {
            return view! { <p class="note" role="note" data-testid="no-files">{why.clone()}</p> }.into_any();
        }
        Ok(paths) => paths.clone(),
    };
    let names = paths.into_iter().map(|path| view! { <li><code>{path}</code></li> }).collect_view();
    let notes = pass.notes.iter().map(|note| view! { <li class="hint">{note.clone()}</li> }).collect_view();
    let variable = pass.variable.clone().map(|name| view! { <Snippet text=variable_of(&name) /> });
    let what = move || Some(What::Files(way.get()?));
    view! {
        <section class="section" aria-labelledby="files-title" data-testid="files">
            <h2 id="files-title">"Files"</h2>
            <ul class="files">{names}</ul>
            <SaveFiles model what=Signal::derive(what) />
            {variable}
            <ul>{notes}</ul>
        </section>
    }
    .into_any()
}

/// A button that makes files and saves them.
#[component]
pub(super) fn SaveFiles(
    model: Signal<Option<Arc<Downloaded>>>,
    /// The question that the files answer.
    what: Signal<Option<What>>,
) -> impl IntoView {
    let said = RwSignal::new(Vec::<String>::new());
    let press = move |_| {
        let (Some(model), Some(what)) = (model.get_untracked(), what.get_untracked()) else { return };
        ask_of(&model, what, move |answer| {
            said.try_set(match answer {
                Ok(Answer::Files(saved)) => keep(saved),
                Ok(_) => Vec::new(),
                Err(why) => vec![why],
            });
        });
    };
    view! {
        <div class="row">
            <button type="button" class="button primary" data-testid="save" prop:disabled=move || model.get().is_none() on:click=press>
                "Download"
            </button>
        </div>
        <div role="status" data-testid="saved">
            {move || said.get().into_iter().map(|line| view! { <p class="hint">{line}</p> }).collect_view()}
        </div>
    }
}

/// Saves files, and returns what to say about them.
fn keep(saved: Saved) -> Vec<String> {
    let Saved { name, content, notes, left } = saved;
    let size = format::bytes(content.len() as u64);
    let bytes = Uint8Array::from(content.as_slice());
    let blob = Blob::new_with_u8_array_sequence(&Array::of1(&bytes));
    let first = match blob.and_then(|blob| save(&name, &blob)) {
        Ok(()) => format!("Saved {name}, {size}"),
        Err(error) => format!("{name} could not be saved: {error:?}"),
    };
    std::iter::once(first)
        .chain(notes)
        .chain(left.into_iter().map(|one| format!("Not made: {one}")))
        .collect()
}
