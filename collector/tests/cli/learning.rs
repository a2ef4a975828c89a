//! From timings on this CPU to predictions.

use std::io::Write as _;
use std::process::Stdio;

use crate::sandbox::{Sandbox, content, stderr};
use diode_core::hardware::find;
use diode_core::{Dataset, Problem, ProblemFields, Solution};
use diode_model::{Model, UnseenModels};
use serde_json::{Value, json};

#[test]
fn a_model_is_trained_judged_and_asked() {
    let sandbox = Sandbox::new();
    let collect = [
        "collect",
        "--output",
        "a.msgpack.zst",
        "--num-shapes",
        "6",
        "--max-size",
        "128",
        "--space",
        "default",
    ];
    sandbox.ok(&collect);
    let unseen = ["--unseen-models", "m.unseen"];
    let train =
        ["train", "--data", "a.msgpack.zst", "--model", "m.safetensors", "--epochs", "1", "--folds", "2"];
    let said = sandbox.ok(&[&train[..], &unseen].concat());
    assert!(said.contains("parameters") && said.contains("2-fold cross-validation"), "{said}");
    assert!(sandbox.fails(1, &train).contains("--force"));
    let elsewhere = [&train[..4], &["n.safetensors"], &unseen].concat();
    assert!(sandbox.fails(1, &elsewhere).contains("m.unseen"));
    let model = Model::from_bytes(&content(&sandbox.path("m.safetensors"))).unwrap();
    let unseen = UnseenModels::from_bytes(&content(&sandbox.path("m.unseen"))).unwrap();
    for solution in sandbox.dataset("a.msgpack.zst").solutions {
        let other = Model::from_bytes(unseen.for_problem(&solution.problem).unwrap()).unwrap();
        assert_ne!(other.network(), model.network());
    }

    // The problem is of a kind that was trained on, because confidence is stated for no other kind.
    let known = sandbox.dataset("a.msgpack.zst").solutions.swap_remove(0).problem;
    let [b, m, n, k] = [known.b, known.m, known.n, known.k].map(|size| size.to_string());
    let (op, dtype) = (known.op.as_str(), known.a_dtype.as_str());
    let predict = ["predict", "--model", "m.safetensors", "--op", op, "--dtype", dtype, "--b", &b, "--m", &m];
    let ask = |more: &[&str]| sandbox.ok(&[&predict[..], &["--n", &n, "--k", &k], more].concat());
    let prediction: Value = serde_json::from_str(&ask(&["--top", "3", "--json"])).unwrap();
    let candidates = prediction["candidates"].as_array().unwrap();
    assert_eq!(candidates.len(), 3);
    let times: Vec<f64> = candidates.iter().map(|c| c["predicted_us"].as_f64().unwrap()).collect();
    assert!(times.is_sorted() && times[0] > 0.0, "{times:?}");
    assert!(candidates[0]["template"].as_str().unwrap().starts_with("triton::"), "{prediction}");
    assert!(prediction["within_5_percent"]["1"].is_number(), "{prediction}");
    assert_eq!(prediction["outside_training_range"], Value::Null);
    let asked = format!("{op} {} {dtype}", known.dims());
    assert!(ask(&["--space", "default"]).contains(&asked));
    let of_another_space: Value = serde_json::from_str(&ask(&["--space", "default", "--json"])).unwrap();
    assert_eq!(of_another_space["within_5_percent"], serde_json::json!({}), "nobody has counted it there");
    let unknown =
        [&predict[..], &["--n", &n, "--k", &k, "--space", "default", "--confidence", "0.01"]].concat();
    assert!(sandbox.fails(1, &unknown).contains("leave out --space"));
    assert!(ask(&["--confidence", "0.01"]).contains(&asked), "one pick is that sure");
    let error = sandbox.fails(2, &[&predict[..], &["--n", &n, "--k", &k, "--confidence", "95"]].concat());
    assert!(error.contains("such as 0.95"), "{error}");
    let other = [&predict[..], &["--n", &n, "--k", &k, "--a-layout", "column"]].concat();
    assert!(
        sandbox.fails(1, &[&other[..], &["--confidence", "0.9"]].concat()).contains("nobody has measured")
    );

    let output =
        sandbox.run(&["evaluate", "--model", "m.safetensors", "--dataset", "a.msgpack.zst", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["problems"], &report["judged"]), (&6.into(), &"model".into()));
    for k in ["1", "3", "5", "8", "16"] {
        let share = report["top_k"][k]["geomean"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{k}: {share}");
    }
    assert!(stderr(&output).contains("trained on these very problems"), "{}", stderr(&output));
    assert_eq!(report["split"], "the training data");

    sandbox.ok(&[
        "evaluate",
        "--model",
        "m.safetensors",
        "--dataset",
        "a.msgpack.zst",
        "--json",
        "report.json",
    ]);
    let written: Value = serde_json::from_slice(&content(&sandbox.path("report.json"))).unwrap();
    assert_eq!(written["problems"], 6);
    its_own_problems_are_no_test(&sandbox);
    a_cpus_table_advises(&sandbox);
}

/// What the command that made a table proposes next works.
fn a_cpus_table_advises(sandbox: &Sandbox) {
    let output = sandbox.run(&["table", "a.msgpack.zst", "--output", "t.json"]);
    let said = stderr(&output);
    let words = said.split('\'').nth(1).unwrap_or_else(|| panic!("{said}"));
    assert!(sandbox.ok(&["table", "lookup", "t.json", words, "--nearest"]).contains("rank"), "{words}");
    let mut words: Vec<&str> = words.split(' ').collect();
    let other = words[1].rsplit_once('×').unwrap().0.to_owned() + "×77";
    words[1] = &other;
    let advised = sandbox.ok(&["table", "lookup", "t.json", &words.join(" "), "--nearest"]);
    assert!(advised.contains("advised by its nearest problems"), "{advised}");
}

/// Beside its six problems, the model is judged on others.
fn its_own_problems_are_no_test(sandbox: &Sandbox) {
    let evaluate = ["evaluate", "--model", "m.safetensors", "--json", "--dataset"];
    let mut data = sandbox.dataset("a.msgpack.zst");
    data.solutions.truncate(4);
    let other = |at: usize| {
        let mut solution = data.solutions[at].clone();
        let fields = ProblemFields { m: solution.problem.m + 128, ..solution.problem.clone().into_fields() };
        solution.problem = Problem::new(fields).unwrap();
        solution
    };
    let mixed: Vec<Solution> = data.solutions[1..].iter().cloned().chain([other(0), other(1)]).collect();
    diode_formats::write_file(
        &sandbox.path("mixed.msgpack.zst"),
        &[Dataset { solutions: mixed, ..data.clone() }],
    )
    .unwrap();
    let mixed = [&evaluate[..], &["mixed.msgpack.zst"]].concat();
    let output = sandbox.run(&mixed);
    let said = stderr(&output);
    assert!(said.contains("trained on 3 of these 5 problems, so these numbers are no test"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["split"], "given dataset, of which the model was trained on 3");
    let unseen: Value = serde_json::from_str(&sandbox.ok(&[&mixed[..], &["--unseen"]].concat())).unwrap();
    assert_eq!((&unseen["problems"], &unseen["split"]), (&2.into(), &"given dataset".into()));
    let all = [&evaluate[..], &["a.msgpack.zst", "--unseen"]].concat();
    assert!(sandbox.fails(1, &all).contains("got 6 problems, all of sizes that the model was trained on"));
}

/// The shipped models are told from their training data, too, a file or some problems of it.
#[test]
fn a_shipped_model_knows_its_training_files() {
    let sandbox = Sandbox::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../trained_models/matmul/nvidia-h200");
    let file = format!("{folder}/data/h200-addmm-bf16-matrix-more.msgpack.zst");
    let model = format!("{folder}/matmul-nvidia-h200.safetensors");
    for model in ["h200", &model] {
        let said = stderr(&sandbox.run(&["evaluate", "--model", model, "--dataset", &file]));
        assert!(said.contains("trained on these very problems, so these numbers are no test"), "{said}");
    }
    let validation = format!("{folder}/data/validation/h200-mm-bf16-nn.msgpack.zst");
    let said = stderr(&sandbox.run(&["evaluate", "--model", "h200", "--dataset", &validation]));
    assert!(!said.contains("no test"), "{said}");
}

/// Times of a simulated H200 for some problems, with few configs, under the real one's name.
fn simulated(sandbox: &Sandbox, output: &str, problems: &[Value]) -> Dataset {
    sandbox.write("problems.json", &serde_json::to_string(problems).unwrap());
    let tile = |m: u32, n: u32, stages: u32| {
        json!({"template": "triton::mm", "block_m": m, "block_n": n, "block_k": 128, "group_m": 8, "num_stages": stages,
            "num_warps": 4})
    };
    let tiles = [tile(16, 64, 3), tile(64, 64, 3), tile(64, 128, 3), tile(128, 128, 2), tile(64, 64, 4)];
    sandbox.write("tiles.json", &serde_json::to_string(&tiles).unwrap());
    let list = ["--problems", "problems.json", "--space", "tiles.json"];
    sandbox
        .ok(&[&["collect", "--backend", "simulated", "--output", "simulated.msgpack.zst"], &list[..]]
            .concat());
    let mut dataset = sandbox.dataset("simulated.msgpack.zst");
    std::fs::remove_file(sandbox.path("simulated.msgpack.zst")).unwrap();
    dataset.hardware = find("nvidia-h200").unwrap();
    write(sandbox, output, &dataset);
    dataset
}

fn write(sandbox: &Sandbox, name: &str, dataset: &Dataset) {
    diode_formats::write_file(&sandbox.path(name), std::slice::from_ref(dataset)).unwrap();
}

fn by_row(m: u64, k: u64) -> Value {
    json!({"op": "scaled_mm", "b": 1, "m": m, "n": 4096, "k": k, "a_dtype": "float8_e4m3fn", "b_dtype": "float8_e4m3fn",
        "out_dtype": "bfloat16", "a_layout": "row", "b_layout": "column", "bias": "none", "scaling": "row"})
}

#[test]
fn served_problems_are_learnt_onto_a_model_and_beside_others() {
    let sandbox = Sandbox::new();
    let served: Vec<Value> = (1..=60).map(|m| by_row(8 * m, 2048)).collect();
    let mut dataset = simulated(&sandbox, "fp8.msgpack.zst", &served);
    simulated(&sandbox, "others.msgpack.zst", &[by_row(16, 1024), by_row(256, 1024)]);
    dataset.solutions.truncate(49);
    write(&sandbox, "few.msgpack.zst", &dataset);
    write(&sandbox, "h100.msgpack.zst", &Dataset { hardware: find("nvidia-h100").unwrap(), ..dataset });
    let plain = (1..=6).map(|m| {
        json!({"op": "mm", "b": 1, "m": 64 * m, "n": 1024, "k": 1024, "a_dtype": "bfloat16", "b_dtype": "bfloat16",
            "out_dtype": "bfloat16", "a_layout": "row", "b_layout": "row", "bias": "none"})
    });
    simulated(&sandbox, "plain.msgpack.zst", &plain.collect::<Vec<_>>());

    let onto = |data: &str| {
        ["train", "--epochs", "1", "--data", data, "--onto", "nvidia-h200-matmul", "--model", "m.safetensors"]
            .map(str::to_owned)
    };
    let train = onto("fp8.msgpack.zst");
    let train: Vec<&str> = train.iter().map(String::as_str).collect();
    let output = sandbox.run(&[&train[..], &["--judge", "others.msgpack.zst"]].concat());
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("learnt from 60 scaled or grouped problems, 300 timings"), "{said}");
    assert!(said.contains("scaled_mm") && said.contains("on 2 other problems, first picks reach"), "{said}");
    let model = Model::from_bytes(&content(&sandbox.path("m.safetensors"))).unwrap();
    let about = &model.serving().unwrap().about;
    assert_eq!((about.problems, about.kinds.len(), about.judged[0].problems), (60, 1, 2));
    let shipped = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"
    );
    let shipped = Model::from_bytes(&content(shipped.as_ref())).unwrap();
    assert_eq!(model.network(), shipped.network(), "all else is taken from the model");
    let asked = sandbox.ok(&["predict", "16x4096x2048 fp8 row", "--model", "m.safetensors"]);
    assert!(asked.contains("scaled_mm 16×4096×2048 float8_e4m3fn"), "{asked}");

    // Sizes that servers keep judge a part that has not learnt them.
    let kept = [&train[..], &["--without-kept", "--force"]].concat();
    let said = stderr(&sandbox.run(&kept));
    let model = Model::from_bytes(&content(&sandbox.path("m.safetensors"))).unwrap();
    let about = &model.serving().unwrap().about;
    assert_eq!(about.problems + about.judged[0].problems, 60, "{said}");

    let both = [
        "train",
        "--epochs",
        "1",
        "--folds",
        "0",
        "--model",
        "both.safetensors",
        "--data",
        "plain.msgpack.zst",
    ];
    sandbox.ok(&[&both[..], &["fp8.msgpack.zst"]].concat());
    let model = Model::from_bytes(&content(&sandbox.path("both.safetensors"))).unwrap();
    assert_eq!(model.serving().unwrap().about.problems, 60);
    let said = stderr(&sandbox.run(&[&both[..], &["few.msgpack.zst", "--force"]].concat()));
    assert!(
        said.contains(
            "note: got 49 scaled and grouped problems to learn from, expected 50: these are not learnt"
        ),
        "{said}"
    );
    let model = Model::from_bytes(&content(&sandbox.path("both.safetensors"))).unwrap();
    assert!(model.serving().is_none());

    for (arguments, code, words) in [
        (
            &onto("few.msgpack.zst")[..],
            1,
            "got 49 scaled and grouped problems to learn from, expected 50; collect more problems",
        ),
        (&onto("plain.msgpack.zst"), 1, "got 0 scaled and grouped problems"),
        (&onto("h100.msgpack.zst"), 1, "--onto: got a model of nvidia-h200 and timings of nvidia-h100"),
    ] {
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).chain(["--force"]).collect();
        let error = sandbox.fails(code, &arguments);
        assert!(error.contains(words), "{error}");
    }
    let error = sandbox.fails(1, &[&train[..], &["--force", "--judge", "h100.msgpack.zst"]].concat());
    assert!(error.contains("--judge: got timings of nvidia-h100, expected some of nvidia-h200"), "{error}");
    let alone = ["train", "--epochs", "1", "--data", "fp8.msgpack.zst", "--model", "alone.safetensors"];
    let error = sandbox.fails(2, &alone);
    assert!(error.contains("a model to add them to, with --onto"), "{error}");
    assert!(!sandbox.path("alone.safetensors").exists());
}

