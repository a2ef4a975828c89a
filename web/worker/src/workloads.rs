//! Answers about served models: which there are, what a text is about, how long their multiplications take, and
//! their files.

mod passes;
mod texts;

use diode_core::Micros;
use diode_model::Model;
use diode_workloads::catalogue::{self, Tag};
use diode_workloads::files::Files;
use diode_workloads::layers::Serving;
use diode_workloads::model_config::Quantization;
use diode_workloads::named::Named;
use diode_workloads::served::Reader;
use diode_workloads::server_log::Log;
use diode_workloads::zip::zip;
use serde::{Deserialize, Serialize};

pub use self::passes::{Layer, Pass, Times};
pub use self::texts::{Doubt, MissingFile, ServerLog, Told, Understood, User};

/// A question, and the number by which the page knows its answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    pub number: u32,
    pub what: What,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum What {
    /// All models.
    Catalogue,
    /// What a text is about: a name, a config, a log.
    Text(String),
    /// The times of a model's multiplications.
    Pass(Way),
    /// The files of a model.
    Files(Way),
    /// The files that a log says are missing, of the named model if there is one.
    Missing(String, Option<String>),
}

/// A way of serving a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Way {
    /// A name of the catalogue, or the text of a config.json.
    pub model: String,
    pub tensor_parallel: u64,
    pub expert_parallel: u64,
    /// The model's own if it is `None`.
    pub quantization: Option<Quantization>,
    pub reader: Reader,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Answered {
    pub number: u32,
    pub answer: Result<Answer, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Answer {
    Catalogue(Vec<Listed>),
    Text(Understood),
    Pass(Box<Pass>),
    Files(Saved),
}

/// A model of the catalogue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Listed {
    pub name: String,
    pub aliases: Vec<String>,
    pub tags: Vec<Tag>,
    pub ships: Vec<Quantization>,
}

/// A file to save, or an archive of several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Saved {
    pub name: String,
    pub content: Vec<u8>,
    /// What else to do.
    pub notes: Vec<String>,
    /// What could not be made, and why.
    pub left: Vec<String>,
}

/// What the worker knows: the model that predicts, once a page has sent it.
#[derive(Debug, Default)]
pub struct Workloads {
    model: Option<Model>,
}

impl Workloads {
    pub fn take(&mut self, model: Model) {
        self.model = Some(model);
    }

    pub fn answer(&self, asked: Asked) -> Answered {
        let answer = match asked.what {
            What::Catalogue => Ok(Answer::Catalogue(listed())),
            What::Text(text) => Ok(Answer::Text(Understood::read(&text))),
            What::Pass(way) => self.pass(&way).map(|pass| Answer::Pass(Box::new(pass))),
            What::Files(way) => self.files(&way).map(Answer::Files),
            What::Missing(log, named) => self.missing(&log, named.as_deref()).map(Answer::Files),
        };
        Answered { number: asked.number, answer }
    }

    fn model(&self) -> Result<&Model, String> {
        self.model.as_ref().ok_or_else(|| "the model of this hardware is not there yet".to_owned())
    }

    fn pass(&self, way: &Way) -> Result<Pass, String> {
        let (named, serving) = way.read()?;
        Pass::new(self.model()?, &named, serving, way.reader)
    }

    fn files(&self, way: &Way) -> Result<Saved, String> {
        let (named, serving) = way.read()?;
        let files = Files::of(self.model()?, &named.architecture, &serving, way.reader);
        let files = files.map_err(|error| error.to_string())?;
        Saved::new(&named.name, files, Vec::new()).ok_or_else(|| "there is nothing to save".to_owned())
    }

    /// The files that are missing by a log, as far as it is known for which model.
    fn missing(&self, log: &str, named: Option<&str>) -> Result<Saved, String> {
        let named = named.map(self::named).transpose()?;
        let (files, left) = Files::of_log(self.model()?, &Log::read(log), named.as_ref());
        let left: Vec<String> = left.iter().map(|(file, why)| format!("{file}: {why}")).collect();
        let why = left.join("; ");
        Saved::new("missing", files, left).ok_or(why)
    }
}

impl Saved {
    /// One file as it is, or several as an archive. `None` if there is none.
    fn new(name: &str, files: Files, left: Vec<String>) -> Option<Self> {
        let notes = files.caveats.into_iter().chain(files.notes).collect();
        let mut files = files.files;
        let is_one = files.len() == 1 && !files[0].path.contains('/');
        Some(if is_one {
            let file = files.remove(0);
            Self { name: file.path, content: file.text.into_bytes(), notes, left }
        } else {
            let files: Vec<_> = files.into_iter().map(|file| (file.path, file.text.into_bytes())).collect();
            (!files.is_empty()).then(|| Self {
                name: format!("{name}.zip"),
                content: zip(&files),
                notes,
                left,
            })?
        })
    }
}

fn listed() -> Vec<Listed> {
    let of = |model: &catalogue::Model| Listed {
        name: model.name.clone(),
        aliases: model.aliases.clone(),
        tags: model.tags.clone(),
        ships: model.ships.clone(),
    };
    catalogue::models().iter().map(of).collect()
}

/// Finds a model by its name, or reads a config.
fn named(given: &str) -> Result<Named, String> {
    if given.trim_start().starts_with('{') {
        return Named::from_config("config", given).map_err(|error| error.to_string());
    }
    Named::find(given).ok_or_else(|| texts::unknown(given))
}

impl Way {
    fn read(&self) -> Result<(Named, Serving), String> {
        let named = named(&self.model)?;
        // A form without tuned kernels is shown as its layers run in 16 bits.
        let own = named.form_for(self.reader).unwrap_or(Quantization::Bf16);
        let quantization = self.quantization.unwrap_or(own);
        let Self { tensor_parallel, expert_parallel, .. } = *self;
        Ok((named, Serving { tensor_parallel, expert_parallel, quantization }))
    }
}

