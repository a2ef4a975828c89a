//! The model that a user names, and the form of its weights.

use std::path::{Path, PathBuf};

use diode_workloads::catalogue;
use diode_workloads::model_config::Quantization;
use diode_workloads::named::Named;
use diode_workloads::served::Reader;

use crate::failure::Usage;

/// No config.json is as large.
const MAX_CONFIG: u64 = 4 << 20;

/// Reads a `config.json`, or finds a model by name.
pub(super) fn named(given: &str) -> Result<Named, Usage> {
    let Some(path) = config_path(given) else {
        return Named::find(given).ok_or_else(|| {
            let near = catalogue::similar(given);
            let near = if near.is_empty() { String::new() } else { format!(" such as {},", near.join(", ")) };
            Usage::new(format!(
                "MODEL: got `{given:.200}`, expected a model of the catalogue,{near} or the path of its config.json"
            ))
        });
    };
    let shown = path.display().to_string();
    let bytes =
        diode_formats::read_bounded(&path, MAX_CONFIG).map_err(|error| Usage::new(format!("{error:#}")))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Usage::new(format!("{shown}: got bytes that are no text, expected a model's config.json"))
    })?;
    Named::from_config(&*shown, &text).map_err(|error| Usage::new(format!("{shown}: {error}")))
}

/// The form of the weights that the user asked for, or else the model's own.
pub(super) fn quantization(
    named: &Named,
    asked: Option<&str>,
    reader: Reader,
) -> Result<Quantization, Usage> {
    let known = || Quantization::ALL.iter().map(|form| form.as_str()).collect::<Vec<_>>().join(", ");
    match asked {
        Some("fp8") => Ok(named.fp8()),
        Some(name) => name.parse().map_err(|_| {
            Usage::new(format!("--quantization: got `{name:.100}`, expected fp8 or one of {}", known()))
        }),
        None => named.form_for(reader).map_err(|form| {
            Usage::new(format!(
                "{}: Diode doesn't tune this form ({form}); it knows fp8 and {}: name one with --quantization",
                named.name,
                known()
            ))
        }),
    }
}

/// The file that is meant, if what is given is one: a file, a folder with a config.json, or what looks like a path.
fn config_path(given: &str) -> Option<PathBuf> {
    let path = Path::new(given);
    if path.is_dir() {
        return Some(path.join("config.json"));
    }
    let looks_like_one =
        given.ends_with(".json") || given.starts_with(['.', '/', '~']) || given.contains('\\');
    (path.is_file() || looks_like_one).then(|| path.to_owned())
}