#[test]
fn what_could_not_be_written_is_refused_before_training() {
    let sandbox = Sandbox::new();
    sandbox.write("a.json", crate::datasets::DATASET);
    sandbox.write("file", "");
    std::fs::create_dir_all(sandbox.path("taken/training_history.csv")).unwrap();
    let train = ["train", "--data", "a.json", "--model", "m.safetensors", "--folds", "0", "--epochs", "2"];
    for (flag, value, words) in [
        ("--log-dir", "file", "cannot create file"),
        ("--log-dir", "taken", "training_history.csv: got a folder, expected the name of a file"),
        ("--curves", "nowhere/loss.svg", "no such folder"),
    ] {
        let error = sandbox.fails(1, &[&train[..], &[flag, value]].concat());
        assert!(error.contains(words), "{error}");
        assert!(!sandbox.path("m.safetensors").exists(), "{flag} {value}: trained in vain");
    }
    // `--epochs` is followed, however small the dataset is.
    sandbox.ok(&[&train[..], &["--log-dir", "logs"]].concat());
    let history = String::from_utf8(content(&sandbox.path("logs/training_history.csv"))).unwrap();
    let epochs: Vec<&str> = history.lines().filter_map(|line| line.split(',').nth(1)).collect();
    assert_eq!(epochs, ["epoch", "1", "2"]);
}

