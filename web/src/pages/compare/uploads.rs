//! Two uploads, chosen from the newest ones or by their ids.

use std::collections::BTreeSet;
use std::sync::Arc;

use diode_api::{Receipt, WhoAsks};
use diode_core::ids::AccountName;
use leptos::prelude::*;

use super::chosen::chosen_pair;
use super::pair::Compared;
use crate::components::{Choice, Empty, Loaded, Skeleton};
use crate::format;
use crate::query::{History, parameter, use_set_parameters};
use crate::remote::{Load, remote};

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

/// The pair for an address that names only the first upload or none. The pair has one hardware: the named upload
/// and the list's first other one, or the first two of the list.
fn usual(offered: &[&Receipt], named: &str) -> [String; 2] {
    let hardware = |receipt: &Receipt| receipt.hardware.first().map(|one| one.slug.clone());
    let same = |one: &Receipt, other: &Receipt| one.id != other.id && hardware(one) == hardware(other);
    let id = |receipt: Option<&&Receipt>| receipt.map(|one| one.id.to_string()).unwrap_or_default();
    let partner = |of: &Receipt| id(offered.iter().find(|other| same(of, other)));
    match offered.iter().find(|one| one.id.as_str() == named) {
        Some(a) => [named.to_owned(), partner(a)],
        None => {
            let b = offered.iter().find(|one| !partner(one).is_empty());
            [b.map(|b| partner(b)).unwrap_or_default(), id(b)]
        }
    }
}

fn choice(receipt: &Receipt) -> Choice {
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
        return view! { <Empty heading="Nothing has been sent yet">"Be the first: " <a href="/contribute">"contribute measurements"</a> "."</Empty> }
            .into_any();
    }
    let mut choices: Vec<Choice> = offered.iter().map(|receipt| choice(receipt)).collect();
    choices.extend(older.into_iter().map(|id| (id.clone(), format!("upload {id}"))));
    let (a, b, fields) = chosen_pair("Upload", choices, usual(offered, named));
    let shown = move || {
        if a.with(String::is_empty) || b.with(String::is_empty) {
            return view! { <Empty heading="Which uploads?">"No two uploads of one hardware are among the newest. Choose two, or write the ids that stand on receipts."</Empty> }
                .into_any();
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
