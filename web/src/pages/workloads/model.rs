//! A model's page: its multiplications, what tuning gains, and its files.

use std::sync::Arc;

use diode_api::ModelSummary;
use diode_core::ids::HardwareSlug;
use diode_worker::workloads::{Answer, Pass, What};
use leptos::prelude::*;
use leptos::task::spawn_local;
use serde::{Deserialize, Serialize};

use crate::api::Failure;
use crate::components::{FailedLoad, Loaded, Skeleton, Snippet, head, num, table, use_title};
use crate::pages::models::NoModels;
use crate::pages::path_part;
use crate::pages::workloads::controls::{Controls, ControlsForm};
use crate::pages::workloads::report::Report;
use crate::pages::workloads::served::{ask_of, failure};
use crate::pages::workloads::{PASTED, kept_config, predicting};
use crate::query::{link, server_address};
use crate::remote::{Load, remote, remote_model};
use crate::{api, cache, format};

#[component]
pub(crate) fn WorkloadPage() -> impl IntoView {
    let name = path_part("model");
    use_title(move || title(&name.get()));
    let models = predicting();
    view! {
        <main class="page">
            {move || {
                let name = name.get();
                view! {
                    <div class="page-head">
                        <div>
                            <p class="crumbs"><a href="/workloads">"Workloads"</a> " / " {title(&name)}</p>
                            <h1>{title(&name)}</h1>
                        </div>
                    </div>
                    <Loaded remote=models height="40rem" children=move |models| view! { <Workload name=name.clone() models /> } />
                }
            }}
        </main>
    }
}

fn title(name: &str) -> String {
    if name == PASTED { "Your config.json".to_owned() } else { name.to_owned() }
}

#[component]
fn Workload(name: String, models: Arc<Vec<ModelSummary>>) -> impl IntoView {
    if models.is_empty() {
        return view! { <NoModels hardware=remote(|| Some("/hardware".to_owned())) /> }.into_any();
    }
    let given = if name == PASTED { kept_config() } else { Some(name.clone()) };
    let Some(given) = given else {
        return failure(
            "The config.json that was pasted is gone from this tab. Paste it again on the page Workloads."
                .to_owned(),
        );
    };
    let controls = Controls::of_address(&models);
    let id = {
        let models = Arc::clone(&models);
        move || {
            let slug: HardwareSlug = controls.hardware.get().parse().ok()?;
            Some(ModelSummary::best_for(&models, &slug)?.id.to_string())
        }
    };
    let is_predicted = Memo::new({
        let id = id.clone();
        move |_| id().is_some()
    });
    let model = remote_model(id);
    let way = Memo::new(move |_| controls.way(given.clone()));
    let pass = RwSignal::new(None::<Result<Arc<Pass>, String>>);
    let is_busy = RwSignal::new(false);
    Effect::new(move |_| {
        let (asked, Some(model)) = (way.get(), model.value()) else { return };
        match asked {
            Err(why) => pass.set(Some(Err(why))),
            Ok(asked) => {
                is_busy.set(true);
                ask_of(&model, What::Pass(asked.clone()), move |answer| {
                    // The reader may have chosen another way by now.
                    if way.try_get_untracked().as_ref() != Some(&Ok(asked)) {
                        return;
                    }
                    is_busy.set(false);
                    match answer {
                        Ok(Answer::Pass(found)) => pass.set(Some(Ok(Arc::new(*found)))),
                        Ok(_) => {}
                        Err(why) => pass.set(Some(Err(why))),
                    }
                });
            }
        }
    });
    let own = Memo::new(move |_| {
        pass.with(|pass| match pass {
            Some(Ok(pass)) => pass.quantization.to_string(),
            _ => String::new(),
        })
    });
    let has_experts = Memo::new(move |_| {
        pass.with(
            |pass| matches!(pass, Some(Ok(pass)) if pass.tags.iter().any(|tag| tag.as_str() == "experts")),
        )
    });
    let is_pasted = name == PASTED;
    let report = move || match (pass.get(), model.get()) {
        _ if !is_predicted.get() => {
            failure(format!("No model predicts {} on this server yet.", controls.hardware.get()))
        }
        (_, Load::Failed(reason)) => view! { <FailedLoad reason retry=move || model.retry() /> }.into_any(),
        (None, _) => view! { <Skeleton height="36rem" /> }.into_any(),
        (Some(Err(why)), _) => failure(why),
        (Some(Ok(pass)), _) => {
            let way = Signal::derive(move || way.get().ok());
            view! { <Report pass way controls model=Signal::derive(move || model.value()) /> }.into_any()
        }
    };
    view! {
        <ControlsForm controls models own has_experts />
        <div class="section report" class:busy=move || is_busy.get() aria-live="polite">{report}</div>
        {(!is_pasted).then(|| view! { <Measuring name=name.clone() controls own /> })}
    }
    .into_any()
}

/// What the server has of the model. Only the fields that are shown.
#[derive(Clone, Deserialize)]
struct Progress {
    problems: u64,
    measured: u64,
    waiting: u64,
    release: Option<String>,
    layers: Vec<MeasuredLayer>,
}

#[derive(Clone, Deserialize)]
struct MeasuredLayer {
    name: String,
    batches: Vec<MeasuredBatch>,
}

#[derive(Clone, Deserialize)]
struct MeasuredBatch {
    batch_size: u64,
    untuned: Option<Time>,
    pick: Option<Time>,
    published: Option<Time>,
}

#[derive(Clone, Copy, Deserialize)]
struct Time {
    us: f64,
}