#[test]
fn missing_and_broken_models_are_named() {
    let sandbox = Sandbox::new();
    let ask =
        ["predict", "--model", "m", "--op", "mm", "--m", "8", "--n", "8", "--k", "8", "--dtype", "half"];
    assert!(sandbox.fails(1, &ask).contains("m: No such file"));
    sandbox.write("m", "junk");
    assert!(sandbox.fails(1, &ask).contains("model m: "));
    sandbox.write("m", crate::datasets::DATASET);
    assert!(sandbox.fails(1, &ask).contains("m: got a dataset of timings, expected a model"));
    let error = sandbox.fails(1, &["train", "--data", ".", "--model", "x.safetensors"]);
    assert!(error.contains("no dataset"), "{error}");
}

#[test]
fn times_of_the_library_may_stand_in_a_file_of_their_own() {
    let sandbox = Sandbox::new();
    let data = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../trained_models/matmul/nvidia-h200/data/h200-mm-bf16.msgpack.zst"
    );
    let known = diode_formats::read_file(data.as_ref()).unwrap().datasets.remove(0).solutions;
    let of = |unit: &str, extra: u64| {
        let times = known.iter().take(3).map(|solution| {
            let problem = &solution.problem;
            format!(r#"{{"M": {}, "N": {}, "K": {}, "us": 1.5}}"#, problem.m + extra, problem.n, problem.k)
        });
        let times: Vec<String> = times.collect();
        format!(
            r#"{{"hardware": "NVIDIA H200", "op": "mm", "dtype": "bfloat16", "kernel": "cuBLAS", "unit": "{unit}", "problems": [{}]}}"#,
            times.join(", ")
        )
    };
    let evaluate =
        ["evaluate", "--model", "NVIDIA-H200-matmul", "--dataset", data, "--library", "library.json"];
    sandbox.write("library.json", &of("us", 0));
    let report: Value = serde_json::from_str(&sandbox.ok(&[&evaluate[..], &["--json"]].concat())).unwrap();
    assert_eq!(report["with_library"]["problems"], 3, "{}", report["with_library"]);
    sandbox.write("library.json", &of("ms", 0));
    assert!(sandbox.fails(1, &evaluate).contains("expected \"us\""));
    sandbox.write("library.json", &of("us", 1));
    assert!(sandbox.fails(1, &evaluate).contains("got no problem of the dataset"));
    sandbox.write("library.json", "{}");
    assert!(sandbox.fails(1, &evaluate).contains("missing field"));
}

