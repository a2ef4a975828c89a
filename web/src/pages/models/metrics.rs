//! How good a model is, in numbers with explanations.

use diode_api::EvaluationReport;
use leptos::prelude::*;

use crate::components::{BarCell, Explained, Stat};
use crate::format;
use crate::pages::TOP_K;

/// The three most important numbers for the decision to use a model.
pub(super) fn short(report: &EvaluationReport) -> [Stat; 3] {
    let geomean = |k: &str| report.top_k.get(k).map(|top| format::percent(top.geomean));
    let worst = report.top_k.get("1").map(|top| format::percent(top.worst));
    [
        Stat::maybe("of best, first pick", geomean("1"))
            .explained("Geometric mean over unseen problems of best measured time / time of the first pick"),
        Stat::maybe("of best, top 5", geomean("5"))
            .explained("The same if the first five picks are measured and the best of them is taken"),
        Stat::maybe("worst first pick", worst).explained("The first pick on the problem where it does worst"),
    ]
}

/// All numbers of the evaluation.
#[component]
pub(super) fn Metrics(report: EvaluationReport) -> impl IntoView {
    let rows = TOP_K.into_iter().filter_map(|k| Some((k, report.top_k.get(k)?))).map(|(k, top)| {
        let within = report.within_5_percent.get(k).map(|share| format::percent(*share));
        view! {
            <tr>
                <td>{if k == "1" { "first pick".to_owned() } else { format!("best of {k} picks") }}</td>
                <BarCell text=format::percent(top.geomean) share=top.geomean />
                <td class="num">{format::percent(top.worst)}</td>
                <td class="num">{within.unwrap_or_else(|| "–".to_owned())}</td>
            </tr>
        }
    });
    let others = [
        ("Mean error of time, configs within 2× of the best", format::percent(report.mape_within_2x)),
        ("Mean error of time, all configs", format::percent(report.mape_all)),
        ("Rank correlation, median", format!("{:.3}", report.spearman_median)),
        ("Time to rank one problem, where it was evaluated", rank_time(report.rank_us_per_problem)),
        ("Problems", format::count(report.problems as u64)),
        ("Configs per problem", format::count(report.configs as u64)),
        ("Evaluated by", report.split.clone()),
    ];
    let others = others.into_iter().filter(|(_, value)| !value.is_empty());
    view! {
        <div class="table-box">
            <table>
                <thead>
                    <tr>
                        <th>"Picks"</th>
                        <th class="num"><Explained text="Of best" why="Geometric mean over problems of best time / time of the best pick" /></th>
                        <th class="num"><Explained text="Worst" why="The same on the worst problem" /></th>
                        <th class="num"><Explained text="Within 5 %" why="Share of problems where the best pick is within 5 % of the best" /></th>
                    </tr>
                </thead>
                <tbody>{rows.collect_view()}</tbody>
            </table>
        </div>
        <dl class="facts">
            {others.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> }).collect_view()}
        </dl>
    }
}

/// Empty if the evaluation did not measure this time.
fn rank_time(us: f64) -> String {
    if us > 0.0 { format::time(us) } else { String::new() }
}
