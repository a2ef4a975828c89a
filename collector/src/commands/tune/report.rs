//! What was chosen and written, as a table or as JSON.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use diode_core::hardware::Hardware;
use diode_core::ids::ModelId;
use diode_core::{Config, ConfigFields, Tile};
use diode_model::ServingFigures;
use diode_workloads::files::Files;
use diode_workloads::layers::Serving;
use diode_workloads::measured::{LEAST_GAIN, Measured, SPREADS};
use diode_workloads::tuning::{Choice, Pick, Tuned};
use serde::Serialize;

use crate::commands::tune::Format;
use crate::output::{self, duration};

/// A file, and whether it was there with this text already.
pub(super) struct Written {
    pub(super) path: PathBuf,
    pub(super) text: String,
    pub(super) unchanged: bool,
}

impl Written {
    pub(super) fn new(path: PathBuf, text: String) -> Self {
        Self { path, text, unchanged: false }
    }
}

pub(super) struct Report<'a> {
    model: &'a str,
    /// `None` for the files of a log, which say it themselves.
    serving: Option<Serving>,
    hardware: &'a Hardware,
    /// The model that predicts.
    id: ModelId,
    /// The release whose files are compared.
    pub(super) release: Option<String>,
    /// Whose kernel was timed, if one was.
    pub(super) kernel: Option<String>,
    layers: Vec<(String, Tuned)>,
    pub(super) written: Vec<Written>,
    /// The variable to set, and its value.
    variable: Option<(&'static str, String)>,
    /// What else to do.
    pub(super) notes: BTreeSet<String>,
    /// Reasons to doubt the predictions.
    caveats: BTreeSet<String>,
}

impl<'a> Report<'a> {
    pub(super) fn new(model: &'a str, serving: Option<Serving>, hardware: &'a Hardware, id: ModelId) -> Self {
        Self {
            model,
            serving,
            hardware,
            id,
            release: None,
            kernel: None,
            layers: Vec::new(),
            written: Vec::new(),
            variable: None,
            notes: BTreeSet::new(),
            caveats: BTreeSet::new(),
        }
    }

    /// Takes the files that are written below a folder.
    pub(super) fn take(&mut self, files: Files, out: &Path) {
        let Files { layers, files, variable, notes, caveats } = files;
        self.layers.extend(layers.into_iter().map(|layer| (layer.name, layer.tuned)));
        self.written.extend(files.into_iter().map(|file| Written::new(out.join(file.path), file.text)));
        self.notes.extend(notes);
        self.caveats.extend(caveats);
        // A variable needs the path from the root.
        let folder = std::path::absolute(out).unwrap_or_else(|_| out.to_owned());
        self.variable = variable.map(|name| (name, folder.display().to_string()));
    }

    pub(super) fn print(&self, format: Format) -> anyhow::Result<()> {
        match format {
            Format::Json => output::json(&self.document()),
            Format::Table => output::text_out(&self.in_words()),
        }
    }

    fn in_words(&self) -> String {
        let split = self.serving.map_or_else(String::new, |serving| {
            let Serving { tensor_parallel, expert_parallel, quantization } = serving;
            let experts = if expert_parallel > 1 { format!(", EP {expert_parallel}") } else { String::new() };
            format!(" in {quantization}, TP {tensor_parallel}{experts}")
        });
        let mut text = format!("{}{split}, on {}\n", self.model, self.hardware.name);
        for (name, tuned) in &self.layers {
            // Writing to a String cannot fail.
            let _ = write!(text, "\n{name}\n\n{}", table(tuned));
        }
        if let Some((_, tuned)) = self.layers.first() {
            text.push('\n');
            text += &self.how_found(tuned);
        }
        for caveat in &self.caveats {
            let _ = writeln!(text, "note: {caveat}");
        }
        text.push('\n');
        for written in &self.written {
            let unchanged = if written.unchanged { " (as it was)" } else { "" };
            let _ = writeln!(text, "{}{unchanged}", written.path.display());
        }
        if let Some((name, value)) = &self.variable {
            let _ = writeln!(text, "\nexport {name}={}", quoted(value));
        }
        for note in &self.notes {
            let _ = writeln!(text, "note: {note}");
        }
        text
    }

