//! The files of a model for whatever reads them, and what to do with them.

use std::collections::BTreeSet;

use diode_core::table::inductor::InductorOptions;
use diode_core::{Config, Invalid, Problem, Table};
use diode_model::{Model, ModelError, Question, Ranker};

use crate::catalogue::{User, users};
use crate::file_body::BATCH_SIZES;
use crate::file_names::{Consumer, DtypeWord, FileKey, FileName};
use crate::layers::{DenseLayer, ExpertsLayer, LayersError, Serving};
use crate::model_config::{Architecture, Quantization};
use crate::served::{LOOKUP_TABLE, Layer, Reader, ServedLayer};
use crate::server_log::Mention;
use crate::tuning::{Tuned, TuningError};

/// A file, with its path below the folder that it is written to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    pub path: String,
    pub text: String,
}

/// A layer, and the configs that were chosen for it.
#[derive(Debug, Clone, PartialEq)]
pub struct TunedLayer {
    pub name: String,
    /// The path of its first file.
    pub path: String,
    pub tuned: Tuned,
}

/// The files of a model or of a log.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Files {
    pub layers: Vec<TunedLayer>,
    pub files: Vec<File>,
    /// The environment variable that names their folder, if one does.
    pub variable: Option<&'static str>,
    /// What else to do.
    pub notes: BTreeSet<String>,
    /// Reasons to doubt the predictions.
    pub caveats: BTreeSet<String>,
}

