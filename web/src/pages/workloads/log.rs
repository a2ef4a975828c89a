//! The files that a server's log says are missing.

use std::collections::BTreeSet;

use diode_api::ModelSummary;
use diode_core::ids::HardwareSlug;
use diode_worker::workloads::{MissingFile, ServerLog, User, What};
use leptos::prelude::*;

use crate::components::{Select, Snippet, empty, head, num, table, unnamed};
use crate::format::counted;
use crate::pages::workloads::report::{SaveFiles, variable_of};
use crate::pages::workloads::{page_of, predicting};
use crate::query::link;
use crate::remote::remote_model;

#[component]
pub(super) fn MissingFiles(
    /// The log.
    text: String,
    log: ServerLog,
) -> impl IntoView {
    let ServerLog { missing, found, hardware, reads_no_files, doubts } = log;
    let models = predicting();
    let slug = hardware.clone();
    let id = move || {
        let slug: HardwareSlug = slug.as_deref()?.parse().ok()?;
        Some(ModelSummary::best_for(&models.value()?, &slug)?.id.to_string())
    };
    let model = remote_model(id);
    let found = counted(found as u64, "file");
    let heading = match missing.len() {
        0 if found.starts_with('0') => "The log names no file".to_owned(),
        0 => format!("The server found all files: {found}"),
        count => format!("{} missing", counted(count as u64, "file")),
    };
    let notes = [
        reads_no_files
            .then(|| "The log says that the server chose another kernel, which reads no files.".to_owned()),
        (hardware.is_none() && !missing.is_empty()).then(|| {
            "The names are those of no hardware that is known here, so nothing can be predicted.".to_owned()
        }),
    ];
    let doubts: Vec<_> = doubts
        .into_iter()
        .map(|doubt| {
            view! {
                <tr>
                    <td class="num">{doubt.line}</td>
                    <td class="wrap">{doubt.why}</td>
                    <td class="wrap"><code>{doubt.text}</code></td>
                </tr>
            }
        })
        .collect();
    let doubted = (!doubts.is_empty()).then(|| {
        view! {
            <h3>"Lines that are not understood"</h3>
            {table([num("Line"), head("Why").class("wrap"), head("Text").class("wrap")]).testid("doubts").rows(doubts)}
        }
    });
    let rows = missing.iter().map(|file| row(file, hardware.as_deref())).collect_view();
    let names: BTreeSet<String> =
        missing.iter().flat_map(|file| &file.users).map(|user| user.model.clone()).collect();
    let chosen = RwSignal::new(String::new());
    let is_shared = missing.iter().any(|file| file.users.len() > 1);
    let choice = is_shared.then(|| {
        view! {
            <Select
                label="Model that you serve"
                placeholder="several look for such files"
                choices=unnamed(names)
                current=chosen
                choose=move |name| chosen.set(name)
            />
        }
    });
    let server = missing.first().map(|file| file.server);
    let what = move || {
        let named = chosen.get();
        Some(What::Missing(text.clone(), (!named.is_empty()).then_some(named)))
    };
    let files = (hardware.is_some() && !missing.is_empty()).then(|| {
        view! {
            {choice}
            <SaveFiles model=Signal::derive(move || model.value()) what=Signal::derive(what) />
            {server.map(|server| view! { <Snippet text=variable_of(server.variable()) /> })}
        }
    });
    view! {
        <div class="section" data-testid="log" role="status">
            <h2>{heading}</h2>
            {notes.into_iter().flatten().map(|note| view! { <p class="note">{note}</p> }).collect_view()}
            {if missing.is_empty() {
                empty("Nothing is missing", "Servers log the files that they look for when they start.")
            } else {
                table([head("File").class("wrap"), head("Models that look for it").class("wrap"), num("Line").roomy()])
                    .testid("missing")
                    .rows(rows)
            }}
            {files}
            {doubted}
        </div>
    }
}

fn row(file: &MissingFile, hardware: Option<&str>) -> impl IntoView + use<> {
    let links = file.users.iter().map(|user| user_link(user, file, hardware)).collect_view();
    let nobody = file.users.is_empty().then_some(if file.is_dense {
        "any with weights of this size"
    } else {
        "none of the catalogue: paste its config.json instead"
    });
    view! {
        <tr>
            <td class="wrap"><code>{file.name.clone()}</code> <small class="hint">{file.server.title()}</small></td>
            <td class="wrap">{links} {nobody}</td>
            <td class="num roomy">{file.line}</td>
        </tr>
    }
}

fn user_link(user: &User, file: &MissingFile, hardware: Option<&str>) -> impl IntoView + use<> {
    let User { model, tensor_parallel, expert_parallel, quantization } = user;
    let href = link(
        &page_of(model),
        [
            ("tp", tensor_parallel.to_string()),
            ("ep", expert_parallel.to_string()),
            ("quantization", quantization.to_string()),
            ("for", file.server.to_string()),
            ("gpu", hardware.unwrap_or_default().to_owned()),
        ],
    );
    let spread = if *expert_parallel > 1 { format!(", EP {expert_parallel}") } else { String::new() };
    view! { <div><a href=href>{model.clone()}</a> {format!(" on TP {tensor_parallel}{spread}")}</div> }
}