/// The measured times of a release's files beside the default and the measured pick.
fn published(progress: &Progress) -> Option<AnyView> {
    let release = progress.release.as_ref()?;
    let mut rows = Vec::new();
    for layer in &progress.layers {
        for batch in &layer.batches {
            let (Some(published), Some(default), Some(pick)) = (batch.published, batch.untuned, batch.pick)
            else {
                continue;
            };
            rows.push(view! {
                <tr>
                    <td>{layer.name.clone()}</td>
                    <td class="num">{format::count(batch.batch_size)}</td>
                    <td class="num">{format::time(default.us)}</td>
                    <td class="num">{format::time(published.us)}</td>
                    <td class="num">{format::time(pick.us)}</td>
                    <td>{format::beside_default(published.us, default.us)}</td>
                </tr>
            });
        }
    }
    if rows.is_empty() {
        return None;
    }
    let heads = vec![
        head("Layer"),
        num("Tokens"),
        num("Default"),
        num("Its file"),
        num("Fastest"),
        head("Its file is"),
    ];
    Some(
        view! {
            <h3>{format!("{release}'s files, as measured here")}</h3>
            {table(heads).testid("published").rows(rows)}
        }
        .into_any(),
    )
}

#[derive(Serialize)]
struct Wanted {
    tensor_parallel: u64,
    expert_parallel: u64,
    quantization: Option<String>,
    consumer: String,
}

#[derive(Deserialize)]
struct AskedFor {
    asked: u64,
    unable: u64,
}

/// What was measured, a button that asks for the rest, and the commands that measure it.
#[component]
fn Measuring(name: String, controls: Controls, own: Memo<String>) -> impl IntoView {
    let form = move || {
        let asked = controls.quantization.get();
        if asked.is_empty() { own.get() } else { asked }
    };
    let api_path = format!("/workloads/{name}");
    let path = {
        let api_path = api_path.clone();
        Memo::new(move |_| {
            // Until the weights are known, the server isn't asked.
            let weights = Some(form()).filter(|form| !form.is_empty())?;
            let query = [
                ("tp", controls.tensor_parallel.get()),
                ("ep", controls.expert_parallel.get()),
                ("quantization", weights),
                ("consumer", controls.reader.get()),
            ];
            Some(link(&format!("{api_path}/{}", controls.hardware.get()), query))
        })
    };
    let progress = remote::<Progress>(move || path.get());
    let said = RwSignal::new(None::<Result<String, Failure>>);
    // Another way of serving starts without the answer about the old one.
    Effect::new(move |_| {
        path.track();
        said.set(None);
    });
    let press = move |_| {
        let number = |text: Memo<String>| text.with_untracked(|text| text.parse().unwrap_or(1));
        let quantization = Some(untrack(form)).filter(|form| !form.is_empty());
        let wanted = Wanted {
            tensor_parallel: number(controls.tensor_parallel),
            expert_parallel: number(controls.expert_parallel),
            quantization,
            consumer: controls.reader.get_untracked(),
        };
        let path = format!("{api_path}/{}/wanted", controls.hardware.get_untracked());
        spawn_local(async move {
            let answer = api::post::<_, AskedFor>(&path, &wanted).await;
            cache::clear();
            if said.try_set(Some(answer.map(|told| told.sentence()))).is_none() {
                progress.retry();
            }
        });
    };
    let state = move || {
        let Progress { problems, measured, waiting, .. } = (*progress.value()?).clone();
        let waits =
            if waiting > 0 { format!(", {} asked for", format::count(waiting)) } else { String::new() };
        Some(format!(
            "{} of {} measured on this server{waits}.",
            format::count(measured),
            format::counted(problems, "multiplication")
        ))
    };
    let commands = move || {
        let (server, hardware, reader) = (server_address(), controls.hardware.get(), controls.reader.get());
        let spread = match controls.expert_parallel.get().as_str() {
            "1" => String::new(),
            number => format!(" --ep {number}"),
        };
        let tp = controls.tensor_parallel.get();
        let form = form();
        let form = if form.is_empty() { form } else { format!(" --quantization {form}") };
        view! {
            <span class="hint">"On a machine with this GPU, for as long as you let it:"</span>
            <Snippet text=format!("diode agent --server {server}") />
            <span class="hint">"The same files on the command line:"</span>
            <Snippet text=format!("diode tune {name} --tp {tp}{spread}{form} --for {reader} --hardware {hardware}") />
        }
    };
    view! {
        <section class="section" aria-labelledby="measure-title">
            <h2 id="measure-title">"Measure what is missing"</h2>
            <p data-testid="progress">{state}</p>
            <div class="row">
                <button type="button" class="button small" data-testid="ask" on:click=press>"Ask agents to measure it"</button>
                <span class="hint" role="status">{move || match said.get()? {
                    Ok(sentence) => Some(sentence.into_any()),
                    Err(Failure::SignedOut(_)) => Some(view! { <a href="/sign-in" rel="external">"Sign in"</a> " first, then press again." }.into_any()),
                    Err(failure) => Some(failure.to_string().into_any()),
                }}</span>
            </div>
            {commands}
            {move || published(&*progress.value()?)}
        </section>
    }
}

impl AskedFor {
    fn sentence(&self) -> String {
        let unable = match self.unable {
            0 => String::new(),
            unable => format!(" No kernel here computes {} of them.", format::count(unable)),
        };
        format!("{} asked for now.{unable}", format::counted(self.asked, "multiplication"))
    }
}
