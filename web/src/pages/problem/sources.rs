//! Who measured a problem, when and with what.

use std::sync::Arc;

use diode_api::{LibraryVersion, ProblemDetail, ProblemSources, SolutionSource, Standing};
use leptos::prelude::*;

use crate::components::{Explained, Loaded};
use crate::format;
use crate::query::link;
use crate::remote::remote;

#[component]
pub(super) fn Sources(detail: Arc<ProblemDetail>) -> impl IntoView {
    let view = [("hardware", detail.hardware.slug.to_string()), ("method", detail.method.to_string())];
    let path = link(&format!("/problems/{}/sources", detail.problem_id), view);
    let sources = remote::<ProblemSources>(move || Some(path.clone()));
    view! {
        <section class="section" aria-labelledby="sources-title" data-testid="sources">
            <h2 id="sources-title">"Who measured it"</h2>
            <Loaded remote=sources height="10rem" children=|sources| view! { {table(&sources)} } />
        </section>
    }
}

fn table(sources: &ProblemSources) -> impl IntoView + use<> {
    let more = (sources.more > 0)
        .then(|| format!("and {} before them", format::counted(sources.more, "measurement")));
    view! {
        <div class="table-box" tabindex="0">
            <table>
                <thead>
                    <tr>
                        <th>"Upload"</th>
                        <th>"By"</th>
                        <th class="num">"Day"</th>
                        <th>"Driver"</th>
                        <th class="roomy"><Explained text="Library" why="The vendor's multiplications that were timed beside" /></th>
                        <th class="roomy">"Program"</th>
                        <th class="num"><Explained text="Configs" why="Configs with a time" /></th>
                        <th class="num"><Explained text="Fastest" why="The shortest time of all, the library kernel's included" /></th>
                    </tr>
                </thead>
                <tbody>{sources.sources.iter().map(row).collect_view()}</tbody>
            </table>
        </div>
        {more.map(|more| view! { <p class="hint">{more}</p> })}
    }
}

fn row(source: &SolutionSource) -> impl IntoView + use<> {
    let compare = link("/compare", [("what", "uploads".to_owned()), ("a", source.upload.to_string())]);
    let apart = (source.standing != Standing::Counts)
        .then(|| view! { " " <span class="tag"><Explained text="does not count" why="Too far from the times of the others" /></span> });
    let day = source.collected_at.as_deref().unwrap_or(&source.received_at);
    view! {
        <tr>
            <td><a href=compare><code>{source.upload.to_string()}</code></a> {apart}</td>
            <td>{format::or_dash(source.contributor.as_ref().map(ToString::to_string))}</td>
            <td class="num">{format::day(day)}</td>
            <td>{format::or_dash(source.driver.clone())}</td>
            <td class="roomy">{format::or_dash(source.library.as_ref().map(LibraryVersion::in_words))}</td>
            <td class="roomy">{format::or_dash(source.tool.clone())}</td>
            <td class="num">{format::count(source.timings)}</td>
            <td class="num">{format::or_dash(source.best_us.map(format::time))}</td>
        </tr>
    }
}
