//! One pass of tokens through a model: the time of each layer, untuned and by the picks, at each batch size.

use std::collections::BTreeSet;

use diode_core::{Config, Tile};
use diode_model::{Model, Question, Ranker};
use diode_workloads::catalogue::Tag;
use diode_workloads::file_body::BATCH_SIZES;
use diode_workloads::file_names::Consumer;
use diode_workloads::files::Files;
use diode_workloads::layers::{DenseLayer, ExpertsLayer, Serving};
use diode_workloads::model_config::Quantization;
use diode_workloads::served::{LOOKUP_TABLE, Reader};
use diode_workloads::tuning::{Choice, Tuned};
use serde::{Deserialize, Serialize};

use super::{Named, us};

/// The times of a model that is served one way, on one GPU.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Pass {
    pub name: String,
    pub tags: Vec<Tag>,
    pub quantization: Quantization,
    /// Tokens.
    pub batches: Vec<u64>,
    pub layers: Vec<Layer>,
    /// The paths of the files, or why there are none.
    pub files: Result<Vec<String>, String>,
    /// The environment variable that names the folder of the files.
    pub variable: Option<String>,
    pub notes: Vec<String>,
    pub caveats: Vec<String>,
    /// How often such picks were within 5 % of the best, on models that had not been learnt.
    pub within_5_percent: Option<f64>,
}

/// A layer, with its times for each batch size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Layer {
    pub name: String,
    /// Its sizes, in words.
    pub sizes: String,
    pub quantization: Quantization,
    /// How often one pass computes it.
    pub count: u64,
    /// Whether the reader takes the pick from the files.
    pub is_read: bool,
    /// What runs untuned: `cuBLAS`, `vLLM's default`.
    pub untuned: String,
    pub times: Vec<Times>,
}

/// Predicted times of a layer, in µs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Times {
    /// `None` if no model predicts what runs untuned.
    pub untuned: Option<f64>,
    pub pick: f64,
    /// The pick's label.
    pub config: String,
    /// Whether what runs untuned is the pick.
    pub keeps: bool,
}

impl Times {
    fn of(choice: &Choice) -> Self {
        let label = |tile: Tile| format!("{} g{}", Config::Mm(tile).label(), tile.group_m);
        let down = choice.down.map(|tile| format!(", down {}", label(tile))).unwrap_or_default();
        Self {
            untuned: Some(choice.default_us),
            pick: choice.us,
            config: label(choice.tile) + &down,
            keeps: choice.keeps_default,
        }
    }

    /// The time of what runs untuned, or the pick's where nobody predicts it.
    pub fn before(&self) -> f64 {
        self.untuned.unwrap_or(self.pick)
    }
}

impl Layer {
    /// The time with the files.
    pub fn after(&self, at: usize) -> f64 {
        let times = &self.times[at];
        if self.is_read { times.pick } else { times.before() }
    }
}

impl Pass {
    /// The times of all layers together, untuned and with the files.
    pub fn totals(&self, at: usize) -> (f64, f64) {
        let sum =
            |of: &dyn Fn(&Layer) -> f64| self.layers.iter().map(|layer| layer.count as f64 * of(layer)).sum();
        (sum(&|layer| layer.times[at].before()), sum(&|layer| layer.after(at)))
    }

    /// How many times as fast a pass is with the files.
    pub fn gain(&self, at: usize) -> f64 {
        let (before, after) = self.totals(at);
        before / after
    }