#[test]
fn no_result_takes_the_place_of_what_took_time_to_make() {
    let sandbox = Sandbox::new();
    let data = "data/a.msgpack.zst";
    std::fs::create_dir(sandbox.path("data")).unwrap();
    sandbox.ok(&["collect", "--output", data, "--num-shapes", "2", "--max-size", "64", "--space", "default"]);
    fn with<'a>(start: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
        [start, more].concat()
    }
    let train = ["train", "--data", data, "--epochs", "1", "--folds", "0"];
    let evaluate = ["evaluate", "--model", "m.safetensors", "--dataset", "data"];
    sandbox.ok(&with(&train, &["--model", "m.safetensors"]));
    let bytes = |name: &str| std::fs::read(sandbox.path(name)).unwrap();
    let (timings, model) = (bytes(data), bytes("m.safetensors"));
    sandbox.write("m.safetensors.partial", "another training's");
    sandbox.write("notes.txt", "mine");

    for (arguments, words) in [
        (with(&train, &["--model", "n.safetensors", "--curves", data]), "got one of the inputs"),
        (
            with(&train, &["--model", "n.safetensors", "--curves", "n.safetensors"]),
            "got one name for two results",
        ),
        (with(&train, &["--model", "n.safetensors", "--curves", "m.safetensors"]), "where nothing is lost"),
        (with(&train, &["--model", "m.safetensors", "--force"]), "m.safetensors.partial: "),
        (with(&evaluate, &["--report", data]), "where nothing is lost"),
        (with(&evaluate, &["--report", "notes.txt"]), "got a file that is no report"),
        (with(&evaluate, &["--json", "notes.txt"]), "got a file that is no report"),
        (
            with(&train, &["--model", "n.safetensors", "--curves", "notes.txt"]),
            "got a file that is no report",
        ),
        (with(&evaluate, &["--json", "m.safetensors"]), "got one of the inputs"),
        (with(&evaluate, &["--json", "x", "--report", "x"]), "got one name for two results"),
    ] {
        let error = sandbox.fails(1, &arguments);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    sandbox.fails(2, &with(&train, &["--model", "n.safetensors", "--seeds", "18446744073709551615"]));
    sandbox.fails(2, &with(&train, &["--model", "n.safetensors", "--unseen-models", "x"]));
    assert_eq!((bytes(data), bytes("m.safetensors")), (timings, model));
    assert_eq!(bytes("notes.txt"), b"mine");
    assert!(!sandbox.path("n.safetensors").exists() && !sandbox.path("x").exists());

    // Outputs of an earlier run of the same command are replaced.
    for _ in 0..2 {
        sandbox.ok(&with(&evaluate, &["--json", "e.json", "--report", "e.html"]));
    }
}

