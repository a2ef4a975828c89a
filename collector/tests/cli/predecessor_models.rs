//! torch-diode's models beside those of this project.

use serde_json::Value;

use crate::sandbox::{Sandbox, content, stderr};

/// The model and the data that the project ships.
pub(crate) const H200: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../trained_models/matmul/nvidia-h200");

fn our_model() -> String {
    format!("{H200}/matmul-nvidia-h200.safetensors")
}

fn validation() -> String {
    format!("{H200}/data/validation/h200-mm-bf16-nn.msgpack.zst")
}

fn share(document: &Value, k: &str) -> f64 {
    document["top_k"][k]["geomean"].as_f64().unwrap()
}

#[test]
fn v1_is_judged_beside_ours_fed_rightly_and_as_it_used_to_be() {
    let Some(folder) = std::env::var_os("DIODE_COMPAT_DIR") else {
        println!("not asked to run: DIODE_COMPAT_DIR names no folder");
        return;
    };
    let old = std::path::Path::new(&folder).join("v1_model.pt").display().to_string();
    let (sandbox, ours, data) = (Sandbox::new(), our_model(), validation());
    let both =
        ["evaluate", "--model", &ours, "--model", &old, "--dataset", &data, "--report", "r.html", "--json"];
    let document: Value = serde_json::from_str(&sandbox.ok(&both)).unwrap();
    let compared = document["compared"].as_array().unwrap();
    let fed: Vec<&str> = compared.iter().map(|contender| contender["fed"].as_str().unwrap()).collect();
    assert_eq!(fed, ["right", "as the plug-in did"]);
    let shares = [share(&document, "5"), share(&compared[0], "5"), share(&compared[1], "5")];
    assert!(shares.is_sorted_by(|a, b| a > b), "ours, v1, v1 as it was fed: {shares:?}");
    assert!(compared[1]["mape_all"].is_null(), "it claims times that no number holds");
    let page = String::from_utf8(content(&sandbox.path("r.html"))).unwrap();
    assert!(page.contains("v1_model.pt, fed as the plug-in did: best of 5 picks"));

    let few = format!("{H200}/data/validation/h200-addmm-bf16.msgpack.zst");
    let alone = sandbox.ok(&["evaluate", "--model", &old, "--dataset", &few]);
    assert!(alone.contains("v1_model.pt, fed as the plug-in did: first pick"), "{alone}");
    let ask = ["predict", "--model", &old, "--op", "mm", "--m", "4096", "--n", "4096", "--k", "4096"];
    let output = sandbox.run(&[&ask[..], &["--dtype", "fp16", "--top", "1"]].concat());
    assert!(String::from_utf8_lossy(&output.stdout).contains("NVIDIA H100"));
    assert!(stderr(&output).contains("does not say which hardware"), "{}", stderr(&output));
}

#[test]
fn base_and_deep_are_trained_judged_and_asked() {
    let sandbox = Sandbox::new();
    let collect = ["collect", "--output", "a.msgpack.zst", "--num-shapes", "6", "--max-size", "128"];
    sandbox.ok(&[&collect[..], &["--space", "default"]].concat());
    for (kind, more) in [
        ("base", &["--batch-size", "32", "--patience", "2"][..]),
        ("deep", &["--hidden-dim", "16", "--num-layers", "2"]),
    ] {
        let model = format!("{kind}.safetensors");
        let train = [
            "train",
            "--data",
            "a.msgpack.zst",
            "--model",
            &model,
            "--model-type",
            kind,
            "--num-epochs",
            "2",
        ];
        let said = sandbox.ok(&[&train[..], more].concat());
        assert!(said.contains("parameters") && said.contains("a tenth of the problems, held out"), "{said}");
        let judged = sandbox.ok(&["evaluate", "--model", &model, "--dataset", "a.msgpack.zst", "--json"]);
        let judged: Value = serde_json::from_str(&judged).unwrap();
        assert_eq!((&judged["kind"], &judged["problems"]), (&kind.into(), &6.into()));
        let ask = ["predict", "--model", &model, "--op", "mm", "--m", "64", "--n", "64", "--k", "64"];
        let answer = sandbox.ok(&[&ask[..], &["--dtype", "fp32", "--top", "2", "--json"]].concat());
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["candidates"].as_array().unwrap().len(), 2, "{answer}");
    }
    let both = [
        "evaluate",
        "--model",
        "base.safetensors",
        "--model",
        "deep.safetensors",
        "--dataset",
        "a.msgpack.zst",
    ];
    let said = sandbox.ok(&both);
    assert!(
        said.contains("base.safetensors: first pick") && said.contains("deep.safetensors: best of 5"),
        "{said}"
    );
    let base = ["train", "--data", "a.msgpack.zst", "--model", "b.safetensors", "--model-type", "base"];
    let output =
        sandbox.run(&[&base[..], &["--num-epochs", "1", "--hidden-dim", "8", "--folds", "3"]].concat());
    assert!(stderr(&output).contains("--folds changes nothing"), "{}", stderr(&output));
    assert!(stderr(&output).contains("--hidden-dim and --num-layers change nothing"), "{}", stderr(&output));
}

