//! The model in `trained_models` and the data it says it comes from.

use std::path::{Path, PathBuf};

use diode_formats::read_file;
use diode_model::Model;
use diode_train::{TrainingSet, evaluate};

fn h200(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../trained_models/matmul/nvidia-h200").join(file)
}

#[test]
fn the_shipped_model_is_what_its_card_says() {
    let model = Model::from_bytes(&std::fs::read(h200("matmul-nvidia-h200.safetensors")).unwrap()).unwrap();
    let data = read_file(&h200("data/h200-mm-bf16.msgpack.zst")).unwrap();
    let set = TrainingSet::from_datasets(&data.datasets, None).unwrap();
    assert_eq!((set.problems(), set.timings()), (209, 320_606));
    assert_eq!(model.metadata().training.data_digest, set.digest(), "trained on other data than is shipped");

    let held_out = model.metadata().evaluation.as_ref().expect("a shipped model states its quality");
    assert!(held_out.top_k["1"].geomean >= 0.965 && held_out.top_k["5"].geomean >= 0.99, "{held_out:?}");

    // On what it has seen it must do at least as well, or the file is not what was evaluated.
    let seen = evaluate(&model, &set).unwrap();
    assert!(seen.top_k["1"].geomean >= held_out.top_k["1"].geomean, "{seen:?}");
    assert!(seen.top_k["5"].geomean >= held_out.top_k["5"].geomean, "{seen:?}");
}
