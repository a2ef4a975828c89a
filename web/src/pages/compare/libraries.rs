//! Two versions of a vendor's library on one hardware: which problems got slower.

use std::sync::Arc;

use diode_api::{Kernels, LibraryOn, LibraryUse};
use leptos::prelude::*;

use super::chosen::chosen_pair;
use super::pair::Compared;
use crate::components::{Choice, Empty, Loaded};
use crate::format;
use crate::remote::remote;

#[component]
pub(super) fn LibraryPair() -> impl IntoView {
    let all = remote::<Vec<LibraryUse>>(|| Some("/libraries".to_owned()));
    view! { <Loaded remote=all height="40rem" children=move |all| view! { <Libraries all /> } /> }
}

/// The last two neighbouring names of one hardware, the older version first. The names are sorted by hardware and
/// version.
fn usual(all: &[LibraryUse]) -> Option<[String; 2]> {
    let pair = all.windows(2).rev().find(|pair| pair[0].name.hardware == pair[1].name.hardware)?;
    Some([pair[0].name.to_string(), pair[1].name.to_string()])
}

#[component]
fn Libraries(all: Arc<Vec<LibraryUse>>) -> impl IntoView {
    let Some(usual) = usual(&all) else {
        return view! { <Empty heading="Two versions are needed">{too_few(&all)}</Empty> }.into_any();
    };
    let (a, b, fields) = chosen_pair("Library", all.iter().map(choice).collect(), usual);
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
    let known: Vec<String> = all.iter().map(|one| choice(one).1).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join("; ") };
    format!(
        "Uploads of one hardware must name different versions; so far there is {known}. Collections by diode on a GPU \
         name theirs. Uploads from before the server wrote it down do not count."
    )
}

fn choice(one: &LibraryUse) -> Choice {
    let library = one.name.library.in_words();
    let text = format!("{library}, {}, {}", one.name.hardware, format::counted(one.uploads, "upload"));
    (one.name.to_string(), text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(name: &str) -> LibraryUse {
        LibraryUse { name: name.parse().unwrap(), uploads: 1, problems: 1, newest_at: String::new() }
    }

    #[test]
    fn versions_of_one_hardware_are_compared() {
        let names = ["nvidia-h100@cublas-120804", "nvidia-h200@cublas-120804", "nvidia-h200@cublas-130002"];
        let all: Vec<LibraryUse> = names.iter().map(|name| used(name)).collect();
        assert_eq!(usual(&all), Some([names[1].to_owned(), names[2].to_owned()]));
        assert_eq!(usual(&all[..2]), None);
        assert!(too_few(&all[..1]).contains("cuBLAS 12.8.4, nvidia-h100, 1 upload"));
    }
}
