//! Two uploads, two versions of a vendor's library, or two methods of timing.

use std::collections::BTreeSet;
use std::sync::Arc;

use diode_api::{HardwareSummary, Kernels, LibraryOn, LibraryUse, MethodOn, Receipt, Standing, WhoAsks};
use diode_core::ids::AccountName;
use leptos::prelude::*;

use crate::components::{Choice, Loaded, Skeleton, be_the_first, empty};
use crate::pages::compare::pair::{Compared, chosen_pair};
use crate::query::{History, parameter, use_set_parameters};
use crate::remote::{Load, remote};
use crate::{api, format};

/// The most uploads in the list, so that it is easy to choose from. Older uploads are named by their ids.
const OFFERED: usize = 100;

#[component]
pub(super) fn UploadPair() -> impl IntoView {
    let all = remote::<Vec<Receipt>>(|| Some("/uploads".to_owned()));
    let who = remote::<WhoAsks>(|| Some("/session".to_owned()));
    move || match who.get() {
        Load::Waiting => view! { <Skeleton height="40rem" /> }.into_any(),
        // If the server does not say who the reader is, no uploads are listed as the reader's own.
        who => {
            let own = match who {
                Load::Ready(who) => who.account.as_ref().map(|account| account.name.clone()),
                _ => None,
            };
            let shown = move |all: Arc<Vec<Receipt>>| view! { <Uploads all own=own.clone() /> };
            view! { <Loaded remote=all height="40rem" children=shown /> }.into_any()
        }
    }
}

/// The uploads in the order in which they are offered: the reader's own, then the others, both newest first.
fn offered<'a>(all: &'a [Receipt], own: Option<&AccountName>) -> Vec<&'a Receipt> {
    let is_own = |receipt: &&Receipt| own.is_some() && receipt.contributor.as_ref() == own;
    let (mut first, others): (Vec<_>, Vec<_>) = all.iter().partition(is_own);
    first.extend(others);
    first.truncate(OFFERED);
    first
}

/// The pair for an address that names only the first upload or none: the named upload alone, or the first two of the list
/// that are of one hardware. A link that names one upload is about this upload, so no other is chosen for the reader.
fn usual_uploads(offered: &[&Receipt], named: &str) -> [String; 2] {
    if !named.is_empty() {
        return [named.to_owned(), String::new()];
    }
    let hardware = |receipt: &Receipt| receipt.hardware.first().map(|one| one.slug.clone());
    let partner =
        |one: &Receipt| offered.iter().find(|other| one.id != other.id && hardware(one) == hardware(other));
    let pair = offered.iter().find_map(|one| Some([partner(one)?.id.to_string(), one.id.to_string()]));
    pair.unwrap_or_default()
}

/// What is in one upload.
fn contents(receipt: &Receipt) -> AnyView {
    let rows = receipt.hardware.iter().map(|one| {
        let counted = [
            format::counted(one.problems, "problem"),
            format::counted(one.timings, "timing"),
            format::counted(one.failures, "failed config"),
        ];
        view! { <dt><a href=format!("/hardware/{}", one.slug)>{one.name.clone()}</a></dt><dd>{counted.join(", ")}</dd> }
    });
    let by =
        receipt.contributor.as_ref().map_or_else(|| "without an account".to_owned(), ToString::to_string);
    let standing = match (receipt.standing, &receipt.reason) {
        (Standing::Counts, _) => "counts".to_owned(),
        (standing, None) => standing.to_string(),
        (standing, Some(why)) => format!("{standing}: {why}"),
    };
    let file = api::url(&format!("/uploads/{}/download", receipt.id));
    view! {
        <section class="card" data-testid="upload">
            <h2>"Upload " <code>{receipt.id.to_string()}</code></h2>
            <dl class="facts">
                {rows.collect_view()}
                <dt>"By"</dt><dd>{by}</dd>
                <dt>"Received"</dt><dd>{format::minute(&receipt.received_at)}</dd>
                <dt>"Standing"</dt><dd>{standing}</dd>
                <dt>"File"</dt><dd><a href=file rel="external" download>{format::bytes(receipt.bytes)}</a></dd>
            </dl>
        </section>
        <p class="hint">"Choose another upload above to compare the two."</p>
    }
    .into_any()
}

