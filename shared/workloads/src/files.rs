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
use crate::named::Named;
use crate::served::{LOOKUP_TABLE, Layer, Reader, ServedLayer};
use crate::server_log::{Log, Mention};
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

/// Why there is no file.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("{0}")]
    NoneRead(String),
    #[error("no model of the catalogue looks for it")]
    Unknown,
    #[error("{} look for it", .0.join(" and "))]
    Several(Vec<&'static str>),
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
        for ServedLayer { layer, files: paths, .. } in &layers {
            if files.lacks(paths) {
                files.add(layer, paths, consumer, Tuned::of(model, layer, consumer)?);
            }
        }
        if files.files.is_empty() {
            return Err(FilesError::NoneRead(none_read(consumer, serving)));
        }
        Ok(files)
    }

    /// The files that a server's log says are missing: of the named model, or of the one that the log tells, or of the only
    /// one of the catalogue that looks for them. Names of those that cannot be made come with the reason.
    pub fn of_log(model: &Model, log: &Log, named: Option<&Named>) -> (Self, Vec<(String, FilesError)>) {
        let told = log.told().filter(|_| named.is_none());
        let (mut files, mut left) = (Self::default(), Vec::new());
        for mention in log.missing() {
            if let Err(error) = files.add_missing(model, mention, named, told.as_ref()) {
                left.push((mention.name.name(mention.consumer), error));
            }
        }
        if let Some(told) = &told {
            let split = log.tensor_parallel.map_or_else(String::new, |tp| format!(", TP {tp}"));
            files.notes.insert(format!("the log is of {}{split}", told.name));
        }
        if log.reads_no_files() {
            let note = "the log says that the server chose another kernel, which reads no files";
            files.notes.insert(note.to_owned());
        }
        (files, left)
    }

    /// Adds a file that a server did not find.
    fn add_missing(
        &mut self,
        model: &Model,
        mention: &Mention,
        named: Option<&Named>,
        told: Option<&Named>,
    ) -> Result<(), FilesError> {
        let consumer = mention.consumer;
        let (layer, paths) = match &mention.name {
            FileName::Experts(key) => {
                let folder = consumer.folder(mention.triton.as_deref().unwrap_or(consumer.triton()));
                let path = |down| format!("{folder}{}", FileKey { down, ..key.clone() }.name(consumer));
                let layer = layer_of(key, consumer, named, told)?;
                (Layer::Experts(layer), vec![path(false), path(true)])
            }
            FileName::Dense(key) if key.word == DtypeWord::Fp8W8A8 && key.block == Some([128, 128]) => {
                (Layer::Dense(DenseLayer::of_sizes(key.n, key.k)), vec![key.name(consumer)])
            }
            _ => return Err(FilesError::NoneRead("no kernel of this kind is known here".to_owned())),
        };
        // A log names the files of both multiplications.
        if self.lacks(&paths) {
            self.add(&layer, &paths, consumer, Tuned::of(model, &layer, consumer)?);
        }
        Ok(())
    }

    /// Adds the files of a layer, and what to do with them. Experts have a second file if their second multiplication has
    /// configs of its own.
    pub fn add(&mut self, layer: &Layer, paths: &[String], consumer: Consumer, tuned: Tuned) {
        let bodies = [Some(tuned.body()), tuned.down_body()];
        for (path, body) in paths.iter().zip(bodies.into_iter().flatten()) {
            self.files.push(File { path: path.clone(), text: body.to_text() });
        }
        let name = match layer {
            Layer::Experts(ExpertsLayer { experts, n, top_k, hidden, .. }) => {
                self.variable = Some(consumer.variable());
                if consumer == Consumer::Sglang {
                    self.notes.insert(format!(
                        "the variable replaces SGLang's own files: copy those that you need from {} into configs",
                        consumer.experts_folder()
                    ));
                }
                format!("{experts} experts of {n}, top {top_k}, hidden size {hidden}")
            }
            Layer::Dense(layer) => {
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
                format!("{}: {}×{}", layer.name, layer.n, layer.k)
            }
        };
        self.caveats.extend(tuned.caveat.clone());
        self.layers.push(TunedLayer { name, path: paths.first().cloned().unwrap_or_default(), tuned });
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
        self.files.push(File { path: LOOKUP_TABLE.to_owned(), text: table + "\n" });
        Ok(())
    }

    /// Whether a layer has a file that is not there yet.
    fn lacks(&self, paths: &[String]) -> bool {
        paths.first().is_some_and(|path| self.files.iter().all(|known| known.path != *path))
    }
}