#[test]
fn a_model_of_one_gpu_is_judged_as_it_stands_in_for_another() {
    let sandbox = Sandbox::new();
    let data = "../trained_models/matmul/nvidia-h100/data/validation/h100-mm-bf16-tn.msgpack.zst";
    let data = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(data);
    let evaluate =
        ["evaluate", "--model", "NVIDIA-H200-matmul", "--dataset", data.to_str().unwrap(), "--json"];
    let error = sandbox.fails(1, &evaluate);
    assert!(
        error.contains("the model speaks of nvidia-h200") && error.contains("--as nvidia-h100"),
        "{error}"
    );
    let report: Value =
        serde_json::from_str(&sandbox.ok(&[&evaluate[..], &["--as", "nvidia-h100"]].concat())).unwrap();
    assert!(report["top_k"]["1"]["geomean"].as_f64().unwrap() > 0.9, "{}", report["top_k"]["1"]);
    let unknown = sandbox.fails(2, &[&evaluate[..], &["--as", "nvidia-z9000"]].concat());
    assert!(unknown.contains("--as: got nvidia-z9000, expected one of nvidia-"), "{unknown}");
}

#[test]
fn sizes_alone_are_predicted_with_the_model_that_comes_along() {
    let sandbox = Sandbox::new();
    let short = sandbox.ok(&["predict", "16x4096x4096", "--hardware", "nvidia-h100", "--json"]);
    let short: Value = serde_json::from_str(&short).unwrap();
    assert_eq!(short["candidates"].as_array().unwrap().len(), 10);
    let long = ["predict", "--model", "NVIDIA-H100-matmul", "--op", "mm", "--m", "16", "--n", "4096"];
    let long = sandbox.ok(&[&long[..], &["--k", "4096", "--dtype", "bfloat16", "--json"]].concat());
    let mut long = serde_json::from_str::<Value>(&long).unwrap();
    assert_eq!((&long["model"]["id"], &long["hardware"]), (&short["model"]["id"], &json!("nvidia-h100")));
    assert_eq!(long["problem"]["k"], 4096);
    long["model"] = short["model"].clone();
    assert_eq!(long, short, "mm in bfloat16");

    sandbox.write("sizes.txt", "16x4096x4096\n\n8x64x512x512\n");
    let list = ["predict", "--list", "sizes.txt", "--hardware", "nvidia-h100"];
    let words = sandbox.ok(&list);
    assert!(words.contains("mm 16×4096×4096 bfloat16") && words.contains("bmm "), "{words}");
    let several: Value = serde_json::from_str(&sandbox.ok(&[&list[..], &["--json"]].concat())).unwrap();
    assert_eq!(several.as_array().unwrap().len(), 2);
    assert_eq!(several[0]["candidates"][0], short["candidates"][0]);
    // A problem that is too large for the GPU does not end the list.
    sandbox.write("large.txt", "16x4096x4096\n1000000000x4096x4096\n");
    // A list as torch_diode.record() writes it: each problem has its own type and layout.
    let recorded = r#"[{"op": "mm", "b": 1, "m": 64, "n": 64, "k": 64, "dtype": "float16"},
        {"op": "addmm", "b": 1, "m": 8, "n": 4096, "k": 4096, "dtype": "bfloat16", "b_layout": "column"}]"#;
    sandbox.write("recorded.json", recorded);
    let output = sandbox.ok(&["predict", "--list", "recorded.json", "--hardware", "nvidia-h100"]);
    assert!(output.contains("float16") && output.contains("addmm"), "{output}");
    let large = ["predict", "--list", "large.txt", "--hardware", "nvidia-h100", "--json"];
    let output = sandbox.run(&large);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "a list that fails in part has failed: {said}");
    assert!(said.contains("no prediction for mm 1000000000×4096×4096"), "{said}");
    let large: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(large[0], several[0]);
    assert!(large[1].is_null(), "{large}");
    let mut piped = sandbox.command(&["predict", "--list", "-", "--hardware", "nvidia-h100"]);
    let mut piped = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(b"16x4096x4096\n8x64x512x512").unwrap();
    assert_eq!(String::from_utf8(piped.wait_with_output().unwrap().stdout).unwrap(), words);

    let error = sandbox.fails(2, &["predict", "16x4096", "--hardware", "nvidia-h100"]);
    assert!(error.contains("problem: got `16x4096`, expected a size such as 16x4096x4096"), "{error}");
    let error = sandbox.fails(2, &["predict", "16x16x16", "--hardware", "nvidia-x9"]);
    assert!(
        error.contains("--hardware: got `nvidia-x9`, expected one of") && error.contains("nvidia-h200"),
        "{error}"
    );
    sandbox.write("bad.txt", "16x16x16\n16 by 16");
    let error = sandbox.fails(1, &["predict", "--list", "bad.txt", "--hardware", "nvidia-h100"]);
    assert!(error.contains("bad.txt: line 2: problem: got `by`, expected a size"), "{error}");
}