    /// What the times are, and when a default stays.
    fn how_found(&self, tuned: &Tuned) -> String {
        let choices = self.layers.iter().flat_map(|(_, tuned)| &tuned.choices);
        let (measured, predicted): (Vec<&Choice>, _) = choices.partition(|choice| choice.measured.is_some());
        let mut text = String::new();
        if let Some(kernel) = self.kernel.as_ref().filter(|_| !measured.is_empty()) {
            let _ = writeln!(
                text,
                "{} measured, with {kernel}. A default stays unless another config takes {} % less time, and less by {} \
                 times the spread of its rounds, which stands after ±.",
                output::count(measured.len(), "batch size"),
                LEAST_GAIN * 100.0,
                SPREADS
            );
        }
        if !predicted.is_empty() {
            let which = if measured.is_empty() { "All" } else { "Other" };
            let _ = writeln!(
                text,
                "{which} times are predicted. A default stays unless another config is predicted to be more than {} % \
                 faster.",
                output::significant((1.0 / tuned.handicap - 1.0) * 100.0)
            );
            text += &how_sure(tuned);
        }
        if let Some(release) = &self.release {
            let has = self.layers.iter().any(|(_, tuned)| has_published(tuned));
            let words = if has { "published: the files of" } else { "no published file in" };
            let _ = writeln!(text, "{words} {release}");
        }
        text
    }

    fn document(&self) -> Document<'_> {
        Document {
            model: self.model,
            hardware: self.hardware.slug.as_str(),
            serving: self.serving,
            predicted_by: &self.id,
            release: self.release.as_deref(),
            kernel: self.kernel.as_deref(),
            layers: self.layers.iter().map(|(name, tuned)| LayerDocument::new(name, tuned)).collect(),
            files: self.written.iter().map(|written| written.path.display().to_string()).collect(),
            variable: self.variable.as_ref().map(|(name, value)| Variable { name, value }),
            notes: self.caveats.iter().chain(&self.notes).map(String::as_str).collect(),
        }
    }
}

fn has_published(tuned: &Tuned) -> bool {
    tuned.choices.iter().any(|choice| choice.published.is_some())
}

fn table(tuned: &Tuned) -> String {
    let has_down = tuned.choices.iter().any(|choice| choice.down.is_some());
    let mut heads = vec!["config"];
    heads.extend(has_down.then_some("down"));
    let left = heads.len();
    heads.extend(["batch size", "default"]);
    heads.extend(has_published(tuned).then_some("published"));
    heads.extend(["ours", "gain", "times", "how sure"]);
    let rows: Vec<Vec<String>> = tuned.choices.iter().map(|choice| row(choice, tuned)).collect();
    output::table(&heads, &rows, left)
}

fn row(choice: &Choice, tuned: &Tuned) -> Vec<String> {
    let mut row = vec![label(&choice.tile)];
    row.extend(choice.down.as_ref().map(label));
    let gain = if choice.keeps_default { "default".to_owned() } else { format!("{:.2}×", choice.gain()) };
    let (times, [default_us, us], published) = match &choice.measured {
        Some(measured) => ("measured", [measured.default_us, measured.us], measured.published_us),
        None => {
            let published = choice.published.map(|pick| pick.us).filter(|us| us.is_finite());
            ("predicted", [choice.default_us, choice.us], published)
        }
    };
    let sure = match (&choice.measured, &tuned.figures, &tuned.caveat) {
        (Some(measured), ..) => format!("±{:.1} %", measured.spread * 100.0),
        _ if choice.keeps_default => "–".to_owned(),
        (None, Some(figures), None) => format!("{:.0} %", within_5_percent(figures) * 100.0),
        _ => "a guess".to_owned(),
    };
    row.extend([choice.batch.to_string(), duration(default_us)]);
    row.extend(has_published(tuned).then(|| published.map_or_else(|| "–".to_owned(), duration)));
    row.extend([duration(us), gain, times.to_owned(), sure]);
    row
}

