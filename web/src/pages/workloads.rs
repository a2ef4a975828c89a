//! Served models: the list, and what a pasted name, config or log leads to.

mod controls;
mod log;
mod model;
mod report;
mod served;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;

use diode_api::{ModelState, ModelSummary};
use diode_core::ids::HardwareSlug;
use diode_worker::workloads::{Answer, Listed, ServerLog, Told, Understood, What};
use leptos::prelude::*;
use leptos_router::hooks::use_navigate;
use serde::Deserialize;

pub(crate) use self::model::WorkloadPage;

use self::log::MissingFiles;
use self::served::{ask, failure};
use crate::components::{
    Loaded, LookUp, Skeleton, chips, empty, given_elsewhere, head, named, num, page_head, table,
};
use crate::format;
use crate::query::link;
use crate::remote::{Remote, remote, remote_model};

/// The key under which the tab keeps a pasted config.
const CONFIG: &str = "diode-config";

/// The name in addresses of the model whose config was pasted.
const PASTED: &str = "config";

/// What the server has of all models. Only the fields that are shown.
#[derive(Deserialize)]
struct Coverage {
    hardware: Vec<OnHardware>,
    models: Vec<Covered>,
}

#[derive(Deserialize)]
struct OnHardware {
    slug: HardwareSlug,
    name: String,
}

#[derive(Deserialize)]
struct Covered {
    name: String,
    served: Vec<Way>,
}

#[derive(Deserialize)]
struct Way {
    problems: u64,
    on: Vec<Share>,
}

/// Problems that were measured, and others that a model predicts.
#[derive(Clone, Copy, Default, Deserialize)]
struct Share {
    measured: u64,
    predicted: u64,
}

/// The models that predict, of which each page needs the published ones.
fn predicting() -> Remote<Vec<ModelSummary>> {
    remote(|| Some("/models?model_type=ranking".to_owned()))
}

/// The published models.
fn published(models: &[ModelSummary]) -> impl Iterator<Item = &ModelSummary> {
    models.iter().filter(|model| model.state == ModelState::Published)
}

/// The model of the hardware that is shown unless the reader chooses another.
fn usual(models: &[ModelSummary]) -> Option<&ModelSummary> {
    published(models).max_by_key(|model| model.training_timings)
}

#[component]
pub(crate) fn WorkloadsPage() -> impl IntoView {
    let coverage = remote::<Coverage>(|| Some("/workloads".to_owned()));
    let catalogue = RwSignal::new(None::<Result<Arc<Vec<Listed>>, String>>);
    ask(What::Catalogue, move |answer| {
        let listed = answer.map(|answer| match answer {
            Answer::Catalogue(listed) => Arc::new(listed),
            _ => Arc::default(),
        });
        catalogue.try_set(Some(listed));
    });
    // The model that most pages ask first is fetched now, so that the next page needs no network.
    let models = predicting();
    let id = move || Some(usual(&models.value()?)?.id.to_string());
    remote_model(id);
    let (filter, tag) = (RwSignal::new(String::new()), RwSignal::new(String::new()));
    let log = RwSignal::new(None::<(String, ServerLog)>);
    let refusal = RwSignal::new(None::<String>);
    let navigate = use_navigate();
    let take = move |text: String| {
        filter.set(String::new());
        log.set(None);
        refusal.set(None);
        let navigate = navigate.clone();
        let given = text.clone();
        ask(What::Text(text), move |answer| match answer {
            Ok(Answer::Text(Understood::Model(told))) => navigate(&address_of(&told), Default::default()),
            Ok(Answer::Text(Understood::Config)) => {
                keep_config(&given);
                navigate(&page_of(PASTED), Default::default());
            }
            Ok(Answer::Text(Understood::Log(found))) => {
                log.try_set(Some((given, found)));
            }
            Ok(Answer::Text(Understood::Nothing(why))) | Err(why) => {
                refusal.try_set(Some(why));
            }
            Ok(_) => {}
        });
    };
    let given = given_elsewhere();
    if !given.is_empty() {
        take.clone()(given);
    }
    let tags = named(&[
        ("", "all"),
        ("experts", "with experts"),
        ("dense", "dense"),
        ("encoder", "encoders"),
        ("vision", "vision"),
        ("diffusion", "diffusion"),
        ("speech", "speech"),
        ("recommender", "recommenders"),
    ]);
    let list = move || match catalogue.get() {
        None => view! { <Skeleton height="40rem" /> }.into_any(),
        Some(Err(why)) => failure(why),
        Some(Ok(listed)) => {
            let models = models.value();
            let slugs: Vec<HardwareSlug> = models
                .iter()
                .flat_map(|models| published(models))
                .map(|model| model.hardware.clone())
                .collect();
            list_of(&listed, coverage, filter, tag, &slugs)
        }
    };
    view! {
        <main class="page">
            {page_head("/workloads")}
            <section class="section" aria-label="Look up">
                <LookUp take=Callback::new(take) typed=Callback::new(move |text: String| filter.set(text)) />
                {move || refusal.get().map(|why| view! { <p class="note" role="alert" data-testid="not-understood">{why}</p> })}
                {move || log.get().map(|(text, log)| view! { <MissingFiles text log /> })}
            </section>
            <section class="section" aria-labelledby="models-title">
                <h2 id="models-title">"Models"</h2>
                {chips("Kind", tags, tag)}
                {list}
            </section>
        </main>
    }
}

