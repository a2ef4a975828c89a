//! A model: its figures, what its file says of it, its file, and what was published when.

use std::collections::BTreeSet;

use diode_api::{DATA_LICENCE, EvaluationReport, KeptReport, ModelSummary, ModelType, Publication, TopK};
use diode_core::ids::{HardwareSlug, ModelId};
use diode_core::{Method, ProblemGroup};
use diode_model::{GroupConfidence, Metadata};
use leptos::prelude::*;

use crate::components::{
    BarCell, Citation, Download, Loaded, Missing, Snippet, Stat, Stats, empty, facts, head, num, table,
    tag_row, use_title,
};
use crate::pages::compare::models::side_by_side;
use crate::pages::models::curves::Curves;
use crate::pages::models::judged::Judged;
use crate::pages::models::tags;
use crate::pages::{TOP_K, path_part};
use crate::query::link;
use crate::remote::{Downloaded, remote, remote_model};
use crate::{api, format};

#[component]
pub(crate) fn ModelPage() -> impl IntoView {
    let id = path_part("id");
    let model = remote::<ModelSummary>(move || Some(format!("/models/{}", id.get())));
    use_title(move || {
        format!("Model {}", model.value().map_or_else(|| id.get(), |m| m.hardware.to_string()))
    });
    let missing = || {
        let sentence = "The address may be wrong, or the model was removed from this server.".to_owned();
        view! {
            <Missing heading="There is no such model" sentence>
                <a class="button" href="/models">"All models"</a>
            </Missing>
        }
    };
    view! {
        <main class="page">
            <Loaded remote=model height="36rem" missing children=|model| content(&model) />
        </main>
    }
}

fn content(model: &ModelSummary) -> impl IntoView + use<> {
    let id = model.id.to_string();
    let download = api::url(&format!("/models/{id}/download"));
    // The browser can read only files of this type. For other types, the rest is not shown.
    let ranks = model.model_type == ModelType::Ranking;
    let evaluation = match &model.evaluation {
        Some(report) => view! { <Metrics report=report.clone() /> }.into_any(),
        None => empty("Not evaluated", "It was trained on too few problems to hold any back."),
    };
    view! {
        <div class="page-head">
            <div>
                <p class="crumbs"><a href="/models">"Models"</a> " / " <code>{id.clone()}</code></p>
                <h1>{format!("{} for {}", model.heuristic, model.hardware)}</h1>
                {tag_row(tags(model))}
            </div>
            <div class="row">
                {ranks.then(|| view! { <a class="button" href=link("/predict", [("model", id)])>"Try it"</a> })}
                <Download
                    class="button primary"
                    href=Signal::stored(download)
                    name=model.file_name.clone()
                    text=format!("Download, {}", format::bytes(model.bytes))
                />
            </div>
        </div>
        {(!model.reason.is_empty()).then(|| view! { <p class="hint">{format!("Not published: {}.", model.reason)}</p> })}
        {model.evaluation.as_ref().map(|report| view! { <Stats stats=short(report) /> })}
        <div class="split even">
            <section class="card">
                <h2>"On problems it has not seen"</h2>
                {evaluation}
                {model.kept.as_ref().map(on_kept)}
            </section>
            <div class="section">
                <section class="card"><h2>"Use it"</h2>{usage(model)}</section>
                <section class="card"><h2>"The file"</h2>{file(model)}</section>
            </div>
        </div>
        {ranks.then(|| view! {
            <Judged summary=model.clone() />
            <FromTheFile id=model.id.clone() />
        })}
        <Curves file=ranks.then(|| model.id.clone()) job=model.job.clone() />
        <section class="card" data-testid="citation">
            <h2>"Licence and citation"</h2>
            {licence(model)}
            {citation(model)}
        </section>
        <Before model=model.clone() />
        <Publications hardware=model.hardware.clone() own=model.id.clone() />
    }
}

/// What changed from the version before: the model of the same kind that was trained last before this one.
#[component]
fn Before(model: ModelSummary) -> impl IntoView {
    let path = link("/models", [("hardware", model.hardware.to_string())]);
    let all = remote::<Vec<ModelSummary>>(move || Some(path.clone()));
    let shown = move |all: std::sync::Arc<Vec<ModelSummary>>| {
        let kind = |one: &ModelSummary| (one.heuristic, one.model_type);
        let earlier = all.iter().filter(|one| kind(one) == kind(&model) && one.created_at < model.created_at);
        let Some(before) = earlier.max_by(|a, b| a.created_at.cmp(&b.created_at)) else {
            return view! { <p class="hint">"This server has no version before it."</p> }.into_any();
        };
        let (a, b) = (before.id.to_string(), model.id.to_string());
        let picks = link("/compare", [("what", "models".to_owned()), ("a", a), ("b", b)]);
        view! {
            {side_by_side(before, &model)}
            <p class="hint"><a href=picks>"Where their first picks differ"</a></p>
        }
        .into_any()
    };
    view! {
        <section class="section" data-testid="before">
            <h2>"Since the version before"</h2>
            <Loaded remote=all height="5rem" children=shown />
        </section>
    }
}

fn licence(model: &ModelSummary) -> impl IntoView + use<> {
    let text = match &model.contribution {
        Some(sent) => {
            format!("{}, as its contributor says: {}", sent.licence.as_str(), sent.description.as_str())
        }
        None => format!("{DATA_LICENCE}, like the measurements that it learnt from."),
    };
    view! { <p>{text}</p> }
}

