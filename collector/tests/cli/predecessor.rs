//! torch-diode's command lines: which are accepted, and which are refused.

use serde_json::Value;

use crate::sandbox::{Sandbox, stderr};

/// Small and quick on any CPU. Every size is above 64, so that no block is cut to the problem's
/// size.
pub(crate) const SMALL: [&str; 6] = ["--min-size", "65", "--max-size", "100", "--dtypes", "fp32"];

/// torch-diode's commands with all of their flags.
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
        // Of the distributions' parameters, the guide names only the first and the last.
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
        ("train --data x --model m --batch-size 64", "leave it out, or add --model-type deep"),
        ("train --data x --model m --patience 3", "leave it out, or add --model-type deep"),
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
