//! The model in `trained_models` and the data it says it comes from.

use std::path::{Path, PathBuf};

use diode_core::ids::Digest;
use diode_core::{Config, Dataset, Method};
use diode_formats::read_file;
use diode_model::{Model, rank};
use diode_train::{TrainingSet, evaluate};

fn h200(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../trained_models/matmul/nvidia-h200").join(file)
}

const DATA: [&str; 16] = [
    "addmm-bf16",
    "addmm-bf16-matrix",
    "addmm-bf16-matrix-more",
    "addmm-fp16",
    "addmm-fp16-more",
    "addmm-vector-more",
    "mm-bf16",
    "mm-bf16-nn",
    "mm-bf16-nn-more",
    "mm-bf16-nt",
    "mm-bf16-nt-more",
    "mm-bf16-remeasured",
    "mm-bf16-unaligned",
    "mm-fp16",
    "mm-fp32",
    "mm-fp32-more",
];

fn read(files: &[String]) -> Vec<Dataset> {
    files
        .iter()
        .flat_map(|file| read_file(&h200(file)).expect("shipped files are readable").datasets)
        .collect()
}

#[test]
fn the_shipped_model_is_what_its_card_says() {
    let bytes = std::fs::read(h200("matmul-nvidia-h200.safetensors")).unwrap();
    assert!(bytes.len() <= 64 * 1024, "{} bytes", bytes.len());
    let model = Model::from_bytes(&bytes).unwrap();
    assert!(model.knows_library());
    let data = read(&DATA.map(|name| format!("data/h200-{name}.msgpack.zst")));
    let set = TrainingSet::from_datasets(&data, None).unwrap();
    assert_eq!((set.problems(), set.timings(), set.others().len()), (1340, 1_777_938, 209));
    assert_eq!(model.metadata().second_method, Some(Method::Unspecified));
    assert_eq!(model.metadata().training.data_digest, set.digest(), "trained on other data than is shipped");

    let held_out = model.metadata().evaluation.as_ref().expect("a shipped model states its quality");
    assert!(held_out.top_k["1"].geomean >= 0.97 && held_out.top_k["5"].geomean >= 0.994, "{held_out:?}");
}

#[test]
fn the_shipped_model_holds_on_the_validation_problems() {
    let model = Model::from_bytes(&std::fs::read(h200("matmul-nvidia-h200.safetensors")).unwrap()).unwrap();
    let set =
        TrainingSet::from_datasets(&read(&["data/validation/h200-mm-bf16-nn.msgpack.zst".to_owned()]), None)
            .unwrap();
    assert_eq!(set.problems(), 55);
    let report = evaluate(&model, &set).unwrap();
    assert!(report.top_k["1"].geomean >= 0.975 && report.top_k["5"].geomean >= 0.994, "{report:?}");
    assert!(report.mape_within_2x <= 0.09, "{report:?}");

    // Of everything, with nothing timed: the pick may be the library.
    let mut logs = 0.0;
    for problem in set.iter() {
        let library_us = problem.library_us.expect("the library was timed on every problem");
        let ranked = rank(&model, &problem.problem, &model.space()).unwrap();
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
    let share = (logs / set.problems() as f64).exp();
    assert!(share >= 0.975, "{share}");
}

#[test]
fn the_manifest_lists_every_file_as_it_is() {
    let manifest: serde_json::Value =
        serde_json::from_slice(&std::fs::read(h200("manifest.json")).unwrap()).unwrap();
    let mut listed = Vec::new();
    for entry in manifest["files"].as_array().unwrap() {
        let file = entry["file"].as_str().unwrap();
        let bytes = std::fs::read(h200(file)).unwrap();
        assert_eq!(entry["bytes"], bytes.len(), "{file}");
        assert_eq!(entry["sha256"], Digest::of(&bytes).to_string(), "{file}");
        listed.push(h200(file));
    }
    let mut there = vec![h200("matmul-nvidia-h200.safetensors")];
    for folder in ["data", "data/validation"] {
        let files = std::fs::read_dir(h200(folder))
            .unwrap()
            .map(|entry| h200(folder).join(entry.unwrap().file_name()));
        there.extend(files.filter(|path| path.extension().is_some_and(|extension| extension == "zst")));
    }
    listed.sort();
    there.sort();
    assert_eq!(listed, there);
    let model = Model::from_bytes(&std::fs::read(&there[there.len() - 1]).unwrap()).unwrap();
    assert_eq!(manifest["hardware"], model.metadata().hardware.slug.as_str());
    assert_eq!(manifest["feature_set"], model.metadata().feature_set.as_str());
    assert_eq!(manifest["created_at"], model.metadata().training.created_at.as_str());
}
