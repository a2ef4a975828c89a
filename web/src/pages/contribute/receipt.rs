//! What the server stored of a file.

use diode_api::Receipt;
use leptos::prelude::*;

use super::contents::{counted, set_apart};
use crate::format;

#[component]
pub(super) fn ReceiptCard(
    receipt: Receipt,
    /// The name and size of the file that was sent.
    name: String,
) -> impl IntoView {
    let heading = if receipt.already_stored {
        "Already stored: these very bytes had been sent before"
    } else {
        "Stored. Thank you!"
    };
    let hardware = receipt.hardware.iter().map(|hardware| {
        let contents = counted(hardware.problems, hardware.timings, hardware.failures);
        view! {
            <dt><a href=format!("/hardware/{}", hardware.slug)>{hardware.name.clone()}</a></dt>
            <dd>{contents}</dd>
        }
    });
    let apart = receipt.hardware.iter().flat_map(|hardware| set_apart(&hardware.set_apart));
    let (new, known) = (format::count(receipt.new_solutions), format::count(receipt.duplicate_solutions));
    let (solutions, received) = if receipt.already_stored {
        (
            vec![("Stored at the first upload", format!("{new} new solutions, {known} known already"))],
            "First received",
        )
    } else {
        (vec![("New solutions", new), ("Known already", known)], "Received")
    };
    let file = [("File", name), ("Format", receipt.format.clone())];
    let proof = [
        ("Receipt", receipt.id.to_string()),
        ("SHA-256", receipt.digest.to_string()),
        (received, format::minute(&receipt.received_at)),
        ("Licence", receipt.licence.to_string()),
    ];
    let rows = file.into_iter().chain(solutions).chain(proof);
    view! {
        <section class="card" role="status" data-testid="receipt">
            <h2 class="good-text">{heading}</h2>
            <dl class="facts">
                {hardware.collect_view()}
                {rows.map(|(name, value)| view! { <dt>{name}</dt><dd>{value}</dd> }).collect_view()}
            </dl>
            {apart.collect_view()}
        </section>
    }
}
