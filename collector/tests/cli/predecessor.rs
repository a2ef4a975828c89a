//! The commands of torch-diode's toolkit, with its flags.

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, content, stderr};
use diode_core::Method;

/// Small and quick on any CPU; every size is above 64, so that no block is clipped to the problem.
const SMALL: [&str; 6] = ["--min-size", "65", "--max-size", "100", "--dtypes", "fp32"];

/// The commands of torch-diode's toolkit with all of their flags.
const COMMAND_LINES: [&str; 8] = [
    "--seed 1 --device cpu --format json collect --output a.json --num-shapes 3 --min-size 8 \
     --max-size 64 --power-of-two --no-rectangular --no-odd-sizes --search-mode max-autotune --search-space EXHAUSTIVE",
    "collect-shapeset --shapeset a.json --output b.msgpack --operations mm addmm bmm --search-mode max-autotune \
     --search-space DEFAULT",
    "create-validation --output a.json --operations mm bmm --num-shapes 30 --chunk-size 5 --min-size 8 --max-size 64 \
     --search-mode max-autotune --search-space DEFAULT --no-rectangular --no-odd-sizes",
    "train --dataset a.json --model m --model-type deep --batch-size 64 --num-epochs 100 --learning-rate 0.001 --weight-decay 1e-5 \
     --patience 10 --hidden-dim 128 --num-layers 4 --hardware-name cpu --op-name mm --log-dir logs \
     --file-extensions json msgpack",
    "validate-model --model m --dataset a.json --batch-size 64 --hardware-name cpu --op-name mm --top-n-worst 10",
    "validate-max-autotune --model m --dataset a.json --max-autotune-solution s.json --batch-size 64 \
     --hardware-name cpu --op-name mm",
    "--seed 5 collect-and-train --dataset a.json --validation-dataset b.json --model m --num-shapes 100 \
     --validation-shapes 30 --batch-size 64 --num-epochs 9 --learning-rate 0.01 --weight-decay 0 --patience 3 \
     --hidden-dim 8 --num-layers 1 --log-dir logs --skip-collection --skip-validation --skip-training --log-normal \
     --log-normal-m-mean 6 --log-normal-m-std 1 --search-space EXHAUSTIVE --operations mm --no-odd-sizes",
    "convert-json-to-msgpack --input-files a.json b.json --output-dir packed --overwrite",
];

#[test]
fn old_command_lines_are_understood() {
    let sandbox = Sandbox::new();
    for line in COMMAND_LINES {
        let arguments: Vec<&str> = line.split_whitespace().chain(["--help"]).collect();
        assert!(sandbox.ok(&arguments).contains("Usage: diode"), "{line}");
    }
}

#[test]
fn the_migration_guide_has_every_old_command_and_flag() {
    let guide = include_str!("../../../docs/guides/migrating.md");
    for word in COMMAND_LINES.iter().flat_map(|line| line.split_whitespace()) {
        let is_name = word.starts_with("--") || (word.contains('-') && !word.contains("1e-"));
        // The guide names the first and the last of the parameters of the distributions.
        if is_name && !word.starts_with("--log-normal-m-std") {
            assert!(guide.contains(word), "{word}");
        }
    }
}