/// The address of a model's page.
fn page_of(name: &str) -> String {
    format!("/workloads/{}", name.replace(' ', "%20"))
}

/// The address of a model's page, served as a text says.
fn address_of(told: &Told) -> String {
    let text = |given: Option<String>| given.unwrap_or_default();
    let parameters = [
        ("tp", text(told.tensor_parallel.map(|gpus| gpus.to_string()))),
        ("quantization", text(told.quantization.map(|form| form.to_string()))),
        ("for", text(told.reader.map(|reader| reader.to_string()))),
        ("gpu", text(told.hardware.clone())),
    ];
    link(&page_of(&told.model), parameters)
}

/// Keeps a config for the page of its model, also if the reader loads the page again.
fn keep_config(text: &str) {
    if let Ok(Some(storage)) = window().session_storage() {
        // A browser may forbid storage. Then the page says that there is no config.
        let _ = storage.set_item(CONFIG, text);
    }
}

/// The config that was pasted.
fn kept_config() -> Option<String> {
    window().session_storage().ok().flatten()?.get_item(CONFIG).ok().flatten()
}

fn list_of(
    listed: &[Listed],
    coverage: Remote<Coverage>,
    filter: RwSignal<String>,
    tag: RwSignal<String>,
    predicting: &[HardwareSlug],
) -> AnyView {
    let wanted = filter.get().trim().to_lowercase();
    let kind = tag.get();
    let is_shown = |model: &&Listed| {
        let is_named = |name: &String| name.to_lowercase().contains(&wanted);
        let is_kind = kind.is_empty() || model.tags.iter().any(|tag| tag.as_str() == kind);
        is_kind && (is_named(&model.name) || model.aliases.iter().any(is_named))
    };
    let known = coverage.value();
    // Without an answer of the server, the browser still knows what it can predict.
    let hardware: Vec<String> = match &known {
        Some(known) => known.hardware.iter().map(|one| one.name.clone()).collect(),
        None => predicting.iter().map(ToString::to_string).collect(),
    };
    let covered: HashMap<&str, &Covered> = known
        .iter()
        .flat_map(|known| known.models.iter().map(|model| (model.name.as_str(), model)))
        .collect();
    let rows: Vec<_> = listed
        .iter()
        .filter(is_shown)
        .map(|model| {
            let covered = covered.get(model.name.as_str());
            let cells = (0..hardware.len())
                .map(|at| {
                    share_cell(if known.is_some() {
                        covered.map(|covered| covered.on(at))
                    } else {
                        Some(PREDICTED)
                    })
                })
                .collect_view();
            let tags: Vec<&str> = model.tags.iter().map(|tag| tag.as_str()).collect();
            let ships: Vec<&str> = model.ships.iter().map(|form| form.as_str()).collect();
            view! {
                <tr>
                    <td><a href=page_of(&model.name)>{model.name.clone()}</a></td>
                    <td class="roomy">{tags.join(", ")}</td>
                    <td class="roomy">{ships.join(", ")}</td>
                    {cells}
                </tr>
            }
        })
        .collect();
    if rows.is_empty() {
        return empty(
            "No model here is called so",
            "Press Look up for near names, or paste the model's config.json.",
        );
    }
    let mut heads = vec![head("Model"), head("Kind").roomy(), head("Weights").roomy()];
    heads.extend(hardware.iter().map(|name| {
        num(name.replace("NVIDIA ", "")).why(format!(
            "How many of the model's multiplications were measured on {name}, over all ways of serving it on 1 to 8 GPUs. \
             A model predicts the others."
        ))
    }));
    table(heads).boxed("table-box shares").testid("workloads").rows(rows)
}

