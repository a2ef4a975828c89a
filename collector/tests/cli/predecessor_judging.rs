//! torch-diode's commands that judge a model, and its command that also collects timings and trains
//! the model.

use serde_json::{Value, json};

use crate::predecessor::SMALL;
use crate::predecessor_models::H200;
use crate::sandbox::{Sandbox, content, stderr};

/// Reference configs as torch-diode writes them. Their names and their types of sums differ from
/// the measured configs.
const SOLUTION: &str = r#"{"config": [
    {"name": "triton_mm", "grid": 1, "block_m": 64, "block_n": 64, "block_k": 64, "group_m": 8,
     "num_stages": 1, "num_warps": 1, "ACC_TYPE": "tl.float16", "version": 1},
    {"name": "triton_mm", "grid": 1, "block_m": 16, "block_n": 16, "block_k": 16, "group_m": 8,
     "num_stages": 1, "num_warps": 1, "ACC_TYPE": "tl.float16", "version": 1}]}"#;

#[test]
fn one_command_collects_trains_and_judges() {
    let sandbox = Sandbox::new();
    let line = ["collect-and-train", "--num-shapes", "6", "--validation-shapes", "3", "--operations", "mm"];
    let quick = ["--num-epochs", "1", "--folds", "0", "--batch-size", "64", "--log-dir", "logs"];
    let line = [&["--seed", "7"], &line[..], &SMALL, &quick].concat();
    let output = sandbox.run(&line);
    let (said, printed) = (stderr(&output), String::from_utf8_lossy(&output.stdout).into_owned());
    assert!(output.status.success(), "{said}");
    assert!(said.contains("--batch-size changes nothing"), "{said}");
    assert!(printed.contains("RMSE (exp)") && printed.contains("Worst predictions"), "{printed}");
    let (trained, held_out) =
        (sandbox.dataset("matmul_dataset.json"), sandbox.dataset("matmul_validation_dataset.json"));
    assert_eq!((trained.solutions.len(), held_out.solutions.len()), (6, 3));
    let is_new = |solution: &diode_core::Solution| {
        trained.solutions.iter().all(|known| known.problem != solution.problem)
    };
    assert!(held_out.solutions.iter().all(is_new));
    let history = String::from_utf8(content(&sandbox.path("logs/training_history.csv"))).unwrap();
    assert!(history.starts_with("phase,epoch,loss\nfinal,1,"), "{history:.100}");
    assert_eq!(history.lines().count(), 2, "one epoch, as asked: {history:.100}");

    assert!(sandbox.fails(1, &line).contains("matmul_model.safetensors exists"));
    let more = ["--force", "--skip-collection", "--skip-training"];
    sandbox.ok(&[&line[..], &more].concat());

    judge(&sandbox);
    compare(&sandbox);
    filter(&sandbox);
}

fn judge(sandbox: &Sandbox) {
    let validate = ["validate-model", "--model", "matmul_model.safetensors", "--dataset"];
    let line = [&validate[..], &["matmul_validation_dataset.json", "--top-n-worst", "2", "--json"]].concat();
    let report: Value = serde_json::from_str(&sandbox.ok(&line)).unwrap();
    assert_eq!((&report["problems"], report["worst_predictions"].as_array().unwrap().len()), (&3.into(), 2));
    let (mse, rmse) = (report["mse"].as_f64().unwrap(), report["rmse"].as_f64().unwrap());
    assert!(mse > 0.0 && (mse.sqrt() - rmse).abs() < 1e-12, "{mse} {rmse}");
    let worst = &report["worst_predictions"][0];
    let number = |key: &str| worst[key].as_f64().unwrap();
    assert!((number("predicted_us") / number("measured_us") - number("ratio")).abs() < 1e-9);
    assert!((number("ratio").ln() - number("log_error")).abs() < 1e-9);

    let itself = sandbox.run(&[&validate[..], &["matmul_dataset.json", "--batch-size", "64"]].concat());
    assert!(stderr(&itself).contains("trained on these very problems"), "{}", stderr(&itself));
    assert!(stderr(&itself).contains("--batch-size changes nothing"), "{}", stderr(&itself));
}

fn compare(sandbox: &Sandbox) {
    sandbox.write("reference.json", SOLUTION);
    let line = [
        "validate-max-autotune",
        "--model",
        "matmul_model.safetensors",
        "--dataset",
        "matmul_validation_dataset.json",
        "--max-autotune-solution",
        "reference.json",
    ];
    sandbox.ok(&line);
    let written = content(&sandbox.path("model_performance_analysis_by_op.json"));
    sandbox.ok(&[&line[..], &["--output", "again.json"]].concat());
    assert_eq!(content(&sandbox.path("again.json")), written, "the same files give the same report");
    let report: Value = serde_json::from_slice(&written).unwrap();
    for top in [1, 5, 10, 20, 50, 100, 500] {
        let summary = &report["per_op"]["mm"][format!("top_{top}")];
        assert_eq!((&summary["top_n"], &summary["shapes_analyzed"]), (&top.into(), &3.into()));
    }
    // 500 picks include every config, so the best reference config cannot be faster.
    let worst = &report["overall"]["top_500"]["overall_metrics"]["worst_case"];
    assert!(worst.as_f64().unwrap() >= 1.0, "{worst}");
    assert_eq!(report["metadata"]["ops_present"], json!(["mm"]));

    sandbox
        .write("other.json", &SOLUTION.replace("\"block_m\": 64", "\"block_m\": 256").replace("16,", "256,"));
    let mut other = line;
    other[6] = "other.json";
    assert!(sandbox.fails(1, &other).contains("none of its 2 configs is among the timings"));

    let evaluate =
        ["evaluate", "--model", "matmul_model.safetensors", "--dataset", "matmul_validation_dataset.json"];
    let line = [&evaluate[..], &["--max-autotune-solution", "reference.json", "--json"]].concat();
    let evaluation: Value = serde_json::from_str(&sandbox.ok(&line)).unwrap();
    assert_eq!(evaluation["max_autotune"]["overall"], report["overall"]);
}

