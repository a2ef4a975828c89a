//! Contributing a model: what is checked on this machine, what is sent and what is printed.

use diode_core::ids::ModelId;
use serde_json::{Value, json};

use crate::login::{refusal, server, token};
use crate::sandbox::{Sandbox, stderr};

const SHIPPED: &str = "../trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors";
const WORDS: [&str; 4] = ["--description", "good at tall & thin shapes", "--licence", "MIT OR Apache-2.0"];
const ASKED: &str =
    "POST /api/v1/models?description=good%20at%20tall%20%26%20thin%20shapes&licence=MIT%20OR%20Apache-2.0";

fn sandbox() -> (Sandbox, Vec<u8>) {
    let (sandbox, bytes) = (Sandbox::new(), std::fs::read(SHIPPED).unwrap());
    diode_formats::write_atomically(&sandbox.path("mine.safetensors"), &bytes).unwrap();
    (sandbox, bytes)
}

fn contribute<'a>(more: &[&'a str]) -> Vec<&'a str> {
    ["models", "contribute", "mine.safetensors"]
        .into_iter()
        .chain(WORDS)
        .chain(more.iter().copied())
        .collect()
}

fn answer(bytes: &[u8]) -> Value {
    let digest = diode_core::ids::Digest::of(bytes);
    json!({
        "id": ModelId::of(bytes), "heuristic": "matmul", "hardware": "nvidia-h200", "ops": ["mm"],
        "dtypes": ["bfloat16"], "feature_set": "physics/5", "parameters": 1, "digest": digest,
        "bytes": bytes.len(), "source": "contributed", "job": null, "created_at": "2026-11-20T12:00:00Z",
        "data_digest": digest, "training_problems": 209, "training_timings": 9, "evaluation": null,
        "file_name": "m.safetensors", "state": "unpublished",
        "contribution": {
            "state": "waiting", "by": "ada", "sent_at": "2026-11-23T12:00:00Z", "description": "x",
            "licence": "MIT", "without_kept": false, "figures": null, "reason": "", "job": "0123456789abcdef",
        },
    })
}

#[test]
fn a_dry_run_checks_the_file_and_sends_nothing() {
    let (sandbox, bytes) = sandbox();
    let output = sandbox.run(&contribute(&["--dry-run", "--json", "--server", "http://127.0.0.1:9"]));
    assert!(output.status.success(), "{}", stderr(&output));
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    let id = ModelId::of(&bytes);
    assert_eq!((&checked["id"], &checked["hardware"]), (&json!(id), &json!("nvidia-h200")));
    // The shipped models were trained on the kept problems, too.
    assert_eq!(checked["without_kept"], json!(false));
    assert!(stderr(&output).contains("--without-kept"), "{}", stderr(&output));
    let said = sandbox.ok(&contribute(&["--dry-run"]));
    assert!(said.contains(id.as_str()) && said.contains("nothing was sent"), "{said}");
}

#[test]
fn a_model_is_sent_with_its_words_and_the_token() {
    let (sandbox, bytes) = sandbox();
    let (address, seen) = server(vec![(ASKED, 201, answer(&bytes).to_string())]);
    let mut command = sandbox.command(&contribute(&["--server", &address]));
    let output = command.env("DIODE_TOKEN", token()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said, format!("{}  nvidia-h200  waiting  (not judged yet)\n", ModelId::of(&bytes)));
    assert_eq!(seen.join().unwrap(), [Some(format!("Bearer {}", token()))]);
}

#[test]
fn what_the_server_says_is_passed_on() {
    let (sandbox, _) = sandbox();
    let full = refusal("conflict", "5 models of your account wait for an administrator already");
    let (address, seen) = server(vec![(ASKED, 409, full)]);
    let error = sandbox.fails(1, &contribute(&["--server", &address]));
    assert!(error.contains("5 models of your account wait"), "{error}");
    seen.join().unwrap();
}

#[test]
fn bad_files_and_words_are_refused_before_anything_is_sent() {
    let (sandbox, mut bytes) = sandbox();
    *bytes.last_mut().unwrap() ^= 1;
    diode_formats::write_atomically(&sandbox.path("damaged.safetensors"), &bytes).unwrap();
    sandbox.write("text.safetensors", "no model");
    let words: Vec<&str> = WORDS.into_iter().chain(["--server", "http://127.0.0.1:9"]).collect();
    let fails = |file: &str| sandbox.fails(1, &[&["models", "contribute", file][..], &words].concat());
    assert!(fails("damaged.safetensors").contains("it was damaged or changed"));
    assert!(fails("text.safetensors").contains("not a safetensors file"));
    assert!(fails("absent.safetensors").contains("cannot read absent.safetensors"));
    let given = ["models", "contribute", "mine.safetensors", "--description", "x"];
    let without = sandbox.run(&given);
    assert_eq!((without.status.code(), stderr(&without).contains("--licence <SPDX>")), (Some(2), true));
    let wrong = [&given[..], &["--licence", "<free>"]].concat();
    assert!(sandbox.fails(2, &wrong).contains("SPDX"));
}

#[test]
fn ones_own_models_are_listed_with_what_was_found() {
    let (sandbox, bytes) = sandbox();
    let mut judged = answer(&bytes);
    judged["contribution"]["state"] = json!("declined");
    judged["contribution"]["reason"] = json!("slower on decode");
    judged["contribution"]["figures"] = json!({
        "at": "2026-11-23T12:00:00Z", "kept": null, "beside": null, "beside_kept": null, "speed": 0.9,
        "no_worse": false, "why": "on 6 kept problems it is slower",
    });
    let (address, seen) = server(vec![("GET /api/v1/contributions", 200, json!([judged]).to_string())]);
    let said = sandbox.ok(&["models", "contributed", "--server", &address]);
    let expected = "nvidia-h200  declined; slower on decode  (on 6 kept problems it is slower)\n";
    assert_eq!(said, format!("{}  {expected}", ModelId::of(&bytes)));
    seen.join().unwrap();
}