    pub(super) fn new(
        model: &Model,
        named: &Named,
        serving: Serving,
        reader: Reader,
    ) -> Result<Self, String> {
        let architecture = &named.architecture;
        let in_words = |error: &dyn std::fmt::Display| error.to_string();
        let (files, why) = match reader {
            // Its table takes longer than all of this, so it is made when it is asked for.
            Reader::Inductor if serving.quantization == Quantization::Bf16 => (Files::default(), None),
            _ => match Files::of(model, architecture, &serving, reader) {
                Ok(files) => (files, None),
                Err(error) => (Files::default(), Some(error.to_string())),
            },
        };
        let paths = match (&why, reader) {
            (Some(why), _) => Err(why.clone()),
            (None, Reader::Inductor) => Ok(vec![LOOKUP_TABLE.to_owned()]),
            (None, _) => Ok(files.files.iter().map(|file| file.path.clone()).collect()),
        };
        let mut caveats: BTreeSet<String> = files.caveats.clone();
        let mut layers = Vec::new();
        let served = architecture.dense_layers(&serving).map_err(|error| in_words(&error))?;
        let mut ranker = Ranker::new(model);
        for layer in &served {
            // Layers of the same sizes share a file.
            let sizes = format!("N={},K={},", layer.n, layer.k);
            let tuned = files.layers.iter().find(|tuned| layer.quantized && tuned.path.starts_with(&sizes));
            layers.push(match tuned {
                Some(tuned) => of_tuned(dense(layer, &serving), Consumer::Sglang, &tuned.tuned, true),
                None => {
                    let is_read = reader == Reader::Inductor && paths.is_ok();
                    ranked(&mut ranker, layer, &serving, is_read, &mut caveats)?
                }
            });
        }
        let mut within_5_percent = None;
        if architecture.experts.is_some() {
            let consumer = reader.server().unwrap_or(Consumer::Vllm);
            let layer = architecture.experts_layer(&serving, consumer).map_err(|error| in_words(&error))?;
            let known = files.layers.first().map(|first| first.tuned.clone());
            let is_read = known.is_some();
            let tuned = match known {
                Some(tuned) => tuned,
                None => {
                    Tuned::experts(model, &layer, consumer, &BATCH_SIZES).map_err(|error| in_words(&error))?
                }
            };
            caveats.extend(tuned.caveat.clone());
            within_5_percent =
                tuned.figures.as_ref().and_then(|known| Some(known.within_5_percent.first()?.1));
            layers.push(of_tuned(experts(&layer), consumer, &tuned, is_read));
        }
        Ok(Self {
            name: named.name.clone(),
            tags: named.tags.clone(),
            quantization: serving.quantization,
            batches: BATCH_SIZES.to_vec(),
            layers,
            files: paths,
            variable: files.variable.map(str::to_owned),
            notes: files.notes.into_iter().collect(),
            caveats: caveats.into_iter().collect(),
            within_5_percent,
        })
    }
}

fn dense(layer: &DenseLayer, serving: &Serving) -> Layer {
    Layer {
        name: layer.name.clone(),
        sizes: format!("{}×{}", layer.n, layer.k),
        quantization: if layer.quantized { serving.quantization } else { Quantization::Bf16 },
        count: layer.count,
        is_read: false,
        untuned: "cuBLAS".to_owned(),
        times: Vec::new(),
    }
}

fn experts(layer: &ExpertsLayer) -> Layer {
    Layer {
        name: "experts".to_owned(),
        sizes: format!("{} of {}×{}, top {}", layer.experts, layer.n, layer.hidden, layer.top_k),
        quantization: layer.quantization,
        count: layer.count,
        is_read: false,
        untuned: String::new(),
        times: Vec::new(),
    }
}

fn of_tuned(layer: Layer, consumer: Consumer, tuned: &Tuned, is_read: bool) -> Layer {
    let untuned = format!("{}'s default", consumer.title());
    Layer { untuned, is_read, times: tuned.choices.iter().map(Times::of).collect(), ..layer }
}

/// A layer for which no server reads files: cuBLAS beside the best kernel.
fn ranked(
    ranker: &mut Ranker<&Model>,
    layer: &DenseLayer,
    serving: &Serving,
    is_read: bool,
    caveats: &mut BTreeSet<String>,
) -> Result<Layer, String> {
    let mut times = Vec::with_capacity(BATCH_SIZES.len());
    for batch in BATCH_SIZES {
        let problem = layer.problem(batch, serving.quantization).map_err(|error| error.to_string())?;
        let answer = ranker.answer(&problem, &Question::default()).map_err(|error| error.to_string())?;
        let Some(pick) = answer.picks.first() else {
            return Err(format!("{}: no config fits this hardware", layer.name));
        };
        caveats.extend(answer.caveat);
        let keeps = pick.config.is_library();
        times.push(Times {
            untuned: answer.library.map(|library| us(library.total())),
            pick: us(pick.total()),
            config: if keeps { "cuBLAS".to_owned() } else { pick.config.label() },
            keeps,
        });
    }
    Ok(Layer { is_read, times, ..dense(layer, serving) })
}