fn upload_choice(receipt: &Receipt) -> Choice {
    // An upload may have several collections of one GPU.
    let hardware: BTreeSet<&str> = receipt.hardware.iter().map(|one| one.name.as_str()).collect();
    let hardware: Vec<&str> = hardware.into_iter().collect();
    let by =
        receipt.contributor.as_ref().map_or_else(|| "without an account".to_owned(), ToString::to_string);
    let problems = receipt.hardware.iter().map(|one| one.problems).sum();
    let text = format!(
        "{}, {}, {}, {}, {by}",
        hardware.join(" and "),
        format::minute(&receipt.received_at),
        receipt.id,
        format::counted(problems, "problem")
    );
    (receipt.id.to_string(), text)
}

#[component]
fn Uploads(all: Arc<Vec<Receipt>>, own: Option<AccountName>) -> impl IntoView {
    let named = ["a", "b"].map(parameter);
    // A link may name an upload that is not among the newest. The lists then have it, too.
    let older = {
        let known: Vec<String> =
            offered(&all, own.as_ref()).iter().map(|receipt| receipt.id.to_string()).collect();
        Memo::new(move |_| {
            let named = named.iter().map(|named| named.get()).filter(|id| !id.is_empty());
            named.filter(|id| !known.contains(id)).collect::<Vec<_>>()
        })
    };
    move || pair(&offered(&all, own.as_ref()), older.get(), &named[0].get_untracked())
}

fn pair(offered: &[&Receipt], older: Vec<String>, named: &str) -> AnyView {
    if offered.is_empty() {
        return be_the_first("Nothing has been sent yet");
    }
    let mut choices: Vec<Choice> = offered.iter().map(|receipt| upload_choice(receipt)).collect();
    choices.extend(older.into_iter().map(|id| (id.clone(), format!("upload {id}"))));
    let (a, b, fields) = chosen_pair("Upload", choices, usual_uploads(offered, named));
    let one = remote::<Receipt>(move || {
        Some(a.get())
            .filter(|id| !id.is_empty() && b.with(String::is_empty))
            .map(|id| format!("/uploads/{id}"))
    });
    let shown = move || {
        if a.with(|id| !id.is_empty()) && b.with(String::is_empty) {
            return view! { <Loaded remote=one height="16rem" children=|receipt| contents(&receipt) /> }
                .into_any();
        }
        if a.with(String::is_empty) || b.with(String::is_empty) {
            return empty(
                "Which uploads?",
                "No two uploads of one hardware are among the newest. Choose two, or write the ids that stand on receipts.",
            );
        }
        let name = Callback::new(|id: String| format!("upload {id}"));
        view! { <Compared what="uploads" a b name /> }.into_any()
    };
    view! {
        {fields}
        <details>
            <summary>"By their ids"</summary>
            <div class="fields pair"><IdField key="a" label="Compared with, id" value=a /> <IdField key="b" label="Upload, id" value=b /></div>
        </details>
        {shown}
    }
    .into_any()
}

#[component]
fn IdField(key: &'static str, label: &'static str, value: Memo<String>) -> impl IntoView {
    let set = use_set_parameters();
    view! {
        <div class="field">
            <label for=format!("upload-{key}")>{label}</label>
            <input
                type="text"
                id=format!("upload-{key}")
                class="mono"
                placeholder="0123456789abcdef"
                prop:value=move || value.get()
                on:change=move |event| set(&[(key, event_target_value(&event).trim().to_owned())], History::Push)
            />
        </div>
    }
}

#[component]
pub(super) fn LibraryPair() -> impl IntoView {
    let all = remote::<Vec<LibraryUse>>(|| Some("/libraries".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Libraries all /> } /> }
}

/// The last two neighbouring names of one hardware, the older version first. The names are sorted by hardware and
/// version.
fn usual_versions(all: &[LibraryUse]) -> Option<[String; 2]> {
    let pair = all.windows(2).rev().find(|pair| pair[0].name.hardware == pair[1].name.hardware)?;
    Some([pair[0].name.to_string(), pair[1].name.to_string()])
}

