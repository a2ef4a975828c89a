//! Trainings that end early, and trainings with several seeds.

use std::process::{Command, Stdio};

use crate::sandbox::{Sandbox, content, stderr, wait_until};

/// Twelve problems with all configs, which take some seconds to train on.
const DATA: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../trained_models/matmul/nvidia-h200/data/h200-mm-fp32.msgpack.zst"
);

fn train<'a>(model: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["train", "--data", DATA, "--model", model, "--folds", "3", "--epochs", "60"], more].concat()
}

/// Starts a training, and sends it a signal as soon as it has learnt its first network.
#[cfg(unix)]
fn ended_early(sandbox: &Sandbox, signal: &str) -> std::process::Output {
    let mut command = sandbox.command(&train("m.safetensors", &[]));
    let mut child =
        command.env("SOURCE_DATE_EPOCH", "1").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(&mut child, || sandbox.path("m.safetensors.partial").exists());
    let killed = Command::new("kill").args([signal, &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    child.wait_with_output().unwrap()
}

#[cfg(unix)]
#[test]
fn a_training_that_ended_early_goes_on_to_the_same_end() {
    let (whole, killed, stopped) = (Sandbox::new(), Sandbox::new(), Sandbox::new());
    let finish = |sandbox: &Sandbox| {
        let output =
            sandbox.command(&train("m.safetensors", &[])).env("SOURCE_DATE_EPOCH", "1").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(!sandbox.path("m.safetensors.partial").exists());
        (stderr(&output), content(&sandbox.path("m.safetensors")))
    };
    let (_, expected) = finish(&whole);

    assert!(!ended_early(&killed, "-KILL").status.success());
    assert!(!killed.path("m.safetensors").exists(), "it is written when it is done");
    let (said, bytes) = finish(&killed);
    assert!(said.contains("going on from") && bytes == expected, "{said}");

    let output = ended_early(&stopped, "-INT");
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(stderr(&output).contains("goes on"), "{}", stderr(&output));
    assert!(!stopped.path("m.safetensors").exists(), "a model that is not finished is not written");
    let (said, bytes) = finish(&stopped);
    assert!(said.contains("going on from") && bytes == expected, "{said}");
}

#[cfg(target_os = "linux")]
#[test]
fn one_core_and_all_cores_train_the_same_bytes() {
    let sandbox = Sandbox::new();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let cores = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    let first = cores.split([',', '-']).next().unwrap();
    let trained = |model: &str, cores: &str| {
        let diode = sandbox.command(&train(model, &[]));
        let mut command = Command::new("taskset");
        command.args(["--cpu-list", cores]).arg(diode.get_program()).args(diode.get_args());
        let output = command.current_dir(sandbox.path("")).env("SOURCE_DATE_EPOCH", "1").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        content(&sandbox.path(model))
    };
    assert!(trained("one.safetensors", first) == trained("all.safetensors", cores), "the models differ");
}

#[test]
fn of_several_seeds_the_best_is_kept() {
    let sandbox = Sandbox::new();
    let output = sandbox.run(&train("m.safetensors", &["--seeds", "2", "--seed", "7"]));
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    let shares: Vec<(u64, f64)> = said
        .lines()
        .filter_map(|line| line.strip_prefix("seed ")?.split_once(": first picks reach "))
        .map(|(seed, rest)| (seed.parse().unwrap(), rest.split(' ').next().unwrap().parse().unwrap()))
        .collect();
    assert_eq!(shares.iter().map(|(seed, _)| *seed).collect::<Vec<_>>(), [7, 8], "{said}");
    let (best, _) =
        shares.into_iter().reduce(|best, next| if next.1 > best.1 { next } else { best }).unwrap();
    let model = diode_model::Model::from_bytes(&content(&sandbox.path("m.safetensors"))).unwrap();
    assert_eq!(model.metadata().training.seed, best);
    let left = std::fs::read_dir(sandbox.path("")).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(left.collect::<Vec<_>>(), ["m.safetensors"]);

    let error = sandbox
        .fails(2, &["train", "--data", DATA, "--model", "n.safetensors", "--seeds", "2", "--folds", "0"]);
    assert!(error.contains("--folds 0"), "{error}");
}