#[test]
fn mistakes_say_what_to_do_instead() {
    let sandbox = Sandbox::new();
    for (line, words) in [
        ("train --data x --model m.pt", ".safetensors"),
        ("train --data x --model m --model-type wide", "ranking, base, deep"),
        (
            "train --data x --model m --model-type deep --num-layers 65",
            "num_layers: got 65, expected at most 64",
        ),
        ("train --data x --model m --model-type base --batch-size 1", "batch size: got 1"),
        ("train --data x --model m --num-layers 10", "expected less than 8"),
        ("train --data x --model m --learning-rate 2", "learning rate: got 2"),
        ("train --data x --model m --epochs many", "expected a whole number, 1 or more"),
        ("collect-shapeset", "--shapeset"),
        ("collect-shapeset --shapeset x --output y.txt", ".msgpack"),
        ("collect-shapeset --shapeset x --output y.csv", "`diode convert` makes the others"),
        ("collect --output y.parquet --lossy", "then `diode convert`"),
        ("--format json collect-shapeset --shapeset x --output y.msgpack.zst", "--format json"),
        ("create-validation --search-mode reduce-overhead", "without torch.compile"),
        ("create-validation --shapeset x --num-shapes 3", "--shapeset"),
        ("create-validation --chunk-size 0", "1 or more"),
        ("create-validation --search-space SOME", "inductor-exhaustive"),
        ("create-validation --log-normal --no-rectangular", "--no-rectangular"),
        ("validate-model --model m", "--dataset"),
        ("validate-max-autotune --model m --dataset d", "--max-autotune-solution"),
        ("convert-json-to-msgpack", "--input-files"),
        ("completions tcsh", "fish"),
        ("predict --model m --op mm --m -5 --n 8 --k 8 --dtype bf16", "expected a whole number"),
        ("predict --model m --op mm --m 1e3 --n 8 --k 8 --dtype bf16", "expected a whole number"),
        ("shapes --num-shapes -1", "expected a whole number"),
        ("shapes --log-normal --log-normal-m-mean x", "expected a number such as"),
    ] {
        let arguments: Vec<&str> = line.split(' ').collect();
        let output = sandbox.run(&arguments);
        let text = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{line}: {text}");
        assert!(text.contains(words) && !text.contains("invalid digit"), "{line}: {text}");
    }
    for (line, words) in [
        ("collect-shapeset --shapeset missing.json", "missing.json"),
        ("collect-and-train --skip-collection", "leave out --skip-collection"),
        ("validate-model --model missing --dataset x", "missing: No such file"),
        ("validate-max-autotune --model m --dataset x --max-autotune-solution missing.json", "missing.json"),
    ] {
        let error = sandbox.fails(1, &line.split(' ').collect::<Vec<_>>());
        assert!(error.contains(words), "{line}: {error}");
    }
}

#[test]
fn squares_and_even_sizes_are_drawn() {
    let sandbox = Sandbox::new();
    let draw = |flags: &[&str]| -> Vec<[u64; 3]> {
        let drawn = sandbox.ok(&[&["shapes", "--json", "--num-shapes", "50"], flags].concat());
        let drawn: Vec<Value> = serde_json::from_str(&drawn).unwrap();
        drawn.iter().map(|shape| ["m", "n", "k"].map(|size| shape[size].as_u64().unwrap())).collect()
    };
    assert!(draw(&["--no-rectangular"]).iter().all(|[m, n, k]| m == n && n == k));
    assert!(draw(&["--no-odd-sizes"]).iter().flatten().all(|size| size % 2 == 0));
    assert!(draw(&["--log-normal", "--no-odd-sizes"]).iter().flatten().all(|size| size % 8 == 0));
}

fn shapeset() -> String {
    let shape = |b: u64| {
        format!(
            r#"{{"version":1,"B":{b},"M":72,"M_dtype":"float32","N":80,"K":66,"K_dtype":"float32",
                "out_dtype":"float32","out_size":[{b},72,80],"out_stride":[5760,80,1]}}"#
        )
    };
    format!(r#"{{"operations":{{"mm":{{"shapes":[{}]}},"bmm":{{"shapes":[{}]}}}}}}"#, shape(1), shape(2))
}

#[test]
fn a_shape_set_becomes_messagepack_and_says_what_is_not_kept() {
    let sandbox = Sandbox::new();
    sandbox.write("set.json", &shapeset());
    let line =
        ["collect-shapeset", "--shapeset", "set.json", "--search-space", "DEFAULT", "--backend", "cpu"];
    let output = sandbox.run(&line);
    assert!(output.status.success(), "{}", stderr(&output));
    let said = stderr(&output);
    assert_eq!(said.matches("will not hold").count(), 1, "{said}");
    assert!(said.contains("operation_shapeset_data.msgpack will not hold minimum"), "{said}");
    let dataset = sandbox.dataset("operation_shapeset_data.msgpack");
    let problems: Vec<String> =
        dataset.solutions.iter().map(|s| format!("{} {}", s.problem.op, s.problem.dims())).collect();
    assert_eq!(problems, ["mm 72×80×66", "bmm 2×72×80×66"], "ops and batches stay");
    assert_eq!(dataset.solutions[0].method, Method::Unspecified);

    assert!(sandbox.fails(1, &line).contains("--resume"));
    let again = [&line[..], &["--resume"]].concat();
    assert!(stderr(&sandbox.run(&again)).contains("2 problems: already in the file"));
    let only_bmm =
        [&["--format", "json"], &line[..], &["--operations", "bmm", "--output", "b.msgpack"]].concat();
    assert!(stderr(&sandbox.run(&only_bmm)).contains("writing b.json"));
    assert_eq!(sandbox.dataset("b.json").solutions.len(), 1);
}