/// Why a server reads no file for a model that is served so.
pub fn none_read(consumer: Consumer, serving: &Serving) -> String {
    match consumer {
        Consumer::Sglang if serving.quantization != Quantization::Fp8Block => format!(
            "got a model without experts in {}, expected fp8-block, which is what SGLang reads files for",
            serving.quantization
        ),
        _ => format!(
            "got a model without experts, expected one with them: {} reads no files for dense layers on CUDA",
            consumer.title()
        ),
    }
}

/// The layer that looks for a file.
fn layer_of(
    key: &FileKey,
    consumer: Consumer,
    named: Option<&Named>,
    told: Option<&Named>,
) -> Result<ExpertsLayer, FilesError> {
    let of = |named: &Named| named.architecture.serving_for(key, consumer).map(|(_, layer)| layer);
    if let Some(named) = named {
        let other = || FilesError::NoneRead(format!("{} does not look for it", named.name));
        return of(named).ok_or_else(other);
    }
    // A server may load a second model, which drafts.
    if let Some(layer) = told.and_then(of) {
        return Ok(layer);
    }
    let mut found: Vec<User<'_>> = Vec::new();
    for user in users(key, consumer) {
        if !found.iter().any(|known| known.layer.problems(64) == user.layer.problems(64)) {
            found.push(user);
        }
    }
    match &found[..] {
        [] => Err(FilesError::Unknown),
        [user] => Ok(user.layer.clone()),
        several => Err(FilesError::Several(several.iter().map(|user| user.model).collect())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalogue::find;
    use crate::file_check::{Judged, Reader as For, check_file};

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
            (
                Quantization::Fp8Block,
                Reader::Vllm,
                "expected one with them: vLLM reads no files for dense layers",
            ),
            (Quantization::Bf16, Reader::Sglang, "got a model without experts in bf16, expected fp8-block"),
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
        let text = [name, shared, unknown].map(|name| format!("{at} /v/{name}\n")).concat();
        let log = Log::read(&text);
        let model = model();
        let paths = |files: &Files| files.files.iter().map(|file| file.path.clone()).collect::<Vec<_>>();
        let reasons = |left: Vec<(String, FilesError)>| -> Vec<String> {
            left.into_iter().map(|(name, error)| format!("{name}: {error}")).collect()
        };
        let (files, left) = Files::of_log(&model, &log, None);
        assert_eq!(paths(&files), [name]);
        let [several, none] = &reasons(left)[..] else { panic!("two files are left") };
        assert!(several.contains("Qwen3-30B-A3B and") && several.ends_with("look for it"), "{several}");
        assert_eq!(*none, format!("{unknown}: no model of the catalogue looks for it"));

        let (of_named, left) = Files::of_log(&model, &log, Named::find("Qwen3-30B-A3B").as_ref());
        assert_eq!(paths(&of_named), [shared]);
        assert!(reasons(left).iter().all(|why| why.ends_with("Qwen3-30B-A3B does not look for it")));

        // What the log tells decides where several models look for a file, and nothing else.
        let told = Log::read(&format!("model='Qwen/Qwen3-30B-A3B-FP8', tensor_parallel_size=1\n{text}"));
        let (of_told, left) = Files::of_log(&model, &told, None);
        assert_eq!((paths(&of_told), left.len()), (vec![name.to_owned(), shared.to_owned()], 1));
        assert!(of_told.notes.contains("the log is of Qwen3-30B-A3B, TP 1"), "{:?}", of_told.notes);
        let hardware = Some(&model.metadata().hardware);
        let findings = check_file(
            Judged { path: name, text: &files.files[0].text },
            For { consumer: Consumer::Vllm, hardware },
        );
        assert!(findings.is_empty(), "{findings:?}");
    }
}
