//! What is predicted for a list, as files.

use diode_core::api::ModelSummary;
use diode_core::hardware::Hardware;
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Invalid, Table};
use js_sys::{Array, JsString};
use wasm_bindgen::JsValue;
use web_sys::{Blob, BlobPropertyBag};

use crate::files::give;
use crate::ranking::{Ranked, Row};

const HEAD: &str = "line,op,b,m,n,k,dtype,a_layout,b_layout,bias,config,template,block_m,block_n,block_k,\
                    group_m,num_stages,num_warps,predicted_us,library_us,model,note\n";

/// One row per line of the list, also for lines that have no prediction.
pub(super) fn csv(rows: &[Row], model: &ModelSummary) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        text += &match &row.outcome {
            Ok(ranked) => predicted_row(row.number, ranked, model),
            Err(error) => format!("{}{}{}\n", row.number, ",".repeat(21), quoted(error)),
        };
    }
    text
}

fn predicted_row(number: usize, ranked: &Ranked, model: &ModelSummary) -> String {
    let p = &ranked.problem;
    let Some((config, time)) = ranked.picks.first() else {
        return format!("{number}{}no config\n", ",".repeat(21));
    };
    let shape = format!(
        "{number},{},{},{},{},{},{},{},{},{}",
        p.op, p.b, p.m, p.n, p.k, p.a_dtype, p.a_layout, p.b_layout, p.bias
    );
    let tile = config.tile().map_or_else(
        || ",".repeat(5),
        |t| {
            format!(
                "{},{},{},{},{},{}",
                t.block_m, t.block_n, t.block_k, t.group_m, t.num_stages, t.num_warps
            )
        },
    );
    let library = ranked.library.map(|time| format!("{time:.3}")).unwrap_or_default();
    let note = ranked.caveat.as_deref().map(quoted).unwrap_or_default();
    let (label, template) = (config.label().replace('×', "x"), config.template());
    format!("{shape},{label},{template},{tile},{time:.3},{library},{},{note}\n", model.id)
}

/// A text as one field: it may hold commas.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The picks as torch's `lookup_table`.
pub(super) fn lookup_table(rows: &[Row], hardware: Hardware) -> Result<String, Invalid> {
    let choices = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).map(|ranked| {
        let configs: Vec<Config> = ranked.picks.iter().map(|(config, _)| *config).collect();
        (ranked.problem.clone(), configs)
    });
    // A shape that is listed twice is one problem.
    let mut seen = std::collections::HashSet::new();
    let choices = choices.filter(|(problem, _)| seen.insert(problem.clone()));
    let table = Table::from_choices(hardware, choices)?.to_inductor(&InductorOptions::default())?;
    serde_json::to_string_pretty(&table)
        .map_err(|error| Invalid::new("table", error, "one that JSON can hold"))
}

/// Gives the reader a file.
pub(super) fn download(name: &str, media: &str, text: &str) {
    // A browser that makes no file shows nothing; the table stays on the page.
    let _ = try_download(name, media, text);
}

fn try_download(name: &str, media: &str, text: &str) -> Result<(), JsValue> {
    let options = BlobPropertyBag::new();
    options.set_type(media);
    let parts = Array::of1(&JsString::from(text));
    give(name, &Blob::new_with_str_sequence_and_options(&parts, &options)?)
}
