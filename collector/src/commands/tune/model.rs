//! The model that a user names.

use std::path::{Path, PathBuf};

use diode_workloads::catalogue::{self, find};
use diode_workloads::model_config::{Architecture, Quantization, Shipped};

use crate::commands::tune::Reader;
use crate::failure::Usage;

/// No config.json is as large.
const MAX_CONFIG: u64 = 4 << 20;

/// A model with what it is called here.
pub(super) struct Named {
    pub(super) name: String,
    pub(super) architecture: Architecture,
    /// The form of fp8 in which its authors publish weights.
    fp8: Option<Quantization>,
    /// Whether the name says that the weights are fp8.
    names_fp8: bool,
    /// The form of the weights if the config or the name says it.
    shipped: Shipped,
}

impl Named {
    /// Reads a `config.json`, or finds a model by name.
    pub(super) fn read(given: &str) -> Result<Self, Usage> {
        match config_path(given) {
            Some(path) => Self::from_file(&path),
            None => Self::from_catalogue(given),
        }
    }

    /// The model of the catalogue that a log tells. A path of the server's node is not opened.
    pub(super) fn of_log(given: &str) -> Option<Self> {
        Self::from_catalogue(given).ok()
    }

    fn from_file(path: &Path) -> Result<Self, Usage> {
        let shown = path.display();
        let bytes = diode_formats::read_bounded(path, MAX_CONFIG)
            .map_err(|error| Usage::new(format!("{error:#}")))?;
        let text = String::from_utf8(bytes).map_err(|_| {
            Usage::new(format!("{shown}: got bytes that are no text, expected a model's config.json"))
        })?;
        let architecture =
            Architecture::from_json(&text).map_err(|error| Usage::new(format!("{shown}: {error}")))?;
        let shipped = architecture.shipped.clone();
        let fp8 = match shipped {
            Shipped::As(form) if form != Quantization::Bf16 => Some(form),
            _ => None,
        };
        Ok(Self { name: shown.to_string(), architecture, fp8, names_fp8: false, shipped })
    }

    fn from_catalogue(given: &str) -> Result<Self, Usage> {
        let Some(model) = find(given) else {
            let near = catalogue::similar(given);
            let near = if near.is_empty() { String::new() } else { format!(" such as {},", near.join(", ")) };
            return Err(Usage::new(format!(
                "MODEL: got `{given:.200}`, expected a model of the catalogue,{near} or the path of its config.json"
            )));
        };
        let architecture =
            model.architecture().map_err(|error| Usage::new(format!("{}: {error}", model.name)))?;
        let names_fp8 = catalogue::names_fp8(given);
        // Some authors publish weights in fp8 alone.
        let own = if names_fp8 { model.fp8() } else { model.ships.first().copied() };
        Ok(Self {
            name: model.name.clone(),
            fp8: model.fp8(),
            names_fp8,
            shipped: match own {
                Some(form) => Shipped::As(form),
                None if names_fp8 => Shipped::As(Quantization::Fp8Tensor),
                None => architecture.shipped.clone(),
            },
            architecture,
        })
    }

    /// The form of the weights if it is not bf16.
    pub(super) fn shipped_otherwise(&self) -> Option<&str> {
        match &self.shipped {
            Shipped::As(Quantization::Bf16) => None,
            Shipped::As(form) => Some(form.as_str()),
            Shipped::Otherwise(form) => Some(form),
        }
    }

    /// The form of the weights that the user asked for, or else the model's own.
    pub(super) fn quantization(&self, asked: Option<&str>, reader: Reader) -> Result<Quantization, Usage> {
        match asked {
            // Servers that make fp8 of other weights scale each matrix as a whole.
            Some("fp8") => Ok(self.fp8.unwrap_or(Quantization::Fp8Tensor)),
            Some(name) => name.parse().map_err(|_| {
                let known: Vec<&str> = Quantization::ALL.iter().map(|form| form.as_str()).collect();
                Usage::new(format!(
                    "--quantization: got `{name:.100}`, expected fp8 or one of {}",
                    known.join(", ")
                ))
            }),
            None if reader == Reader::Inductor && !self.names_fp8 => Ok(Quantization::Bf16),
            None => match &self.shipped {
                Shipped::As(form) => Ok(*form),
                Shipped::Otherwise(form) => Err(Usage::new(format!(
                    "{}: Diode doesn't tune this form ({form}); it knows fp8 and {}: name one with --quantization",
                    self.name,
                    Quantization::ALL.iter().map(|form| form.as_str()).collect::<Vec<_>>().join(", ")
                ))),
            },
        }
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
