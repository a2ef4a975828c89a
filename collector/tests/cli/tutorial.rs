//! Runs the tutorial. Its commands are taken from the document.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::sandbox::{Sandbox, content};

const TUTORIAL: &str = include_str!("../../../docs/guides/tutorial.md");
const WORKFLOW: &str = include_str!("../../../docs/guides/tutorial.sh");

/// The text of all `sh` blocks of a document, in order.
fn commands(document: &str) -> String {
    let blocks = document.split("```sh\n").skip(1);
    blocks.map(|block| block.split("```").next().unwrap()).collect()
}

/// Runs a script in the sandbox's folder. The built `diode` comes first in the path.
fn run(sandbox: &Sandbox, script: &str) -> String {
    let folder = Path::new(env!("CARGO_BIN_EXE_diode")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(sandbox.path("."))
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn json(sandbox: &Sandbox, name: &str) -> Value {
    serde_json::from_slice(&content(&sandbox.path(name))).unwrap()
}

#[test]
fn every_step_of_the_tutorial_works() {
    let sandbox = Sandbox::new();
    let script = commands(TUTORIAL);
    for command in ["collect", "create-validation", "train", "validate-model", "validate-max-autotune"] {
        assert!(script.contains(&format!("diode {command} ")), "{command}: {script}");
    }
    let printed = run(&sandbox, &script);
    assert!(printed.contains("RMSE (exp)") && printed.contains("median speedup"), "{printed}");
    assert_eq!(sandbox.dataset("train.msgpack.zst").solutions.len(), 16);
    assert_eq!(sandbox.dataset("packed/validation.msgpack"), sandbox.dataset("validation.json"));
    let report = json(&sandbox, "model_performance_analysis_by_op.json");
    assert_eq!(report["overall"]["top_1"]["shapes_analyzed"], 6);
}

#[test]
fn the_whole_workflow_is_one_script() {
    let sandbox = Sandbox::new();
    let printed = run(&sandbox, WORKFLOW);
    assert!(printed.contains("Worst first picks"), "{printed}");
    let report = json(&sandbox, "workflow/against_max_autotune.json");
    assert_eq!(report["overall"]["top_500"]["shapes_analyzed"], 6);
}