fn citation(model: &ModelSummary) -> impl IntoView + use<> {
    let id = model.id.to_string();
    view! {
        <Citation
            key=format!("diode-{id}")
            title=format!("Diode: {} model for {}", model.heuristic, model.hardware)
            made_at=model.created_at.clone()
            path=format!("/models/{id}")
            note=format!("SHA-256 {}", model.digest)
        />
    }
}

fn usage(model: &ModelSummary) -> impl IntoView + use<> {
    let file = &model.file_name;
    let op = model.ops.first().map(ToString::to_string).unwrap_or_default();
    let dtype = model.dtypes.first().map(ToString::to_string).unwrap_or_default();
    let command =
        format!("diode predict --model {file} --op {op} --m 4096 --n 4096 --k 4096 --dtype {dtype}");
    view! {
        <span class="hint">"With the file, rank configs for one shape:"</span>
        <Snippet text=command />
    }
}

fn file(model: &ModelSummary) -> impl IntoView + use<> {
    let rows = [
        ("Name", model.file_name.clone()),
        ("Size", format::bytes(model.bytes)),
        ("SHA-256", model.digest.to_string()),
        ("Parameters", format::count(model.parameters)),
        ("Features", model.feature_set.clone()),
        ("Trained", format::minute(&model.created_at)),
        (
            "On",
            format!(
                "{}, {}",
                format::counted(model.training_problems, "problem"),
                format::counted(model.training_timings, "timing")
            ),
        ),
        ("Data digest", model.data_digest.to_string()),
    ];
    facts(rows)
}

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
fn Metrics(report: EvaluationReport) -> impl IntoView {
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
        {table([
            head("Picks"),
            num("Of best").why("Geometric mean over problems of best time / time of the best pick"),
            num("Worst").why("The same on the worst problem"),
            num("Within 5 %").why("Share of problems where the best pick is within 5 % of the best"),
        ]).rows(rows.collect_view())}
        {facts(others)}
    }
}

/// Empty if the evaluation did not measure this time.
fn rank_time(us: f64) -> String {
    if us > 0.0 { format::time(us) } else { String::new() }
}

fn on_kept(report: &KeptReport) -> impl IntoView + use<> {
    let problems = format::counted(report.problems, "problem");
    let said = format!(
        "On {problems} that this server keeps for judging, {} of them with the library's time.",
        format::count(report.timed_library)
    );
    let own = choice_row("the model's first pick".to_owned(), Some(report.triton), report.everything);
    let (triton, everything) = (&report.baselines, &report.baselines_of_everything);
    let choices: BTreeSet<&String> = triton.keys().chain(everything.keys()).collect();
    let without = choices
        .into_iter()
        .map(|what| choice_row(what.clone(), triton.get(what).copied(), everything.get(what).copied()));
    view! {
        <h3>"Beside choices without a model"</h3>
        <p class="hint">{said}</p>
        {table([
            head("Choice"),
            num("Of best Triton").why("Geometric mean over problems of the best Triton time / its time"),
            num("Of everything").why("The same of the best of everything, with the library as a candidate where it was timed"),
            num("Worst").why("Of everything, on the worst problem"),
        ]).testid("baselines").rows((own, without.collect_view()))}
    }
}

fn choice_row(what: String, triton: Option<TopK>, everything: Option<TopK>) -> impl IntoView + use<> {
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

#[component]
fn FromTheFile(id: ModelId) -> impl IntoView {
    let model = remote_model(move || Some(id.to_string()));
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
    facts(rows)
}

fn confidence(known: &[GroupConfidence]) -> AnyView {
    let Some(first) = known.first() else {
        return view! { <p class="hint">"The file does not say."</p> }.into_any();
    };
    let mut heads = vec![head("Group"), num("Problems")];
    heads.extend(first.within_5_percent.iter().map(|(picks, _)| num(format!("of {picks}"))));
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
        {table(heads).rows(rows.collect_view())}
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

/// Shows nothing if nothing was published.
#[component]
fn Publications(hardware: HardwareSlug, own: ModelId) -> impl IntoView {
    let steps = remote::<Vec<Publication>>(move || Some(format!("/hardware/{hardware}/publications")));
    let shown = move |steps: std::sync::Arc<Vec<Publication>>| {
        let rows = steps.iter().map(|step| step_row(step, &own)).collect_view();
        (!steps.is_empty()).then(|| {
            view! {
                <section class="section" data-testid="publications">
                    <h2>"What was published when"</h2>
                    {table([
                        head("When"), head("Step"), head("Model"), head("By").roomy(), head("Why"),
                    ]).rows(rows)}
                </section>
            }
        })
    };
    view! { <Loaded remote=steps height="9rem" children=shown /> }
}

fn step_row(step: &Publication, own: &ModelId) -> impl IntoView + use<> {
    let id = step.model.to_string();
    let href = format!("/models/{id}");
    view! {
        <tr class:is-best=step.model == *own>
            <td>{format::minute(&step.at)}</td>
            <td>{step.action.to_string()}</td>
            <td><a href=href><code>{id}</code></a></td>
            <td class="roomy">{step.who.clone()}</td>
            <td class="wrap">{step.why.clone()}</td>
        </tr>
    }
}
