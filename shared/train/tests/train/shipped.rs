//! The models in `trained_models`, and the data that they state as their training data.

use std::path::{Path, PathBuf};

use diode_core::ids::Digest;
use diode_core::{Config, Dataset, Method};
use diode_formats::read_file;
use diode_model::{Model, UnseenModels, rank};
use diode_train::{TrainingSet, evaluate};

/// One hardware, and what its model was trained on.
struct Shipped {
    hardware: &'static str,
    /// The folders with the timings that the model learnt from.
    learnt_from: &'static [&'static str],
    problems: usize,
    timings: usize,
    /// The number of problems by the second method, and that method.
    others: usize,
    second_method: Option<Method>,
    /// A file for judging the model, and its number of problems.
    validation: (&'static str, usize),
}

const SHIPPED: [Shipped; 2] = [
    Shipped {
        hardware: "nvidia-h200",
        learnt_from: &["data", "data/further", "data/later", "data/extra", "data/wide"],
        problems: 8749,
        timings: 3_052_219,
        others: 209,
        second_method: Some(Method::Unspecified),
        validation: ("h200-mm-bf16-nn", 55),
    },
    Shipped {
        hardware: "nvidia-h100",
        learnt_from: &["data", "data/further", "data/later", "data/extra"],
        problems: 6338,
        timings: 1_252_995,
        others: 0,
        second_method: None,
        validation: ("h100-mm-bf16-nn", 60),
    },
];

impl Shipped {
    fn file(&self, file: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../trained_models/matmul")
            .join(self.hardware)
            .join(file)
    }

    fn model(&self) -> (Vec<u8>, Model) {
        let bytes = std::fs::read(self.file(&format!("matmul-{}.safetensors", self.hardware)))
            .expect("the model is there");
        let model = Model::from_bytes(&bytes).expect("a shipped model is readable");
        (bytes, model)
    }

    fn training(&self) -> Vec<PathBuf> {
        self.learnt_from.iter().flat_map(|folder| self.datasets(folder)).collect()
    }

    fn datasets(&self, folder: &str) -> Vec<PathBuf> {
        let files = std::fs::read_dir(self.file(folder))
            .expect("the folder is there")
            .map(|entry| entry.expect("its entries are readable").path());
        let mut files: Vec<PathBuf> =
            files.filter(|path| path.extension().is_some_and(|extension| extension == "zst")).collect();
        files.sort();
        files
    }
}

fn read(files: &[PathBuf]) -> Vec<Dataset> {
    files.iter().flat_map(|file| read_file(file).expect("shipped files are readable").datasets).collect()
}

#[test]
fn each_model_is_what_its_card_says() {
    for shipped in &SHIPPED {
        let (bytes, model) = shipped.model();
        // Five networks with values of tiles, and two for the library; 120 kB for scaled, grouped and experts problems.
        assert!(bytes.len() <= 700 * 1024, "{} bytes", bytes.len());
        assert!(model.knows_library(false));
        let set = TrainingSet::from_datasets(&read(&shipped.training()), None).unwrap();
        let there = (set.problems(), set.timings(), set.others().len());
        assert_eq!(there, (shipped.problems, shipped.timings, shipped.others), "{}", shipped.hardware);
        assert_eq!(model.metadata().second_method, shipped.second_method);
        assert_eq!(
            model.metadata().training.data_digest,
            set.digest(),
            "{}: trained on other data than is shipped",
            shipped.hardware
        );

        // These models' files were made before they stated the sizes.
        let sizes: Vec<u8> = set.sizes().iter().flat_map(|size| size.to_le_bytes()).collect();
        let file = shipped.file(&format!("matmul-{}.sizes", shipped.hardware));
        assert!(std::fs::read(&file).unwrap() == sizes, "{}: not those of the training data", file.display());

        let held_out = model.metadata().evaluation.as_ref().expect("a shipped model states its quality");
        assert!(held_out.top_k["1"].geomean >= 0.97 && held_out.top_k["5"].geomean >= 0.994, "{held_out:?}");
    }
}

