//! A model: its card, then its file.

use diode_api::{DATA_LICENCE, ModelSummary, ModelType};
use leptos::prelude::*;

use super::about::FromTheFile;
use super::card::tags;
use super::curves::Curves;
use super::history::Publications;
use super::judged::Judged;
use super::kept::on_kept;
use super::metrics::{Metrics, short};
use crate::components::{Citation, Download, Empty, Loaded, Missing, Snippet, Stats, use_title};
use crate::pages::path_part;
use crate::query::link;
use crate::remote::remote;
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
        None => view! {
            <Empty heading="Not evaluated">"It was trained on too few problems to hold any back."</Empty>
        }
        .into_any(),
    };
    view! {
        <div class="page-head">
            <div>
                <p class="crumbs"><a href="/models">"Models"</a> " / " <code>{id.clone()}</code></p>
                <h1>{format!("{} for {}", model.heuristic, model.hardware)}</h1>
                <div class="tags">
                    {tags(model).into_iter().map(|tag| view! { <span class="tag">{tag}</span> }).collect_view()}
                </div>
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
        <Publications hardware=model.hardware.clone() own=model.id.clone() />
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
    let rows = rows.into_iter().map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> });
    view! { <dl class="facts">{rows.collect_view()}</dl> }
}