/// What `shapes` prints is a list for `predict`, and a note about many problems is printed once.
#[test]
fn drawn_shapes_are_predicted_with_one_note_for_all() {
    let sandbox = Sandbox::new();
    let drawn = sandbox.ok(&["shapes", "--num-shapes", "20", "--json"]);
    let mut piped = sandbox.command(&["predict", "-", "--hardware", "nvidia-a100", "--json"]);
    let mut piped =
        piped.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(drawn.as_bytes()).unwrap();
    let output = piped.wait_with_output().unwrap();
    let said = stderr(&output);
    let [drawn, told] =
        [drawn.as_bytes(), &output.stdout].map(|text| serde_json::from_slice::<Value>(text).unwrap());
    assert_eq!((drawn.as_array().unwrap().len(), told.as_array().unwrap().len()), (20, 20));
    for (shape, answer) in drawn.as_array().unwrap().iter().zip(told.as_array().unwrap()) {
        assert_eq!((&shape["op"], &shape["m"]), (&answer["problem"]["op"], &answer["problem"]["m"]));
    }
    assert_eq!(said.matches("stands in with the facts of NVIDIA A100").count(), 1, "{said}");
    assert!(said.contains("note: 20 problems, such as "), "{said}");
}

/// `moe` stands for two multiplications. vLLM takes one config for both, SGLang also one for each.
#[test]
fn a_layer_of_experts_gets_a_config_for_both_launches_beside_one_for_each() {
    let sandbox = Sandbox::new();
    let ask = ["predict", "moe 128x768x2048 top8 64 tokens fp8 block", "--hardware", "nvidia-h200"];
    let words = sandbox.ok(&ask);
    let rows: Vec<&str> = words.lines().filter(|line| line.contains(" µs ")).collect();
    assert_eq!(rows.len(), 3, "{words}");
    let names =
        ["fused_moe 64×1536×2048 float8_e4m3fn", "fused_moe 64×2048×768 float8_e4m3fn", "both launches"];
    assert!(rows.iter().zip(names).all(|(row, name)| row.starts_with(name)), "{words}");
    let both: Value = serde_json::from_str(&sandbox.ok(&[&ask[..], &["--json"]].concat())).unwrap();
    let us = |document: &Value| document["candidates"][0]["predicted_us"].as_f64().unwrap();
    assert_eq!(both[0]["both_launches"], both[1]["both_launches"]);
    let together = us(&both[0]["both_launches"]);
    assert!(together > 0.9 * (us(&both[0]) + us(&both[1])), "{both}");
    assert!(both[0]["both_launches"]["keeps_untuned"].is_boolean());

    // One launch, and launches of different layers, have no config in common.
    sandbox.write("one.txt", "moe 128x768x2048 top8 64 tokens fp8 block down\n16x4096x14336 fp8 row\n");
    let list = ["predict", "--list", "one.txt", "--hardware", "nvidia-h200"];
    let words = sandbox.ok(&list);
    assert!(!words.contains("both launches"), "{words}");
    let csv = sandbox.ok(&[&list[..], &["--format", "csv"]].concat());
    let mut lines = csv.lines();
    assert!(lines.next().unwrap().ends_with("library_us,scaling,groups,top_k,stage,rows,swap_ab"), "{csv}");
    let ends: Vec<&str> = lines.collect();
    assert!(ends[0].contains(",block,128,8,down,routed,") && ends[1].contains(",row,,,,,"), "{csv}");
    let triton = sandbox.ok(&[&list[..], &["--format", "triton"]].concat());
    assert!(triton.contains(r#""float8_e4m3fn", "nt", "block", 128, 8, "down"): ["#), "{triton}");
    let said = sandbox.fails(2, &["shapes", "--ops", "scaled_mm"]);
    assert!(said.contains("--ops: got scaled_mm, whose sizes are those of a model"), "{said}");
}

#[test]
fn what_nobody_can_compute_is_refused_in_one_sentence() {
    let sandbox = Sandbox::new();
    let fp8 =
        ["want", "16x4096x14336 fp8 row", "--hardware", "nvidia-a100", "--server", "http://127.0.0.1:9"];
    let error = sandbox.fails(2, &fp8);
    assert!(
        error.contains("scaled_mm 16×4096×14336: NVIDIA A100 does not multiply float8_e4m3fn"),
        "{error}"
    );
    let error = sandbox.fails(2, &["want", "64x64x64", "--tp", "2", "--hardware", "nvidia-h200"]);
    assert!(error.contains("expected a model such as"), "{error}");
    for (config, hardware, words) in [
        ("nowhere.json", "nvidia-h200", "nowhere.json"),
        ("odd.json", "nvidia-h200", "odd.json: got no `hidden_size`"),
        (
            "mine.json",
            "nvidia-x9",
            "--hardware: got `nvidia-x9`, expected a GPU of the catalogue such as nvidia-h200",
        ),
    ] {
        sandbox.write("odd.json", "{}");
        sandbox
            .write("mine.json", r#"{"hidden_size": 128, "num_hidden_layers": 2, "intermediate_size": 256}"#);
        let error = sandbox.fails(2, &["want", config, "--hardware", hardware]);
        assert!(error.contains(words), "{error}");
    }
    let ask = |dtype, more: &[&'static str]| {
        [&["predict", "4096x4096x4096", "--hardware", "nvidia-h200", "--dtype", dtype], more].concat()
    };
    for more in [&[][..], &["--extrapolate"]] {
        let error = sandbox.fails(2, &ask("bool", more));
        assert!(
            error.contains("mm 4096×4096×4096: kernels exist for") && error.contains("not for bool"),
            "{error}"
        );
        assert!(!error.contains("--extrapolate"), "{error}");
    }
    // What the hardware has a peak for can be guessed.
    let error = sandbox.fails(2, &ask("int8", &[]));
    assert!(error.contains("add --extrapolate"), "{error}");
    sandbox.ok(&ask("int8", &["--extrapolate"]));
    let error = sandbox.fails(2, &["want", "64x64x64", "--dtype", "bool", "--hardware", "nvidia-h200"]);
    assert!(error.contains("not for bool"), "{error}");
}

#[test]
fn a_prediction_is_printed_in_the_form_that_is_used_next() {
    let sandbox = Sandbox::new();
    let ask = |more: &[&'static str]| {
        let usual =
            ["predict", "16x4096x4096", "--b-layout", "column", "--hardware", "nvidia-h200", "--top", "3"];
        sandbox.ok(&[&usual[..], more].concat())
    };
    let table = ask(&[]);
    assert!(table.starts_with("mm 16×4096×4096 bfloat16 nt on "), "{table}");
    assert!(table.contains("group_m") && table.contains("against cuBLAS"), "{table}");
    let json: Value = serde_json::from_str(&ask(&["--format", "json"])).unwrap();
    let first = &json["candidates"][0];
    let csv = ask(&["--format", "csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let (head, row) = (lines.next().unwrap(), lines.next().unwrap());
    let field = |name: &str| row[head.iter().position(|one| *one == name).unwrap()];
    assert_eq!((field("b_layout"), field("template")), ("column", first["template"].as_str().unwrap()));
    assert_eq!(field("predicted_us").parse::<f64>().unwrap(), first["predicted_us"].as_f64().unwrap());
    let triton = ask(&["--format", "triton"]);
    assert!(triton.contains("import triton\n") && triton.contains("configs = ["), "{triton}");
    assert!(triton.contains(r#"triton.Config({"BLOCK_M": 16, "BLOCK_N": "#), "{triton}");
    assert_eq!(triton.matches("triton.Config(").count(), 3, "the library is not counted: {triton}");
    let swapped = ["predict", "16x4096x4096 fp8 row", "--hardware", "h200", "--format", "triton"];
    let swapped = sandbox.ok(&swapped);
    let configs = swapped.lines().filter(|line| line.contains("triton.Config("));
    assert!(
        swapped.contains(", with A and B swapped") && configs.clone().all(|line| !line.contains("swapped"))
    );
    let twice = ["predict", "16x64x64", "16x64x64", "--hardware", "h200", "--format", "inductor"];
    let twice: Value = serde_json::from_str(&sandbox.ok(&twice)).unwrap();
    assert_eq!(twice.as_object().unwrap().len(), 1);
    let error =
        sandbox.fails(2, &["predict", "16x64x64 fp8 row", "--hardware", "h200", "--format", "inductor"]);
    assert!(error.contains("no scaled or grouped multiplications"), "{error}");
    let inductor: Value = serde_json::from_str(&ask(&["--format", "inductor"])).unwrap();
    assert_eq!(inductor.as_object().unwrap().len(), 1);
    let error = sandbox.fails(2, &["predict", "1x1x1", "--format", "csv", "--json"]);
    assert!(error.contains("--json"), "{error}");
}

#[test]
fn picks_that_are_not_in_the_order_of_times_say_why() {
    let sandbox = Sandbox::new();
    let sizes: Vec<String> =
        (1..=200).map(|number| format!("{}x{}x{}", 8 * number, 1024, 512 + 64 * number)).collect();
    sandbox.write("sizes.txt", &sizes.join("\n"));
    let ask = ["predict", "--list", "sizes.txt", "--hardware", "nvidia-h200", "--top", "10", "--json"];
    let lists: Value = serde_json::from_str(&sandbox.ok(&ask)).unwrap();
    let mut unordered = 0;
    for one in lists.as_array().unwrap() {
        let times: Vec<f64> = one["candidates"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["predicted_us"].as_f64().unwrap())
            .collect();
        assert_eq!(times.is_sorted(), one["order"].is_null(), "{one}");
        unordered += usize::from(!times.is_sorted());
    }
    assert!(unordered > 0);
}

#[test]
fn rows_of_an_amd_gpu_can_be_told_apart() {
    let table = Sandbox::new().ok(&["predict", "4096x4096x4096", "--hardware", "amd-mi300x", "--top", "10"]);
    let rows = table.lines().filter(|line| line.contains('×') && line.contains(" s"));
    let mut rows: Vec<String> = rows
        .map(|row| {
            // The config with group_m and ROCm's parameters; neither its rank nor the times, which differ anyway.
            let columns: Vec<&str> = row.split("  ").map(str::trim).filter(|text| !text.is_empty()).collect();
            [&columns[..1], &columns[2..6]].concat().join(" ")
        })
        .collect();
    let all = rows.len();
    rows.sort();
    rows.dedup();
    assert!(all >= 9 && rows.len() == all, "{table}");
}

#[test]
fn float32_may_be_rounded_to_tf32() {
    let sandbox = Sandbox::new();
    let ask = ["predict", "4096x4096x4096", "--dtype", "float32", "--hardware", "nvidia-h100", "--json"];
    let plain: Value = serde_json::from_str(&sandbox.ok(&ask)).unwrap();
    let rounded: Value = serde_json::from_str(&sandbox.ok(&[&ask[..], &["--tf32"]].concat())).unwrap();
    let candidates = rounded["candidates"].as_array().unwrap();
    assert!(candidates.iter().all(|candidate| candidate["allow_tf32"] == true), "{rounded}");
    let us = |prediction: &Value| prediction["candidates"][0]["predicted_us"].as_f64().unwrap();
    assert!(us(&rounded) < us(&plain) / 2.0, "{} {}", us(&rounded), us(&plain));
    // The library was timed with rounding, too, so the picks were judged.
    assert!(rounded["within_5_percent"]["1"].is_f64() && rounded["outside_training_range"].is_null());

    let error = sandbox.fails(2, &["predict", "64x64x64", "--tf32", "--hardware", "nvidia-h100"]);
    assert!(
        error.contains("--tf32: got problems in bfloat16, expected float32; add --dtype float32"),
        "{error}"
    );
}

#[test]
fn an_epilogue_is_fused_where_that_is_better() {
    let sandbox = Sandbox::new();
    let ask = |size: &str, hardware: &str, epilogue: &str, more: &[&str]| {
        let flags = ["predict", size, "--hardware", hardware, "--epilogue", epilogue];
        sandbox.ok(&[&flags[..], more].concat())
    };
    let json = |size, epilogue| -> Value {
        serde_json::from_str(&ask(size, "nvidia-h200", epilogue, &["--json"])).unwrap()
    };
    // The output is 64 MiB and K is small. A separate kernel for ReLU would read and write the
    // whole output again.
    let fused = json("8192x4096x256", "relu");
    assert_eq!(fused["epilogue"]["fuse"], true, "{fused}");
    let first = &fused["candidates"][0];
    let us = |name: &str| first[name].as_f64().unwrap();
    let total = us("predicted_us");
    assert_eq!(total, us("alone_us") + us("epilogue_us"));
    assert_eq!(fused["epilogue"]["tile_us"].as_f64(), Some(total));
    assert!(fused["epilogue"]["library_us"].as_f64().unwrap() > 1.07 * total, "{fused}");
    let words = ask("8192x4096x256", "nvidia-h200", "relu", &[]);
    assert!(words.contains("Better: a tile with the ReLU fused.") && words.contains("relu\n"), "{words}");
    // In a long multiplication, the cost of one more kernel hardly counts.
    let left = json("8192x8192x8192", "gelu");
    assert_eq!(left["epilogue"]["fuse"], false, "{left}");
    let plain = json("8192x4096x256", "none");
    assert!(
        plain.get("epilogue").is_none() && plain["candidates"][0].get("epilogue_us").is_none(),
        "{plain}"
    );

    let error = sandbox.fails(2, &["predict", "64x64x64", "--hardware", "nvidia-h200", "--epilogue", "selu"]);
    assert!(error.contains("got `selu`, expected one of none relu gelu"), "{error}");
}