fn label(tile: &Tile) -> String {
    format!("{} g{}", Config::Mm(*tile).label(), tile.group_m)
}

/// What was measured of picks of this kind.
fn how_sure(tuned: &Tuned) -> String {
    let Some(figures) = &tuned.figures else {
        return "Nobody has measured how good such picks are.\n".to_owned();
    };
    let within = within_5_percent(figures);
    format!(
        "Of {} such problems of models that had not been learnt, the pick was within 5 % of the best in {:.0} %, and took \
         {:.2} to {:.2} times the predicted time in four of five.\n",
        figures.problems,
        within * 100.0,
        figures.time_range.0,
        figures.time_range.1
    )
}

/// How often the first pick is within 5 % of the best.
fn within_5_percent(figures: &ServingFigures) -> f64 {
    figures.within_5_percent.first().map_or(0.0, |(_, share)| *share)
}

/// A path as a shell takes it.
fn quoted(path: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+=:@".contains(c);
    if path.chars().all(is_plain) { path.to_owned() } else { format!("'{}'", path.replace('\'', r"'\''")) }
}

#[derive(Serialize)]
struct Document<'a> {
    model: &'a str,
    hardware: &'a str,
    #[serde(flatten)]
    serving: Option<Serving>,
    /// The digest of the model's file.
    predicted_by: &'a ModelId,
    /// The release whose files are compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    release: Option<&'a str>,
    /// Whose kernel was timed.
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<&'a str>,
    layers: Vec<LayerDocument<'a>>,
    files: Vec<String>,
    variable: Option<Variable<'a>>,
    notes: Vec<&'a str>,
}

#[derive(Serialize)]
struct Variable<'a> {
    name: &'a str,
    value: &'a str,
}

#[derive(Serialize)]
struct LayerDocument<'a> {
    name: &'a str,
    /// How much faster than the default a config must be predicted to be.
    margin: f64,
    /// How often the pick was within 5 % of the best, on models that were not learnt.
    within_5_percent: Option<f64>,
    /// The measured time / the predicted one, in four cases of five.
    time_range: Option<(f64, f64)>,
    batches: Vec<BatchDocument>,
}

impl<'a> LayerDocument<'a> {
    fn new(name: &'a str, tuned: &'a Tuned) -> Self {
        let figures = tuned.figures.as_ref();
        Self {
            name,
            margin: 1.0 / tuned.handicap - 1.0,
            within_5_percent: figures.map(within_5_percent),
            time_range: figures.map(|figures| figures.time_range),
            batches: tuned.choices.iter().map(BatchDocument::new).collect(),
        }
    }
}

#[derive(Serialize)]
struct BatchDocument {
    batch_size: u64,
    default: ConfigFields,
    default_us: f64,
    config: ConfigFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    down: Option<ConfigFields>,
    predicted_us: f64,
    gain: f64,
    keeps_default: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<PublishedDocument>,
    #[serde(skip_serializing_if = "Option::is_none")]
    measured: Option<Measured>,
}

#[derive(Serialize)]
struct PublishedDocument {
    config: ConfigFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    down: Option<ConfigFields>,
    predicted_us: Option<f64>,
}

impl BatchDocument {
    fn new(choice: &Choice) -> Self {
        let fields = |tile: Tile| ConfigFields::from(Config::Mm(tile));
        Self {
            batch_size: choice.batch,
            default: fields(choice.default),
            default_us: choice.default_us,
            config: fields(choice.tile),
            down: choice.down.map(fields),
            predicted_us: choice.us,
            gain: choice.gain(),
            keeps_default: choice.keeps_default,
            published: choice.published.map(|Pick { tile, down, us }| PublishedDocument {
                config: fields(tile),
                down: down.map(fields),
                predicted_us: Some(us).filter(|us| us.is_finite()),
            }),
            measured: choice.measured,
        }
    }
}
