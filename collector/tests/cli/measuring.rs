//! Times that `diode tune --measure` takes. A stand-in for the Python process makes them up.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, content, wait_until};

const MODEL: [&str; 6] = ["tune", "Mixtral-8x7B", "--tp", "2", "--hardware", "nvidia-h200"];
const FILE: &str = "E=8,N=7168,device_name=NVIDIA_H200.json";
const MEASURE: [&str; 3] = ["--measure", "--python", "./python"];

fn prepared() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write("python", include_str!("measuring/timer.py"));
    let executable = fs::Permissions::from_mode(0o755);
    fs::set_permissions(sandbox.path("python"), executable).unwrap();
    sandbox
}

fn line<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&MODEL[..], &MEASURE[..], more].concat()
}

fn document(sandbox: &Sandbox, more: &[&str]) -> Value {
    serde_json::from_str(&sandbox.ok(&[&line(more)[..], &["--format", "json"]].concat())).unwrap()
}

fn journal(sandbox: &Sandbox) -> Vec<String> {
    let text = fs::read_to_string(sandbox.path("tuned/measured.jsonl")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn a_default_stays_unless_something_is_measured_to_be_faster() {
    let sandbox = prepared();
    let told = document(&sandbox, &[]);
    assert_eq!(told["kernel"], "vLLM 0.33.0's kernel, Triton 3.6.0");
    let file: Value = serde_json::from_slice(&content(&sandbox.path(&format!("tuned/{FILE}")))).unwrap();
    let batches = told["layers"][0]["batches"].as_array().unwrap();
    assert_eq!(batches.len(), 18);
    for batch in batches {
        let size = batch["batch_size"].as_u64().unwrap();
        let (gain, measured) = (batch["gain"].as_f64().unwrap(), &batch["measured"]);
        // The stand-in's times: the second config is a quarter faster from 64 tokens on, and all are as fast below.
        if size < 64 {
            assert_eq!((gain, &batch["config"]), (1.0, &batch["default"]), "{batch}");
        } else {
            assert!((gain - 1.25).abs() < 0.01 && batch["config"] != batch["default"], "{batch}");
        }
        assert!((measured["default_us"].as_f64().unwrap() - 200.0).abs() < 2.0, "{batch}");
        assert_eq!(measured["rounds"], 24);
        assert_eq!(file[size.to_string()]["BLOCK_SIZE_M"], batch["config"]["block_m"]);
    }
    assert_eq!(journal(&sandbox).len(), 19);

    // What is complete needs no GPU any more, and is not begun anew by mistake.
    fs::remove_file(sandbox.path("python")).unwrap();
    let said = sandbox.ok(&line(&["--resume"]));
    for words in ["18 batch sizes measured, with vLLM 0.33.0's kernel", "measured", "±", "(as it was)"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(document(&sandbox, &["--resume"])["layers"], told["layers"]);
    assert!(sandbox.fails(1, &line(&[])).contains("exists; add --force"));
    fs::remove_file(sandbox.path(&format!("tuned/{FILE}"))).unwrap();
    assert!(sandbox.fails(2, &line(&[])).contains("go on with --resume, or replace it with --force"));
    assert!(
        sandbox
            .fails(1, &line(&["--force"]))
            .contains("--measure needs a GPU, and a Python with torch and vLLM")
    );
}

#[test]
fn ctrl_c_keeps_what_was_measured_and_resume_goes_on() {
    let sandbox = prepared();
    let mut command = sandbox.command(&line(&[]));
    let mut running = command.env("SLEEP", "0.3").stdout(std::process::Stdio::null()).spawn().unwrap();
    wait_until(&mut running, || journal(&sandbox).len() > 3);
    let said = sandbox.fails(1, &line(&[]));
    assert!(said.contains("measured.jsonl: another diode measures into this folder"), "{said}");
    let said = sandbox.fails(1, &line(&["--resume"]));
    assert!(said.contains("another diode measures into this folder"), "{said}");
    let killed = Command::new("kill").args(["-INT", &running.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(running.wait().unwrap().code(), Some(130));
    let kept = journal(&sandbox);
    assert!((4..19).contains(&kept.len()), "{}", kept.len());
    let file: Value = serde_json::from_slice(&content(&sandbox.path(&format!("tuned/{FILE}")))).unwrap();
    assert_eq!(file.as_object().unwrap().len(), 18);

    let said = sandbox.fails(2, &line(&["--resume", "--picks", "4"]));
    assert!(said.contains("got a measurement of the first 8 picks, expected the first 4 picks"), "{said}");
    let other: Vec<&str> =
        line(&["--resume"]).into_iter().map(|word| if word == "2" { "4" } else { word }).collect();
    let said = sandbox.fails(2, &other);
    assert!(said.contains("got a measurement of bf16, TP 2, EP 1, expected bf16, TP 4, EP 1"), "{said}");
    // A line that was cut short is measured again.
    sandbox.write("tuned/measured.jsonl", &(kept.join("\n") + "\n{\"file\": \"E=8"));
    let told = document(&sandbox, &["--resume"]);
    let complete = journal(&sandbox);
    assert_eq!(complete.len(), 19);
    assert_eq!(complete[..kept.len()], kept);
    let batches = told["layers"][0]["batches"].as_array().unwrap();
    assert!(batches.iter().all(|batch| batch["measured"].is_object()));
    sandbox.write("tuned/measured.jsonl", "{}\n");
    assert!(sandbox.fails(2, &line(&["--resume"])).contains("that `diode tune --measure` did not write"));
}

#[test]
fn the_budget_leaves_the_rest_predicted() {
    let sandbox = prepared();
    let output = sandbox.command(&line(&["--budget", "3s"])).env("SLEEP", "0.4").output().unwrap();
    assert!(output.status.success());
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("Other times are predicted"), "{said}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the budget is spent:"), "{said}");
    // The sizes that came first are far apart.
    let sizes: Vec<Value> = journal(&sandbox)[1..]
        .iter()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["batch"].clone())
        .collect();
    assert!(!sizes.is_empty() && sizes.len() < 18, "{sizes:?}");
    let first = [json!(1), json!(3072), json!(64)];
    assert!(sizes.iter().zip(&first).all(|(size, expected)| size == expected), "{sizes:?}");
}

#[test]
fn what_was_measured_can_be_sent() {
    let sandbox = prepared();
    let said = sandbox.ok(&line(&["--upload", "--dry-run"]));
    assert!(said.contains("not sent (--dry-run)") && said.contains("nvidia-h200: 36 problems"), "{said}");
    let dataset = sandbox.dataset("tuned/measured.msgpack.zst");
    assert_eq!(dataset.provenance.node["kernel"], "vLLM 0.33.0's kernel, Triton 3.6.0");
    for solution in &dataset.solutions {
        assert!(solution.configs.len() >= 2 && solution.problem.groups.is_some());
        assert!((solution.times.nanos(0).0 - 100_000.0).abs() < 1000.0);
    }
}

#[test]
fn published_files_are_compared() {
    let sandbox = prepared();
    let folder = "vllm/model_executor/layers/fused_moe/configs";
    fs::create_dir_all(sandbox.path(folder)).unwrap();
    let entry = json!({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 32, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 1,
        "num_warps": 4, "num_stages": 3});
    sandbox.write(&format!("{folder}/{FILE}"), &json!({"16": entry, "1024": entry}).to_string());
    fs::create_dir(sandbox.path("vllm-0.33.0.dist-info")).unwrap();
    let said = sandbox.ok(&[&MODEL[..], &["--published", "."]].concat());
    assert!(said.contains("  published  ") && said.contains("published: the files of vLLM 0.33.0"), "{said}");
    let told = document(&sandbox, &["--published", "vllm", "--force"]);
    assert_eq!(told["release"], "vLLM 0.33.0");
    for batch in told["layers"][0]["batches"].as_array().unwrap() {
        assert_eq!(batch["published"]["config"]["block_n"], 32);
        assert!(batch["published"]["predicted_us"].as_f64().unwrap() > 0.0);
        assert!(batch["measured"]["published_us"].as_f64().unwrap() > 100.0, "{batch}");
    }
}

#[test]
fn what_cannot_be_measured_is_refused_in_one_line() {
    let sandbox = prepared();
    for (more, words) in [
        ("--picks 0", "--picks"),
        ("--picks 17", "--picks"),
        ("--budget 0s", "--budget"),
        ("--check tuned", "--check"),
        ("--log a.log", "--log"),
        ("--dry-run", "required arguments were not provided"),
        ("--for inductor", "torch.compile times its own kernels"),
        ("--published nowhere", "nowhere: no such folder"),
        ("--published .", "expected that of the installed package vllm"),
    ] {
        let code = if words.contains("no such folder") { 1 } else { 2 };
        let said = sandbox.fails(code, &line(&more.split(' ').collect::<Vec<_>>()));
        assert!(said.contains(words), "{more}: {said}");
    }
    let said = sandbox.fails(2, &[&MODEL[..], &["--resume"]].concat());
    assert!(said.contains("required arguments were not provided"), "{said}");
    let fails = |code, gpu: &str, more: &[&str]| {
        let output = sandbox.command(&line(more)).env("GPU", gpu).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    let said = fails(2, "NVIDIA H100 80GB HBM3", &[]);
    assert!(said.contains("--hardware: got nvidia-h200, expected nvidia-h100, which measures"), "{said}");
    assert!(fails(1, "none", &[]).contains("./python: torch 2.11.0 sees no NVIDIA GPU"));
    let said = fails(1, "dies", &[]);
    assert!(said.contains("an answer: ModuleNotFoundError: no torch; try `./python -c"), "{said}");
    assert!(
        fails(1, "refuses", &[])
            .contains("cannot time vLLM 0.33.0's kernel, Triton 3.6.0: too little memory")
    );
    assert!(sandbox.fails(1, &line(&["--out", "python/below"])).contains("cannot make the folder"));
    assert!(sandbox.fails(1, &line(&["--out", "/proc/tuned"])).contains("/proc/tuned"));
    assert!(!sandbox.path("tuned").exists(), "no empty folder is left");
}

/// A disk that takes nothing more: no half of a file is left, measured or not.
#[test]
fn a_full_disk_leaves_nothing_half_written() {
    let sandbox = prepared();
    sandbox.ok(&line(&["--out", "warm"]));
    for (more, words) in [(&MEASURE[..], "measured.jsonl"), (&[][..], FILE)] {
        let arguments = [&MODEL[..], more].concat();
        let diode = sandbox.command(&arguments);
        let mut limited = Command::new("sh");
        limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" \"$@\""]).arg(diode.get_program());
        limited.args(diode.get_args()).current_dir(sandbox.path(""));
        limited.envs(diode.get_envs().filter_map(|(name, value)| Some((name, value?))));
        let output = limited.output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("cannot write") && said.contains(words), "{said}");
        assert!(!Path::new(&sandbox.path(&format!("tuned/{FILE}"))).exists());
    }
}