#[test]
fn checkpoints_that_mean_harm_are_refused_in_one_line() {
    let sandbox = Sandbox::new();
    // An uncompressed archive with a pickle that would call `os.system`.
    let pickle = b"\x80\x02cos\nsystem\nX\x04\x00\x00\x00true\x85R.";
    let name = b"m/data.pkl";
    let checksum = 0x8ade_09eb_u32.to_le_bytes();
    let sizes =
        [&checksum[..], &(pickle.len() as u32).to_le_bytes(), &(pickle.len() as u32).to_le_bytes()].concat();
    let length = (name.len() as u16).to_le_bytes();
    let local = [b"PK\x03\x04", &[0; 10][..], &sizes, &length, &[0; 2], name, pickle].concat();
    let listed = [b"PK\x01\x02", &[0; 12][..], &sizes, &length, &[0; 16], name].concat();
    let (start, size) = ((local.len() as u32).to_le_bytes(), (listed.len() as u32).to_le_bytes());
    let end = [b"PK\x05\x06", &[0; 4][..], &[1, 0, 1, 0], &size, &start, &[0; 2]].concat();
    let evil = [local, listed, end].concat();
    diode_formats::write_atomically(&sandbox.path("evil.pt"), &evil).unwrap();
    let data = validation();
    let error = sandbox.fails(1, &["evaluate", "--model", "evil.pt", "--dataset", &data]);
    assert!(error.contains("model evil.pt") && error.contains("got `os.system`"), "{error}");
    diode_formats::write_atomically(&sandbox.path("half.pt"), &evil[..evil.len() / 2]).unwrap();
    let error = sandbox.fails(1, &["validate-model", "--model", "half.pt", "--dataset", &data]);
    assert!(error.contains("truncated torch checkpoint"), "{error}");
}

#[test]
fn models_that_come_with_the_program_are_found_by_name() {
    let sandbox = Sandbox::new();
    let ask = |model: &str| {
        let line = ["predict", "--model", model, "--op", "mm", "--m", "512", "--n", "4096", "--k", "4096"];
        sandbox.run(&[&line[..], &["--dtype", "bf16", "--json"]].concat())
    };
    let (own, stand_in) = (ask("NVIDIA-H200-matmul"), ask("NVIDIA-H100-PCIe-matmul"));
    assert!(ask("h200").status.success() && ask("nvidia-h200").status.success());
    assert!(own.status.success() && stderr(&own).is_empty(), "{}", stderr(&own));
    let said = stderr(&stand_in);
    assert!(said.contains("nvidia-h200 and stands in with the facts of NVIDIA H100"), "{said}");
    let answer: Value = serde_json::from_slice(&stand_in.stdout).unwrap();
    assert_eq!(answer["within_5_percent"], serde_json::json!({}), "nothing is claimed");
    let caveat = answer["outside_training_range"].as_str().expect("it says that nobody measured it");
    assert!(caveat.contains("nvidia-h200") && caveat.contains("nobody has measured"), "{caveat}");
    for unknown in ["NVIDIA-X9-matmul", "nvidia-x9"] {
        let line = ["predict", "--model", unknown, "--op", "mm", "--m", "8", "--n", "8", "--k", "8"];
        let error = sandbox.fails(1, &[&line[..], &["--dtype", "bf16"]].concat());
        assert!(error.contains(&format!("{unknown}: No such file")), "{error}");
        assert!(error.contains("nvidia-h200-matmul, nvidia-h100-"), "what there is: {error}");
    }
}

#[test]
fn an_evaluation_has_groups_baselines_and_a_page() {
    let (sandbox, ours, data) = (Sandbox::new(), our_model(), validation());
    let known = format!("{H200}/data/h200-mm-bf16.msgpack.zst");
    let line = ["evaluate", "--model", &ours, "--dataset", &data, "--train-data", &known, "--worst", "3"];
    let more = ["--report", "report.html", "--json", "report.json"];
    let said = sandbox.ok(&[&line[..], &more].concat());
    for words in [
        "way to choose",
        "Inductor's default configs, all timed",
        "the library kernel, always",
        "Worst first picks",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let document: Value = serde_json::from_slice(&content(&sandbox.path("report.json"))).unwrap();
    let problems = document["problems"].as_u64().unwrap() as usize;
    assert_eq!(document["per_problem"].as_array().unwrap().len(), problems);
    assert_eq!(document["worst"].as_array().unwrap().len(), 3);
    let worst: Vec<f64> =
        document["worst"].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).collect();
    assert!(worst.is_sorted(), "{worst:?}");
    assert_eq!(worst[0], document["top_k"]["1"]["worst"].as_f64().unwrap());
    let kinds = document["groups"].as_array().unwrap().iter().filter(|group| group["by"] == "kind");
    assert_eq!(kinds.map(|group| group["problems"].as_u64().unwrap()).sum::<u64>(), problems as u64);
    for name in ["defaults", "best_fixed", "nearest", "nearest_5", "library", "exhaustive"] {
        let baseline = &document["baselines"][name];
        let reached = baseline["with_library"]["geomean"].as_f64().unwrap();
        assert!(reached > 0.3 && reached <= 1.0, "{name}: {baseline}");
    }
    assert!(document["with_library"]["top_k"]["1"]["geomean"].as_f64().unwrap() > 0.9, "{document}");

    let page = String::from_utf8(content(&sandbox.path("report.html"))).unwrap();
    assert_eq!(page.matches("<svg").count(), 4);
    for foreign in ["<script", "http://", "https://", "src=", "@import", "NaN", "inf\""] {
        assert!(!page.contains(foreign), "{foreign}");
    }
    let again = sandbox.ok(&[&line[..], &["--report", "again.html", "--json", "again.json"]].concat());
    assert!(!again.is_empty());
    assert_eq!(content(&sandbox.path("again.html")), page.into_bytes(), "the same files give the same page");
}