/// A time that JSON can hold.
fn us(time: Micros) -> f64 {
    time.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workloads() -> Workloads {
        let path = "../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors";
        let mut workloads = Workloads::default();
        workloads.take(Model::from_bytes(&std::fs::read(path).unwrap()).unwrap());
        workloads
    }

    fn way(model: &str, quantization: Option<Quantization>, reader: Reader) -> Way {
        Way { model: model.to_owned(), tensor_parallel: 4, expert_parallel: 1, quantization, reader }
    }

    fn pass(way: Way) -> Pass {
        match workloads().answer(Asked { number: 7, what: What::Pass(way) }) {
            Answered { number: 7, answer: Ok(Answer::Pass(pass)) } => *pass,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_pass_gains_what_its_files_gain() {
        let block = Some(Quantization::Fp8Block);
        let vllm = pass(way("Qwen3-235B-A22B", block, Reader::Vllm));
        let read: Vec<_> = vllm.layers.iter().filter(|layer| layer.is_read).collect();
        let [experts] = read[..] else { panic!("{read:?}") };
        assert_eq!(
            (experts.name.as_str(), experts.untuned.as_str(), experts.count),
            ("experts", "vLLM's default", 94)
        );
        for at in 0..vllm.batches.len() {
            let (before, after) = vllm.totals(at);
            let saved = experts.count as f64 * (experts.times[at].before() - experts.times[at].pick);
            assert!((before - after - saved).abs() < 1e-6 * before, "{before} {after} {saved}");
        }
        assert_eq!(vllm.files.unwrap().len(), 1);
        // What torch.compile reads has no experts.
        let inductor = pass(way("Qwen3-235B-A22B", None, Reader::Inductor));
        assert_eq!(inductor.quantization, Quantization::Bf16);
        assert!(inductor.layers.iter().all(|layer| layer.is_read == (layer.name != "experts")));
        // vLLM reads nothing for a dense model, and says so.
        let dense = pass(way("Llama-3.1-8B", None, Reader::Vllm));
        assert!(dense.files.as_ref().unwrap_err().contains("vLLM reads no files"), "{:?}", dense.files);
        assert!((0..dense.batches.len()).all(|at| dense.gain(at) == 1.0));
    }

    #[test]
    fn without_a_model_or_with_a_wrong_name_the_answer_says_so() {
        let answer = |workloads: &Workloads, model: &str| {
            let what = What::Files(way(model, None, Reader::Vllm));
            workloads.answer(Asked { number: 1, what }).answer.unwrap_err()
        };
        assert!(answer(&Workloads::default(), "Qwen3-235B-A22B").contains("is not there yet"));
        let said = answer(&workloads(), "Qwen3-31B-A3B");
        assert!(
            said.contains("No model is called `Qwen3-31B-A3B`. Near:") && said.contains("Qwen3-30B-A3B"),
            "{said}"
        );
    }

    #[test]
    fn texts_are_told_apart() {
        let read = Understood::read;
        let told = |model: &str, quantization, tensor_parallel, hardware: Option<&str>, reader| {
            let (model, hardware) = (model.to_owned(), hardware.map(str::to_owned));
            Understood::Model(Told { model, quantization, tensor_parallel, hardware, reader })
        };
        let (block, h200) = (Some(Quantization::Fp8Block), Some("nvidia-h200"));
        assert_eq!(read(" Qwen3-30B-A3B\n"), told("Qwen3-30B-A3B", None, None, None, None));
        assert_eq!(read("Qwen/Qwen3-30B-A3B-FP8"), told("Qwen3-30B-A3B", block, None, None, None));
        let large = "Qwen3-235B-A22B";
        for (sentence, expected) in [
            ("I serve Qwen3-235B in fp8 on 4 H200s", told(large, block, Some(4), h200, None)),
            (
                "qwen3-235b-a22b bf16, 8xH200 (SGLang).",
                told(large, Some(Quantization::Bf16), Some(8), h200, Some(Reader::Sglang)),
            ),
            (
                "vllm serve Qwen/Qwen3-235B-A22B-FP8 --tp 2",
                told(large, block, Some(2), None, Some(Reader::Vllm)),
            ),
            ("Qwen3 235B with tp=4 on 8 gpus", told(large, None, Some(8), None, None)),
            ("Mixtral-8x7B on 0 H200", told("Mixtral-8x7B", None, None, h200, None)),
        ] {
            assert_eq!(read(sentence), expected, "{sentence}");
        }
        assert!(matches!(read("I serve Qwen3-31B-A3B on 4 H200s"), Understood::Nothing(_)));
        let config = r#"{"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
            "num_attention_heads": 32, "num_key_value_heads": 8}"#;
        assert_eq!(read(config), Understood::Config);
        let at = "Using default MoE config. Performance might be sub-optimal! Config file not found at";
        let Understood::Log(log) = read(&format!("{at} /v/E=8,N=14336,device_name=NVIDIA_H200.json")) else {
            panic!("a log")
        };
        assert_eq!((log.hardware.as_deref(), log.found, log.doubts.len()), (Some("nvidia-h200"), 0, 0));
        assert_eq!(log.missing[0].users[0].model, "Mixtral-8x7B");
        for (text, said) in [
            ("", "Paste a model's name"),
            ("two\nlines", "None of the 2 lines names a file"),
            ("{", "No config of a model: got text that is not JSON"),
        ] {
            assert!(matches!(read(text), Understood::Nothing(why) if why.starts_with(said)), "{text}");
        }
    }
}