#[test]
fn each_learnt_problem_has_a_model_that_has_not_seen_it() {
    for shipped in &SHIPPED {
        let (_, model) = shipped.model();
        let file = shipped.file(&format!("matmul-{}.unseen", shipped.hardware));
        let unseen = UnseenModels::from_bytes(&std::fs::read(file).unwrap()).unwrap();
        let set = TrainingSet::from_datasets(&read(&shipped.training()), None).unwrap();
        let mut files: Vec<&[u8]> = set
            .iter()
            .chain(set.others())
            .map(|learnt| unseen.for_problem(&learnt.problem).expect("each learnt problem has one"))
            .collect();
        files.sort_unstable();
        files.dedup();
        assert_eq!(files.len(), 4, "{}", shipped.hardware);
        for other in files.into_iter().map(|file| Model::from_bytes(file).unwrap()) {
            assert_ne!(other.network(), model.network());
            assert_eq!(other.metadata().training.data_digest, model.metadata().training.data_digest);
        }
        let (name, _) = shipped.validation;
        let file = shipped.file(&format!("data/validation/{name}.msgpack.zst"));
        let set = TrainingSet::from_datasets(&read(&[file]), None).unwrap();
        assert!(set.iter().all(|judged| unseen.for_problem(&judged.problem).is_none()));
    }
}

#[test]
fn each_model_holds_on_the_validation_problems() {
    for shipped in &SHIPPED {
        let (_, model) = shipped.model();
        let (name, problems) = shipped.validation;
        let file = shipped.file(&format!("data/validation/{name}.msgpack.zst"));
        let set = TrainingSet::from_datasets(&read(&[file]), None).unwrap();
        assert_eq!(set.problems(), problems, "{}", shipped.hardware);
        let report = evaluate(&model, &set).unwrap();
        assert!(report.top_k["1"].geomean >= 0.975 && report.top_k["5"].geomean >= 0.994, "{report:?}");
        assert!(report.mape_within_2x <= 0.09, "{report:?}");
        let share = share_of_everything(&model, &set);
        assert!(share >= 0.975, "{}: {share}", shipped.hardware);
    }
}

/// The share of the best of everything that the first pick reaches without any timing. The pick may
/// be the library.
fn share_of_everything(model: &Model, set: &TrainingSet) -> f64 {
    let mut logs = 0.0;
    for problem in set.iter() {
        let library_us = problem.library_us.expect("the library was timed on every problem");
        let ranked = rank(model, &problem.problem, &model.space()).expect("a shipped model ranks");
        let (config, _) = ranked.picks(1)[0];
        let mut configs = set.configs(problem).zip(&problem.timings);
        let taken = match configs.find(|(known, _)| **known == config) {
            Some((_, timed)) => timed.us,
            None => {
                assert_eq!(config, Config::Library);
                library_us
            }
        };
        logs += (problem.timings[0].us.min(library_us) / taken).ln();
    }
    (logs / set.problems() as f64).exp()
}

#[test]
fn each_manifest_lists_every_file_as_it_is() {
    for shipped in &SHIPPED {
        let manifest: serde_json::Value =
            serde_json::from_slice(&std::fs::read(shipped.file("manifest.json")).unwrap()).unwrap();
        let mut listed = Vec::new();
        for entry in manifest["files"].as_array().unwrap() {
            let file = entry["file"].as_str().unwrap();
            let bytes = std::fs::read(shipped.file(file)).unwrap();
            assert_eq!(entry["bytes"], bytes.len(), "{file}");
            assert_eq!(entry["sha256"], Digest::of(&bytes).to_string(), "{file}");
            listed.push(shipped.file(file));
        }
        let mut there = shipped.training();
        there.extend(shipped.datasets("data/validation"));
        for ending in ["safetensors", "unseen"] {
            there.push(shipped.file(&format!("matmul-{}.{ending}", shipped.hardware)));
        }
        listed.sort();
        there.sort();
        assert_eq!(listed, there);
        let (_, model) = shipped.model();
        assert_eq!(manifest["hardware"], model.metadata().hardware.slug.as_str());
        assert_eq!(manifest["feature_set"], model.metadata().feature_set.as_str());
        assert_eq!(manifest["created_at"], model.metadata().training.created_at.as_str());
    }
}