#[test]
fn validation_has_a_seed_of_its_own_and_chunks() {
    let sandbox = Sandbox::new();
    let validation = ["create-validation", "--search-space", "DEFAULT", "--operations", "mm"];
    let validation = [&validation[..], &SMALL].concat();
    sandbox.ok(&[&validation[..], &["--num-shapes", "2", "--output", "v.msgpack.zst"]].concat());
    let drawn = |seed: &str| {
        let shapes = ["shapes", "--json", "--num-shapes", "2", "--ops", "mm", "--seed", seed];
        let shapes: Value = serde_json::from_str(&sandbox.ok(&[&shapes[..], &SMALL].concat())).unwrap();
        shapes.as_array().unwrap().iter().map(|s| s["m"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let measured: Vec<u64> =
        sandbox.dataset("v.msgpack.zst").solutions.iter().map(|solution| solution.problem.m).collect();
    assert_eq!(measured, drawn("43"));
    assert_ne!(measured, drawn("42"));

    let chunked =
        [&validation[..], &["--num-shapes", "3", "--chunk-size", "2", "--output", "held_out"]].concat();
    let said = stderr(&sandbox.run(&chunked));
    assert_eq!(said.matches("will not hold").count(), 1, "once, not once per chunk: {said}");
    assert_eq!(sandbox.dataset("held_out/validation_dataset_1.json").solutions.len(), 2);
    assert_eq!(sandbox.dataset("held_out/validation_dataset_2.json").solutions.len(), 1);
    assert!(sandbox.fails(1, &chunked).contains("validation_dataset_1.json exists"));
    std::fs::remove_file(sandbox.path("held_out/validation_dataset_2.json")).unwrap();
    sandbox.ok(&[&chunked[..], &["--resume"]].concat());
    assert_eq!(sandbox.dataset("held_out/validation_dataset_2.json").solutions.len(), 1);
}

/// Reference configs as torch-diode writes them; names and sums differ from what is measured.
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

#[test]
fn layers_of_a_model_are_trained_on_or_judged_by_and_never_both() {
    let sandbox = Sandbox::new();
    let model = ["--transformer", "hidden=64,intermediate=96,heads=2", "--prefill-tokens", "16,24"];
    let quick = ["--decode-batches", "1,2", "--search-space", "DEFAULT", "--backend", "cpu"];
    let rest = ["--validation-shapes", "3", "--skip-training"];
    let output = sandbox.run(&[&["collect-and-train"], &model[..], &quick, &rest].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("3 problems of the model held out to judge by, 9 left to train on"), "{said}");
    let drawn: Vec<Value> =
        serde_json::from_str(&sandbox.ok(&[&["shapes", "--json"], &model[..], &quick[..2]].concat()))
            .unwrap();
    let (trained, held_out) =
        (sandbox.dataset("matmul_dataset.json"), sandbox.dataset("matmul_validation_dataset.json"));
    let mut sizes: Vec<[u64; 3]> = [&trained, &held_out]
        .into_iter()
        .flat_map(|dataset| &dataset.solutions)
        .map(|solution| [solution.problem.m, solution.problem.n, solution.problem.k])
        .collect();
    let mut expected: Vec<[u64; 3]> =
        drawn.iter().map(|shape| ["m", "n", "k"].map(|size| shape[size].as_u64().unwrap())).collect();
    sizes.sort_unstable();
    expected.sort_unstable();
    assert_eq!(sizes, expected);

    let one = ["--convolution", "in=8,out=8,kernel=1,size=8", "--images", "1", "--backend", "cpu"];
    let error = Sandbox::new().fails(2, &[&["collect-and-train"], &one[..]].concat());
    assert!(error.contains("got 1, expected at least 4"), "{error}");
}

#[test]
fn what_shapes_prints_is_measured() {
    let sandbox = Sandbox::new();
    let model = ["--transformer", "hidden=64,intermediate=96,heads=2", "--prefill-tokens", "16"];
    let printed = sandbox.ok(&[&["shapes", "--json", "--decode-batches", "1"], &model[..]].concat());
    sandbox.write("problems.json", &printed);
    sandbox.ok(&["collect", "--problems", "problems.json", "--output", "a.msgpack.zst", "--backend", "cpu"]);
    let measured = sandbox.dataset("a.msgpack.zst");
    assert!(measured.solutions.iter().all(|s| s.problem.b_layout == diode_core::Layout::Column));
    let drawn: Vec<Value> = serde_json::from_str(&printed).unwrap();
    assert_eq!(measured.solutions.len(), drawn.len());
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
    assert!(stderr(&itself).contains("trained on this very data"), "{}", stderr(&itself));
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
    // With 500 picks every config is in, so the best of the reference is at most as good.
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
    assert!(error.contains("--op-name: got bmm, expected what there are timings of: mm"), "{error}");
    let error = with(&["--hardware-name", "NVIDIA H100"]);
    assert!(error.contains("--hardware-name: got nvidia-h100") && error.contains("cpu-"), "{error}");
    let folder = ["train", "--data-dir", ".", "--file-extensions", "msgpack", "--model", "x.safetensors"];
    assert!(sandbox.fails(1, &folder).contains("no dataset in this folder, expected .msgpack"));
}

/// The model and data that the project ships.
const H200: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trained_models/matmul/nvidia-h200");

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
fn json_files_are_converted_one_by_one() {
    let sandbox = Sandbox::new();
    sandbox.write("set.json", &shapeset());
    let collect =
        ["collect-shapeset", "--shapeset", "set.json", "--search-space", "DEFAULT", "--output", "a.json"];
    sandbox.ok(&collect);
    let line = ["convert-json-to-msgpack", "--input-files", "set.json", "a.json", "--output-dir", "packed"];
    let output = sandbox.run(&line);
    assert_eq!(output.status.code(), Some(1));
    let said = stderr(&output);
    assert!(said.contains("not converted: set.json") && said.contains("1 of 2 files"), "{said}");
    assert_eq!(sandbox.dataset("packed/a.msgpack"), sandbox.dataset("a.json"));

    let again = ["convert-json-to-msgpack", "--input-files", "a.json", "--output-dir", "packed"];
    assert!(sandbox.fails(1, &again).contains("not converted"));
    sandbox.ok(&[&again[..], &["--overwrite"]].concat());
    let packed = ["convert-json-to-msgpack", "--input-files", "packed/a.msgpack", "--output-dir", "more"];
    let output = sandbox.run(&packed);
    assert!(stderr(&output).contains("expected JSON; use `diode convert`"), "{}", stderr(&output));
}

#[test]
fn completions_know_commands_and_flags() {
    let sandbox = Sandbox::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = sandbox.ok(&["completions", shell]);
        assert!(script.contains("validate-max-autotune") && script.contains("top-n-worst"), "{shell}");
        assert!(!script.contains("measure-worker"), "{shell}");
    }
}

#[test]
fn a_name_may_begin_with_a_dash() {
    let sandbox = Sandbox::new();
    let line = ["create-validation", "--search-space", "DEFAULT", "--operations", "mm", "--num-shapes", "1"];
    sandbox.ok(&[&line[..], &SMALL, &["--output=-v.json"]].concat());
    assert_eq!(sandbox.dataset("-v.json").solutions.len(), 1);
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

#[test]
fn old_global_flags_go_before_the_command() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(&["validate-model", "--device", "cpu", "--model", "m", "--dataset", "d"]);
    assert!(
        stderr(&output).contains("note: --device changes nothing for `validate-model`"),
        "{}",
        stderr(&output)
    );
    assert_eq!(output.status.code(), Some(1), "the model is not there");
    let words =
        stderr(&sandbox.run(&["collect", "--device", "cpu", "--kernels", "p", "--output", "a.msgpack.zst"]));
    assert!(words.contains("leave out --backend cpu"), "{words}");
    let shapes = |line: &str| sandbox.ok(&line.split(' ').collect::<Vec<_>>());
    assert_eq!(shapes("--seed 43 shapes --num-shapes 3"), shapes("shapes --num-shapes 3 --seed 43"));
    let output = sandbox.run(&["--device", "cuda", "shapes", "--num-shapes", "1"]);
    assert!(output.status.success());
    assert!(stderr(&output).contains("--device changes nothing for `shapes`"), "{}", stderr(&output));
}
