//! What a model's file says about the model: its training data, and how reliable its picks are.

use diode_core::ids::ModelId;
use diode_core::{Method, ProblemGroup};
use diode_model::{GroupConfidence, Metadata};
use leptos::prelude::*;

use crate::components::Loaded;
use crate::format;
use crate::models::{self, Downloaded};

#[component]
pub(super) fn FromTheFile(id: ModelId) -> impl IntoView {
    let model = models::model(move || Some(id.to_string()));
    let shown = |model: std::sync::Arc<Downloaded>| {
        let metadata = model.metadata();
        view! {
            <div class="split even">
                <section class="card" data-testid="lineage"><h2>"What it learnt from"</h2>{lineage(metadata)}</section>
                <section class="card"><h2>"How sure its picks are"</h2>{confidence(&metadata.confidence)}</section>
            </div>
        }
    };
    view! { <Loaded remote=model height="18rem" children=shown /> }
}

fn lineage(metadata: &Metadata) -> impl IntoView + use<> {
    let Metadata { training, range, second_method, stands_in_from, hardware, .. } = metadata;
    let sizes =
        |(least, greatest): (u64, u64)| format!("{} to {}", format::count(least), format::count(greatest));
    let list = |names: Vec<String>| names.join(", ");
    let method = |method: &Method| format::method(*method);
    let mut rows = vec![("Hardware", hardware.name.clone())];
    rows.extend(stands_in_from.as_ref().map(|slug| ("Trained on, in its place", slug.to_string())));
    rows.extend(
        (!training.related.is_empty())
            .then(|| ("Also learnt from", list(training.related.iter().map(ToString::to_string).collect()))),
    );
    rows.push(("Method of timing", method(&training.method)));
    rows.extend(second_method.as_ref().map(|second| ("Second method, predicted apart", method(second))));
    if let Some(range) = range {
        rows.extend([("M", sizes(range.m)), ("N", sizes(range.n)), ("K", sizes(range.k))]);
        rows.push(("Kinds", list(range.kinds.iter().map(ToString::to_string).collect())));
    }
    let kept = if training.without_kept { "left out" } else { "among its problems" };
    rows.extend([
        ("Problems kept for judging", kept.to_owned()),
        ("Made by", training.tool.clone()),
        ("Seed", training.seed.to_string()),
        ("Data digest", training.data_digest.to_string()),
    ]);
    let rows = rows.into_iter().map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    view! { <dl class="facts">{rows.collect_view()}</dl> }
}

fn confidence(known: &[GroupConfidence]) -> AnyView {
    let Some(first) = known.first() else {
        return view! { <p class="hint">"The file does not say."</p> }.into_any();
    };
    let heads = first
        .within_5_percent
        .iter()
        .map(|(picks, _)| view! { <th class="num">{format!("of {picks}")}</th> });
    let rows = known.iter().map(|one| {
        let shares = one
            .within_5_percent
            .iter()
            .map(|(_, share)| view! { <td class="num">{format::percent(*share)}</td> });
        view! {
            <tr>
                <td>{group(one.group)}</td>
                <td class="num">{format::count(one.problems)}</td>
                {shares.collect_view()}
            </tr>
        }
    });
    view! {
        <p class="hint">"Share of unseen problems where the best of so many picks, the library among them, is within 5 % of the best of all."</p>
        <div class="table-box" tabindex="0">
            <table>
                <thead><tr><th>"Group"</th><th class="num">"Problems"</th>{heads.collect_view()}</tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
    }
    .into_any()
}

/// A problem group, in words.
fn group(group: ProblemGroup) -> &'static str {
    match group {
        ProblemGroup::Unaligned => "unaligned rows",
        ProblemGroup::TallK => "large K, small output",
        ProblemGroup::Decode => "at most 16 rows",
        ProblemGroup::Skinny => "at most 64 rows or columns",
        ProblemGroup::Rest => "all others",
    }
}
