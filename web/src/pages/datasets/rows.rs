//! A few rows of a dataset, under the column names of Parquet and CSV.

use std::sync::Arc;

use diode_api::{HardwareSummary, Leaderboard, ProblemDetail};
use leptos::prelude::*;

use crate::components::{Empty, FailedLoad, Loaded};
use crate::query::link;
use crate::remote::{Load, remote};

/// The number of rows.
const SHOWN: usize = 8;

/// The fastest configs of the problem with the most operations.
#[component]
pub(super) fn SampleRows(summary: Arc<HardwareSummary>) -> impl IntoView {
    let slug = summary.hardware.slug.to_string();
    let method = summary.method.map(|method| method.to_string()).unwrap_or_default();
    let first = {
        let (slug, method) = (slug.clone(), method.clone());
        let one =
            move || [("sort", "flops".to_owned()), ("limit", "1".to_owned()), ("method", method.clone())];
        remote::<Leaderboard>(move || Some(link(&format!("/hardware/{slug}/leaderboard"), one())))
    };
    let detail = remote::<ProblemDetail>(move || {
        let board = first.value()?;
        let problem = board.items.first()?;
        let view = [("hardware", slug.clone()), ("method", method.clone())];
        Some(link(&format!("/problems/{}", problem.problem_id), view))
    });
    let shown = move || match first.get() {
        Load::Failed(reason) => view! { <FailedLoad reason retry=move || first.retry() /> }.into_any(),
        Load::Ready(board) if board.items.is_empty() => {
            view! { <Empty heading="No rows">"No config of this dataset has a time."</Empty> }.into_any()
        }
        _ => view! { <Loaded remote=detail height="18rem" children=|detail| table(&detail) /> }.into_any(),
    };
    view! {
        <section class="section" data-testid="sample-rows">
            <h2>"Some rows"</h2>
            {shown}
        </section>
    }
}

fn table(detail: &ProblemDetail) -> impl IntoView + use<> {
    let problem = detail.problem.clone();
    let (hardware, method) = (detail.hardware.slug.to_string(), detail.method.to_string());
    let rows = detail.configs.iter().take(SHOWN).map(|one| {
        let tile = one.config.tile();
        let number = |of: fn(&diode_core::Tile) -> u32| {
            tile.map(of).map_or_else(|| "–".to_owned(), |value| value.to_string())
        };
        view! {
            <tr>
                <td>{problem.op.to_string()}</td>
                <td class="num">{problem.b}</td>
                <td class="num">{problem.m}</td>
                <td class="num">{problem.n}</td>
                <td class="num">{problem.k}</td>
                <td>{problem.a_dtype.to_string()}</td>
                <td>{one.config.template().to_string()}</td>
                <td class="num">{number(|tile| tile.block_m)}</td>
                <td class="num">{number(|tile| tile.block_n)}</td>
                <td class="num">{number(|tile| tile.block_k)}</td>
                <td class="num">{number(|tile| tile.num_stages)}</td>
                <td class="num">{number(|tile| tile.num_warps)}</td>
                <td class="num">{format!("{:.0}", one.us * 1e3)}</td>
            </tr>
        }
    });
    let heads = [
        "op",
        "b",
        "m",
        "n",
        "k",
        "a_dtype",
        "template",
        "block_m",
        "block_n",
        "block_k",
        "num_stages",
        "num_warps",
        "time_ns",
    ];
    let is_text = |name: &str| matches!(name, "op" | "a_dtype" | "template");
    let heads = heads.into_iter().map(|name| view! { <th class:num=!is_text(name)>{name}</th> });
    let said = format!(
        "The fastest configs of one problem on {hardware}, {method}. Parquet and CSV have more columns."
    );
    view! {
        <div class="table-box" tabindex="0">
            <table>
                <thead><tr>{heads.collect_view()}</tr></thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
        <p class="hint">{said}</p>
    }
}
