//! The models that are served: the one that a user names, the form of its weights, and the list of those that have names.

use std::path::{Path, PathBuf};

use diode_workloads::catalogue::{self, Model};
use diode_workloads::model_config::Quantization;
use diode_workloads::named::Named;
use diode_workloads::served::Reader;
use serde::Serialize;

use crate::failure::Usage;
use crate::output;

/// No config.json is as large.
const MAX_CONFIG: u64 = 4 << 20;

/// Reads a `config.json`, or finds a model by name.
pub(crate) fn named(given: &str) -> Result<Named, Usage> {
    let Some(path) = config_path(given) else {
        return Named::find(given).ok_or_else(|| {
            let near = catalogue::similar(given);
            let near = if near.is_empty() { String::new() } else { format!(" such as {},", near.join(", ")) };
            Usage::new(format!(
                "MODEL: got `{given:.200}`, expected a model that `diode tune --list` names,{near} or the path of its config.json"
            ))
        });
    };
    let shown = path.display().to_string();
    let bytes =
        diode_formats::read_bounded(&path, MAX_CONFIG).map_err(|error| Usage::new(format!("{error:#}")))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        Usage::new(format!("{shown}: got bytes that are not UTF-8, expected a model's config.json"))
    })?;
    Named::from_config(&*shown, &text).map_err(|error| Usage::new(format!("{shown}: {error}")))
}

/// The form of the weights that the user asked for, or else the model's own.
pub(crate) fn quantization(
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
pub(crate) fn config_path(given: &str) -> Option<PathBuf> {
    let path = Path::new(given);
    if path.is_dir() {
        return Some(path.join("config.json"));
    }
    let looks_like_one =
        given.ends_with(".json") || given.starts_with(['.', '/', '~']) || given.contains('\\');
    (path.is_file() || looks_like_one).then(|| path.to_owned())
}

/// A model of the list.
#[derive(Serialize)]
struct Row {
    name: &'static str,
    aliases: &'static [String],
    tags: Vec<&'static str>,
    hidden: u64,
    /// The experts of a layer, the width of each, and how many a token goes to.
    #[serde(skip_serializing_if = "Option::is_none")]
    experts: Option<[u64; 3]>,
    /// Forms of the weights that its authors publish.
    weights: Vec<&'static str>,
}

impl Row {
    fn new(model: &'static Model) -> Option<Self> {
        // A test reads the config of every model.
        let architecture = model.architecture().ok()?;
        Some(Self {
            name: &model.name,
            aliases: &model.aliases,
            tags: model.tags.iter().map(|tag| tag.as_str()).collect(),
            hidden: architecture.hidden,
            experts: architecture.experts.map(|experts| [experts.count, experts.intermediate, experts.top_k]),
            weights: model.ships.iter().map(|form| form.as_str()).collect(),
        })
    }

    /// Whether a name, a kind or a form of the weights has the word.
    fn has(&self, word: &str) -> bool {
        let aliases = self.aliases.iter().map(String::as_str);
        let mut words = aliases.chain([self.name]).chain(self.tags.iter().chain(&self.weights).copied());
        words.any(|known| known.to_lowercase().contains(word))
    }

    fn cells(self) -> Vec<String> {
        let experts = self.experts.map_or_else(
            || "–".to_owned(),
            |[count, width, top_k]| format!("{count} of {width}, top {top_k}"),
        );
        vec![
            self.name.to_owned(),
            self.tags.join(", "),
            self.weights.join(", "),
            experts,
            self.hidden.to_string(),
        ]
    }
}

/// Prints the models of the catalogue that have a word in their names, kinds or weights, or all.
pub(crate) fn list(word: Option<&str>, json: bool) -> anyhow::Result<()> {
    let wanted = word.map(|word| word.trim().to_lowercase()).unwrap_or_default();
    let rows: Vec<Row> =
        catalogue::models().iter().filter_map(Row::new).filter(|row| row.has(&wanted)).collect();
    let all = catalogue::models().len();
    Usage::refuse_if(
        rows.is_empty(),
        format_args!(
            "MODEL: got `{wanted:.100}`, which none of the {all} models has in its name, kind or weights; for any other model, \
             give the path of its config.json"
        ),
    )?;
    if json {
        return output::json(&rows);
    }
    let cells: Vec<Vec<String>> = rows.into_iter().map(Row::cells).collect();
    output::text_out(&output::table(&["model", "kind", "weights", "experts", "hidden size"], &cells, 4))
}