/// Why there are no files.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("{0}")]
    NoneRead(String),
    #[error(transparent)]
    Tuning(#[from] TuningError),
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl From<LayersError> for FilesError {
    fn from(error: LayersError) -> Self {
        Self::Tuning(error.into())
    }
}

impl From<ModelError> for FilesError {
    fn from(error: ModelError) -> Self {
        Self::Tuning(error.into())
    }
}

impl Files {
    /// The files of a model that is served so, as `model` predicts them.
    pub fn of(
        model: &Model,
        architecture: &Architecture,
        serving: &Serving,
        reader: Reader,
    ) -> Result<Self, FilesError> {
        let mut files = Self::default();
        let layers = architecture.served_layers(serving, reader, &model.metadata().hardware)?;
        let Some(consumer) = reader.server() else {
            files.lookup_table(model, &layers)?;
            return Ok(files);
        };
        for served in layers {
            match &served.layer {
                Layer::Experts(layer) => files.experts(model, layer, consumer, &served.files)?,
                Layer::Dense(layer) => files.dense(model, layer, consumer, &served.files)?,
            }
        }
        if files.files.is_empty() {
            return Err(FilesError::NoneRead(none_read(consumer, serving)));
        }
        Ok(files)
    }

    /// Adds the files of a layer of experts: for both multiplications, and for the second if it has configs of its own.
    fn experts(
        &mut self,
        model: &Model,
        layer: &ExpertsLayer,
        consumer: Consumer,
        paths: &[String],
    ) -> Result<(), FilesError> {
        // A log names the files of both multiplications.
        if paths.first().is_none_or(|path| self.has(path)) {
            return Ok(());
        }
        let tuned = Tuned::experts(model, layer, consumer, &BATCH_SIZES)?;
        let bodies = [Some(tuned.body()), tuned.down_body()];
        for (path, body) in paths.iter().zip(bodies.into_iter().flatten()) {
            self.add(path, body.to_text());
        }
        let ExpertsLayer { experts, n, top_k, hidden, .. } = layer;
        let name = format!("{experts} experts of {n}, top {top_k}, hidden size {hidden}");
        self.layer(name, &paths[0], tuned);
        self.variable = Some(consumer.variable());
        if consumer == Consumer::Sglang {
            self.notes.insert(format!(
                "the variable replaces SGLang's own files: copy those that you need from {} into configs",
                consumer.experts_folder()
            ));
        }
        Ok(())
    }

    /// Adds the file of a multiplication by block-scaled weights.
    fn dense(
        &mut self,
        model: &Model,
        layer: &DenseLayer,
        consumer: Consumer,
        paths: &[String],
    ) -> Result<(), FilesError> {
        let Some(path) = paths.first().filter(|path| !self.has(path)) else { return Ok(()) };
        let tuned = Tuned::dense(model, layer, consumer, &BATCH_SIZES)?;
        self.add(path, tuned.body().to_text());
        self.layer(format!("{}: {}×{}", layer.name, layer.n, layer.k), path, tuned);
        self.notes.insert(format!(
            "no variable names a folder of dense files: copy them into {} of the installed package",
            consumer.dense_folder()
        ));
        if consumer == Consumer::Sglang {
            self.notes.insert(
                "on Hopper and later GPUs, SGLang runs most of these layers by DeepGEMM, which reads no files"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// Inductor's lookup table of the layers.
    fn lookup_table(&mut self, model: &Model, layers: &[ServedLayer]) -> Result<(), FilesError> {
        let hardware = &model.metadata().hardware;
        let mut ranker = Ranker::new(model);
        let mut choices: Vec<(Problem, Vec<Config>)> = Vec::new();
        for layer in layers {
            for batch in BATCH_SIZES {
                for problem in layer.problems(batch, hardware)? {
                    let answer = ranker.answer(&problem, &Question::default())?;
                    self.caveats.extend(answer.caveat);
                    choices.push((problem, answer.picks.iter().map(|pick| pick.config).collect()));
                }
            }
        }
        self.notes.insert(format!(
            "{} multiplications; give torch.compile the options lookup_table.table = json.load(…), \
             max_autotune_gemm = True and inductor_choices_class = LookupTableChoices",
            choices.len()
        ));
        let table = Table::from_choices(hardware.clone(), choices)?;
        let table = serde_json::to_string_pretty(&table.to_inductor(&InductorOptions::default())?);
        let table = table.map_err(|error| Invalid::new("table", error, "one that JSON can hold"))?;
        self.add(LOOKUP_TABLE, table + "\n");
        Ok(())
    }

    /// Adds the file that a server's log says is missing. `named` is the model that is served, if the user says it.
    pub fn add_missing(
        &mut self,
        model: &Model,
        mention: &Mention,
        named: Option<(&str, &Architecture)>,
    ) -> Result<(), FilesError> {
        let consumer = mention.consumer;
        match &mention.name {
            FileName::Experts(key) => {
                let layer = layer_of(key, consumer, named).map_err(FilesError::NoneRead)?;
                let folder = consumer.folder(mention.triton.as_deref().unwrap_or(consumer.triton()));
                let path = |down| format!("{folder}{}", FileKey { down, ..key.clone() }.name(consumer));
                self.experts(model, &layer, consumer, &[path(false), path(true)])
            }
            FileName::Dense(key) if key.word == DtypeWord::Fp8W8A8 && key.block == Some([128, 128]) => {
                let layer = DenseLayer::of_sizes(key.n, key.k);
                self.dense(model, &layer, consumer, &[key.name(consumer)])
            }
            _ => Err(FilesError::NoneRead("no kernel of this kind is known here".to_owned())),
        }
    }

    fn layer(&mut self, name: String, path: &str, tuned: Tuned) {
        self.caveats.extend(tuned.caveat.clone());
        self.layers.push(TunedLayer { name, path: path.to_owned(), tuned });
    }

    fn add(&mut self, path: &str, text: String) {
        self.files.push(File { path: path.to_owned(), text });
    }

    fn has(&self, path: &str) -> bool {
        self.files.iter().any(|known| known.path == path)
    }
}

/// Why a server reads no file for a model that is served so.
fn none_read(consumer: Consumer, serving: &Serving) -> String {
    match consumer {
        Consumer::Sglang if serving.quantization != Quantization::Fp8Block => format!(
            "SGLang reads files for a model without experts only in fp8-block, not in {}",
            serving.quantization
        ),
        _ => format!(
            "{} reads no files for the layers of this model; torch.compile reads a table of them",
            consumer.title()
        ),
    }
}

/// The layer that looks for a file: the named model's, or that of the only model of the catalogue that does.
fn layer_of(
    key: &FileKey,
    consumer: Consumer,
    named: Option<(&str, &Architecture)>,
) -> Result<ExpertsLayer, String> {
    if let Some((name, architecture)) = named {
        let found = architecture.serving_for(key, consumer);
        return found.map(|(_, layer)| layer).ok_or_else(|| format!("{name} does not look for it"));
    }
    let mut found: Vec<User> = Vec::new();
    for user in users(key, consumer) {
        if !found.iter().any(|known| known.layer.problems(64) == user.layer.problems(64)) {
            found.push(user);
        }
    }
    match &found[..] {
        [] => Err("no model of the catalogue looks for it".to_owned()),
        [user] => Ok(user.layer.clone()),
        several => {
            let names: Vec<&str> = several.iter().map(|user| user.model).collect();
            Err(format!("{} look for it", names.join(" and ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;
    use crate::file_check::{Judged, Reader as For, check_file};
    use crate::server_log::Log;

    fn model() -> Model {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"
        );
        Model::from_bytes(&std::fs::read(path).unwrap()).unwrap()
    }

    fn files(
        name: &str,
        tensor_parallel: u64,
        quantization: Quantization,
        reader: Reader,
    ) -> Result<Files, FilesError> {
        let serving = Serving { tensor_parallel, expert_parallel: 1, quantization };
        Files::of(&model(), &find(name).unwrap().architecture().unwrap(), &serving, reader)
    }

    #[test]
    fn names_and_variables_are_those_that_readers_look_for() {
        let block = Quantization::Fp8Block;
        let vllm = files("Qwen3-235B-A22B", 4, block, Reader::Vllm).unwrap();
        let paths = |files: &Files| files.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        let name = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        assert_eq!((paths(&vllm), vllm.variable), (vec![name.to_owned()], Some("VLLM_TUNED_CONFIG_FOLDER")));
        assert_eq!(vllm.layers[0].tuned.choices.len(), BATCH_SIZES.len());

        let sglang = files("Qwen3-235B-A22B", 4, block, Reader::Sglang).unwrap();
        let [up, down] = &paths(&sglang)[..] else { panic!("{sglang:?}") };
        assert!(
            down.starts_with("configs/triton_3_8_0/E=128,N=384") && down.ends_with("_down.json"),
            "{down}"
        );
        assert_eq!(up.as_str(), down.replace("_down", ""));
        assert_eq!(sglang.variable, Some("SGLANG_MOE_CONFIG_DIR"));

        let dense = files("Llama-3.1-8B", 1, block, Reader::Sglang).unwrap();
        assert_eq!(dense.files.len(), 4, "{:?}", paths(&dense));
        assert!(dense.notes.iter().any(|note| note.contains("no variable names")), "{:?}", dense.notes);

        let table = files("Llama-3.1-8B", 1, Quantization::Bf16, Reader::Inductor).unwrap();
        assert_eq!(paths(&table), ["lookup.json"]);
        assert!(table.files[0].text.contains("NVIDIA H200+((torch."), "{:.300}", table.files[0].text);
    }

    #[test]
    fn what_nothing_reads_is_refused_with_the_reason() {
        for (quantization, reader, said) in [
            (Quantization::Fp8Block, Reader::Vllm, "vLLM reads no files for the layers of this model"),
            (Quantization::Bf16, Reader::Sglang, "only in fp8-block, not in bf16"),
            (Quantization::Fp8Block, Reader::Inductor, "got fp8-block for inductor, expected bf16"),
        ] {
            let error = files("Llama-3.1-8B", 1, quantization, reader).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
        let error = files("Qwen3-235B-A22B", 7, Quantization::Bf16, Reader::Vllm).unwrap_err().to_string();
        assert_eq!(error, "attention heads: got 64, expected a multiple of 7 (tensor parallelism)");
    }

    #[test]
    fn a_log_gets_the_files_that_it_lacks() {
        let at = "Using default MoE config. Performance might be sub-optimal! Config file not found at";
        let name = "E=8,N=14336,device_name=NVIDIA_H200.json";
        let shared = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
        let unknown = "E=3,N=5,device_name=NVIDIA_H200.json";
        let log = Log::read(&[name, shared, unknown].map(|name| format!("{at} /v/{name}\n")).concat());
        let (model, mut files) = (model(), Files::default());
        let mut add = |mention: &Mention, named| {
            files.add_missing(&model, mention, named).map_err(|error| error.to_string())
        };
        let missing: Vec<_> = log.missing().collect();
        assert_eq!(add(missing[0], None), Ok(()));
        let said = add(missing[1], None).unwrap_err();
        assert!(said.contains("Qwen3-30B-A3B and") && said.ends_with("look for it"), "{said}");
        assert_eq!(add(missing[2], None).unwrap_err(), "no model of the catalogue looks for it");
        let qwen = find("Qwen3-30B-A3B").unwrap().architecture().unwrap();
        let named = Some(("Qwen3-30B-A3B", &qwen));
        assert_eq!(add(missing[1], named), Ok(()));
        assert_eq!(add(missing[2], named).unwrap_err(), "Qwen3-30B-A3B does not look for it");
        assert_eq!(files.files.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), [name, shared]);
        let hardware = Some(&model.metadata().hardware);
        let findings = check_file(
            Judged { path: name, text: &files.files[0].text },
            For { consumer: Consumer::Vllm, hardware },
        );
        assert!(findings.is_empty(), "{findings:?}");
    }
}
