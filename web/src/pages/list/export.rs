//! The predictions for a list, as files.

use diode_api::ModelSummary;
use diode_core::hardware::Hardware;
use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Epilogue, Invalid, Micros, Table};
use diode_model::epilogue::Weighed;
use diode_ranking::{Ranked, Row};
use js_sys::{Array, JsString};
use wasm_bindgen::JsValue;
use web_sys::{Blob, BlobPropertyBag};

use crate::files::give;

const HEAD: &str = "line,op,b,m,n,k,dtype,a_layout,b_layout,bias,config,template,block_m,block_n,block_k,\
                    group_m,num_stages,num_warps,predicted_us,library_us,epilogue,epilogue_us,library_epilogue_us,\
                    triton_over_library,pick,model,note\n";

/// One row for each line of the list: the best Triton config, and the library's time beside it. Lines without a
/// prediction have a row, too.
pub(super) fn csv(rows: &[Row], model: &ModelSummary) -> String {
    let mut text = HEAD.to_owned();
    for row in rows {
        text += &match &row.outcome {
            Ok(ranked) => predicted_row(row.number, ranked, model),
            Err(error) => bare_row(row.number, &quoted(error)),
        };
    }
    text
}

/// A row that has only a number and a note.
fn bare_row(number: usize, note: &str) -> String {
    format!("{number}{}{note}\n", ",".repeat(HEAD.matches(',').count()))
}

fn predicted_row(number: usize, ranked: &Ranked, model: &ModelSummary) -> String {
    let p = &ranked.problem;
    let Some(triton) = ranked.triton() else {
        return bare_row(number, "no config");
    };
    let config = &triton.config;
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
    let time = |us: Option<Micros>| us.map(|us| format!("{:.3}", us.0)).unwrap_or_default();
    let library = time(ranked.library.map(|library| library.alone));
    // The times that the epilogue adds have columns of their own.
    let epilogue = ranked.verdict.map_or(Epilogue::None, |verdict| verdict.epilogue);
    let added =
        |one: Option<&Weighed>| time(one.filter(|_| ranked.verdict.is_some()).map(|one| one.following));
    let (following, after_library) = (added(Some(triton)), added(ranked.library.as_ref()));
    let note = ranked.caveat.as_deref().map(quoted).unwrap_or_default();
    let (label, template) = (config.label().replace('×', "x"), config.template());
    let alone = time(Some(triton.alone));
    let times = format!("{alone},{library},{epilogue},{following},{after_library}");
    let ratio = ranked.triton_over_library().map(|ratio| format!("{ratio:.4}")).unwrap_or_default();
    let pick = if ranked.picks_library() { "library" } else { "triton" };
    format!("{shape},{label},{template},{tile},{times},{ratio},{pick},{},{note}\n", model.id)
}

/// A text as one quoted field, because it may contain commas.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('"', "\"\""))
}

/// The picks as torch's `lookup_table`.
pub(super) fn lookup_table(rows: &[Row], hardware: Hardware) -> Result<String, Invalid> {
    let choices = rows.iter().filter_map(|row| row.outcome.as_ref().ok()).map(|ranked| {
        let configs: Vec<Config> = ranked.picks.iter().map(|pick| pick.config).collect();
        (ranked.problem.clone(), configs)
    });
    // A shape that stands twice in the list is one problem.
    let mut seen = std::collections::HashSet::new();
    let choices = choices.filter(|(problem, _)| seen.insert(problem.clone()));
    let table = Table::from_choices(hardware, choices)?.to_inductor(&InductorOptions::default())?;
    serde_json::to_string_pretty(&table)
        .map_err(|error| Invalid::new("table", error, "one that JSON can hold"))
}

/// Saves a text as a file.
pub(super) fn download(name: &str, media: &str, text: &str) {
    // If the browser cannot make the file, nothing happens. The table stays on the page.
    let _ = try_download(name, media, text);
}

fn try_download(name: &str, media: &str, text: &str) -> Result<(), JsValue> {
    let options = BlobPropertyBag::new();
    options.set_type(media);
    let parts = Array::of1(&JsString::from(text));
    give(name, &Blob::new_with_str_sequence_and_options(&parts, &options)?)
}
