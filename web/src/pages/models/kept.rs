//! The server's own judgement of a model, beside the results of choices without a model.

use std::collections::BTreeSet;

use diode_api::{KeptReport, TopK};
use leptos::prelude::*;

use crate::components::Explained;
use crate::format;

pub(super) fn on_kept(report: &KeptReport) -> impl IntoView + use<> {
    let problems = format::counted(report.problems, "problem");
    let said = format!(
        "On {problems} that this server keeps for judging, {} of them with the library's time.",
        format::count(report.timed_library)
    );
    let own = row("the model's first pick".to_owned(), Some(report.triton), report.everything);
    let (triton, everything) = (&report.baselines, &report.baselines_of_everything);
    let choices: BTreeSet<&String> = triton.keys().chain(everything.keys()).collect();
    let without = choices
        .into_iter()
        .map(|what| row(what.clone(), triton.get(what).copied(), everything.get(what).copied()));
    view! {
        <h3>"Beside choices without a model"</h3>
        <p class="hint">{said}</p>
        <div class="table-box" tabindex="0">
            <table data-testid="baselines">
                <thead>
                    <tr>
                        <th>"Choice"</th>
                        <th class="num"><Explained text="Of best Triton" why="Geometric mean over problems of the best Triton time / its time" /></th>
                        <th class="num"><Explained text="Of everything" why="The same of the best of everything, with the library as a candidate where it was timed" /></th>
                        <th class="num"><Explained text="Worst" why="Of everything, on the worst problem" /></th>
                    </tr>
                </thead>
                <tbody>{own}{without.collect_view()}</tbody>
            </table>
        </div>
    }
}

fn row(what: String, triton: Option<TopK>, everything: Option<TopK>) -> impl IntoView + use<> {
    let told = |share: Option<f64>| format::or_dash(share.map(format::percent));
    let of_everything = everything.map(|top| top.geomean);
    view! {
        <tr>
            <td class="wrap">{what}</td>
            <td class="num">{told(triton.map(|top| top.geomean))}</td>
            <td class="num">{told(of_everything)}</td>
            <td class="num">{told(everything.map(|top| top.worst))}</td>
        </tr>
    }
}