#[component]
fn Libraries(all: Arc<Vec<LibraryUse>>) -> impl IntoView {
    let Some(usual) = usual_versions(&all) else {
        return empty("Two versions are needed", too_few(&all));
    };
    let (a, b, fields) = chosen_pair("Library", all.iter().map(version_choice).collect(), usual);
    let name =
        Callback::new(|name: String| name.parse::<LibraryOn>().map_or(name, |one| one.library.in_words()));
    view! {
        {fields}
        <p class="hint">
            "The best time of each problem in the uploads that name the version, at most the newest 64 of each. Drivers, "
            "power caps and devices may differ between them, too."
        </p>
        <Compared what="libraries" a b name usual_kernels=Kernels::Library />
    }
    .into_any()
}

/// Why there are no two versions to compare.
fn too_few(all: &[LibraryUse]) -> String {
    let known: Vec<String> = all.iter().map(|one| version_choice(one).1).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join("; ") };
    format!(
        "Uploads of one hardware must name different versions; so far there is {known}. Collections by diode on a GPU \
         name theirs. Uploads from before the server wrote it down do not count."
    )
}

fn version_choice(one: &LibraryUse) -> Choice {
    let library = one.name.library.in_words();
    let text = format!("{library}, {}, {}", one.name.hardware, format::counted(one.uploads, "upload"));
    (one.name.to_string(), text)
}

#[component]
pub(super) fn MethodPair() -> impl IntoView {
    let all = remote::<Vec<HardwareSummary>>(|| Some("/hardware".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Methods all /> } /> }
}

/// Each hardware with each method by which it was timed.
fn timed(all: &[HardwareSummary]) -> Vec<Choice> {
    let of = |one: &HardwareSummary| -> Vec<Choice> {
        let choice = |method| {
            let (hardware, name) = (one.hardware.slug.clone(), &one.hardware.name);
            (MethodOn { hardware, method }.to_string(), format!("{}, {name}", format::method(method)))
        };
        one.methods.iter().copied().map(choice).collect()
    };
    all.iter().flat_map(of).collect()
}

/// Two methods of the hardware with the most problems among hardware with several methods.
fn usual_methods(all: &[HardwareSummary]) -> Option<[String; 2]> {
    let one = all.iter().filter(|one| one.methods.len() > 1).max_by_key(|one| one.problems)?;
    let of = |place: usize| MethodOn { hardware: one.hardware.slug.clone(), method: one.methods[place] };
    Some([of(1).to_string(), of(0).to_string()])
}

#[component]
fn Methods(all: Arc<Vec<HardwareSummary>>) -> impl IntoView {
    let Some(usual) = usual_methods(&all) else {
        return empty(
            "Two ways of timing are needed",
            "No hardware here was timed in two ways. Files of torch-diode and collections by diode are of different ways, and so are clocks of the wall and of the GPU.",
        );
    };
    let (a, b, fields) = chosen_pair("Method", timed(&all), usual);
    let name =
        Callback::new(|name: String| name.parse::<MethodOn>().map_or(name, |one| format::method(one.method)));
    view! {
        {fields}
        <Compared what="methods" a b name />
    }
    .into_any()
}

#[cfg(test)]
mod libraries_tests {
    use super::*;

    fn used(name: &str) -> LibraryUse {
        LibraryUse { name: name.parse().unwrap(), uploads: 1, problems: 1, newest_at: String::new() }
    }

    #[test]
    fn versions_of_one_hardware_are_compared() {
        let names = ["nvidia-h100@cublas-120804", "nvidia-h200@cublas-120804", "nvidia-h200@cublas-130002"];
        let all: Vec<LibraryUse> = names.iter().map(|name| used(name)).collect();
        assert_eq!(usual_versions(&all), Some([names[1].to_owned(), names[2].to_owned()]));
        assert_eq!(usual_versions(&all[..2]), None);
        assert!(too_few(&all[..1]).contains("cuBLAS 12.8.4, nvidia-h100, 1 upload"));
    }
}