fn filter(sandbox: &Sandbox) {
    let train = ["train", "--dataset", "matmul_dataset.json", "--model", "x.safetensors", "--folds", "0"];
    let with = |more: &[&str]| sandbox.fails(1, &[&train[..], more].concat());
    let error = with(&["--op-name", "bmm"]);
    assert!(error.contains("--op: got bmm, expected what there are timings of: mm"), "{error}");
    let error = with(&["--hardware-name", "NVIDIA H100"]);
    assert!(error.contains("--hardware: got nvidia-h100") && error.contains("cpu-"), "{error}");
    let folder = ["train", "--data-dir", ".", "--file-extensions", "msgpack", "--model", "x.safetensors"];
    assert!(sandbox.fails(1, &folder).contains("no dataset in this folder, expected .msgpack"));
}

#[test]
fn the_shipped_model_is_validated_on_all_rows() {
    let (model, data) =
        (format!("{H200}/matmul-nvidia-h200.safetensors"), format!("{H200}/data/h200-mm-bf16.msgpack.zst"));
    let line = ["validate-model", "--model", &model, "--dataset", &data, "--top-n-worst", "1", "--json"];
    let report: Value = serde_json::from_str(&Sandbox::new().ok(&line)).unwrap();
    assert_eq!((&report["problems"], &report["timings"]), (&209.into(), &320_606.into()));
    let rmse = report["rmse"].as_f64().unwrap();
    assert!(rmse > 0.0 && rmse < 0.5, "{rmse}");
    assert!(report["worst_predictions"][0]["log_error"].as_f64().unwrap().abs() > rmse, "{report}");
    assert!(report["top_k"]["1"]["geomean"].as_f64().unwrap() > 0.95, "{report}");
}

#[test]
fn both_forms_of_the_old_solution_compare_alike() {
    let Some(folder) = std::env::var_os("DIODE_COMPAT_DIR") else {
        println!("not asked to run: DIODE_COMPAT_DIR names no folder");
        return;
    };
    let sandbox = Sandbox::new();
    let (model, data) =
        (format!("{H200}/matmul-nvidia-h200.safetensors"), format!("{H200}/data/h200-mm-bf16.msgpack.zst"));
    let compare = |solution: &str| -> Value {
        let solution = std::path::Path::new(&folder).join(solution).display().to_string();
        let line = [
            "validate-max-autotune",
            "--model",
            &model,
            "--dataset",
            &data,
            "--max-autotune-solution",
            &solution,
        ];
        sandbox.ok(&line);
        serde_json::from_slice(&content(&sandbox.path("model_performance_analysis_by_op.json"))).unwrap()
    };
    let (json, csv) = (compare("max_autotune.json"), compare("max_autotune_shapes.csv"));
    assert_eq!((&json["per_op"], &json["overall"]), (&csv["per_op"], &csv["overall"]));
    let first = &json["overall"]["top_1"];
    assert_eq!(first["shapes_analyzed"], 209);
    let breakdown = &first["performance_breakdown"];
    let counts =
        ["model_better", "model_equal", "model_worse"].map(|part| breakdown[part]["count"].as_u64().unwrap());
    assert_eq!(counts.iter().sum::<u64>(), 209);
    assert!(counts[0] > counts[2], "one pick of the model against nineteen configs: {counts:?}");
}

#[test]
fn models_that_come_with_diode_are_compared_by_their_names() {
    let sandbox = Sandbox::new();
    sandbox.write("s.json", SOLUTION);
    sandbox.write("d.json", &crate::tables::old_dataset("NVIDIA H200"));
    let line = ["validate-max-autotune", "--model", "NVIDIA-H200-matmul", "--data", "d.json"];
    let more = ["--max-autotune-solution", "s.json"];
    assert!(sandbox.fails(1, &[&line[..], &more].concat()).contains("none of its 2 configs"));
    sandbox.write(
        "s.json",
        &SOLUTION
            .replace("\"block_k\": 64", "\"block_k\": 32")
            .replace("\"num_stages\": 1, \"num_warps\": 1", "\"num_stages\": 3, \"num_warps\": 4"),
    );
    sandbox.ok(&[&line[..], &more].concat());
    let report: Value =
        serde_json::from_slice(&content(&sandbox.path("model_performance_analysis_by_op.json"))).unwrap();
    assert_eq!(report["metadata"]["model_id"].as_str().unwrap().len(), 16);
}