/// What is known of each model on one hardware: the models of which most was measured first.
#[component]
pub(crate) fn WorkloadBoard(slug: HardwareSlug) -> impl IntoView {
    let coverage = remote::<Coverage>(|| Some("/workloads".to_owned()));
    let shown = move |known: Arc<Coverage>| {
        let Some(at) = known.hardware.iter().position(|one| one.slug == slug) else {
            return empty("No models here", "Models are served on GPUs.");
        };
        let mut models: Vec<_> = known.models.iter().map(|model| (model, model.on(at))).collect();
        models.sort_by_key(|(_, (share, _))| Reverse(share.measured));
        let rows = models.into_iter().map(|(model, (share, problems))| {
            let href = link(&page_of(&model.name), [("gpu", slug.to_string())]);
            view! {
                <tr>
                    <td><a href=href>{model.name.clone()}</a></td>
                    <td class="num">{format::count(problems)}</td>
                    <td class="num">{format::count(share.measured)}</td>
                    <td class="num">{format::count(share.predicted)}</td>
                </tr>
            }
        });
        table([
            head("Model"),
            num("Multiplications").why("Over all ways of serving it on 1 to 8 GPUs"),
            num("Measured"),
            num("Predicted").why("Not measured, but the published model predicts them"),
        ])
        .testid("workloads")
        .rows(rows.collect_view())
        .into_any()
    };
    view! {
        <section class="section" aria-labelledby="board-title">
            <h2 id="board-title">"Workloads"</h2>
            <p class="hint">"Each page has the model's multiplications on this GPU, and their files for vLLM, SGLang and torch.compile."</p>
            <Loaded remote=coverage height="40rem" children=shown />
        </section>
    }
}

/// What there is where nothing is known to be measured.
const PREDICTED: (Share, u64) = (Share { measured: 0, predicted: 1 }, 1);

impl Covered {
    /// What there is on a hardware, of all ways together.
    fn on(&self, at: usize) -> (Share, u64) {
        let mut sum = Share::default();
        for share in self.served.iter().filter_map(|way| way.on.get(at)) {
            sum.measured += share.measured;
            sum.predicted += share.predicted;
        }
        (sum, self.served.iter().map(|way| way.problems).sum())
    }
}

fn share_cell(found: Option<(Share, u64)>) -> impl IntoView {
    let text = match found {
        Some((share, problems)) if share.measured > 0 => {
            format!("{} measured", format::percent(share.measured as f64 / problems.max(1) as f64))
        }
        Some((share, _)) if share.predicted > 0 => "predicted".to_owned(),
        _ => "–".to_owned(),
    };
    view! { <td class="num">{text}</td> }
}
