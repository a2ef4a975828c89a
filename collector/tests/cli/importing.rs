//! Reading the tuned files of a release of vLLM or SGLang.

use serde_json::Value;

use crate::sandbox::Sandbox;

const EXPERTS: &str = "site/vllm/model_executor/layers/fused_moe/configs";
const DENSE: &str = "site/vllm/model_executor/layers/quantization/utils/configs";
const SGLANG: &str = "site/sglang/srt/layers/moe/moe_runner/triton_utils/configs/triton_3_5_1";
const NAME: &str = "E=128,N=384,device_name=NVIDIA_H200";
const ENTRY: &str = r#"{"BLOCK_SIZE_M": 16, "BLOCK_SIZE_N": 64, "BLOCK_SIZE_K": 128, "GROUP_SIZE_M": 1, "num_warps": 4, "num_stages": 4}"#;

/// A folder with an installed vLLM of a few files.
fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    for folder in [EXPERTS, DENSE, SGLANG, "site/vllm-0.33.0.dist-info"] {
        std::fs::create_dir_all(sandbox.path(folder)).unwrap();
    }
    sandbox.write(&format!("{EXPERTS}/{NAME}.json"), &format!("{{\"16\": {ENTRY}, \"64\": {ENTRY}}}"));
    sandbox.write(&format!("{EXPERTS}/README.md"), "not tuned");
    sandbox.write(
        &format!("{DENSE}/N=2112,K=7168,device_name=NVIDIA_H200,dtype=int8_w8a8,block_shape=[128,128].json"),
        &format!("{{\"1\": {ENTRY}}}"),
    );
    sandbox.write(&format!("{SGLANG}/{NAME}.json"), &format!("{{\"16\": {ENTRY}}}"));
    sandbox
}

#[test]
fn a_release_is_read_with_what_each_file_covers() {
    let sandbox = sandbox();
    let said = sandbox.ok(&["import", "vllm", "site"]);
    assert!(said.starts_with("vLLM 0.33.0: tuned files\n"), "{said}");
    assert!(said.contains("NVIDIA_H200"), "{said}");
    assert!(said.contains("unread: vLLM has no reader for such dense files"), "{said}");
    assert!(said.contains("Wrote 2 files to "), "{said}");
    let listed = sandbox.ok(&["import", "vllm", "site/vllm", "--device", "NVIDIA_H200"]);
    assert!(
        listed.contains("128 experts of 384 in 16 bits") && listed.contains("2 from 16 to 64"),
        "{listed}"
    );
    let document: Value = serde_json::from_str(&sandbox.ok(&["import", "vllm", "site", "--json"])).unwrap();
    assert_eq!(document["version"], "0.33.0");
    assert_eq!(document["files"][0]["batches"], serde_json::json!([16, 64]));
    let written = sandbox.path("data/diode/published/vllm-0.33.0.json");
    let written: Value = serde_json::from_slice(&crate::sandbox::content(&written)).unwrap();
    assert_eq!(written["format"], "diode-published/1");
    assert_eq!(written["files"][0]["body"]["16"]["num_stages"], 4);
}

#[test]
fn what_cannot_be_read_is_named() {
    let sandbox = sandbox();
    for (arguments, code, said) in [
        (&["import", "vllm", "none"][..], 1, "none: no such folder"),
        (
            &["import", "vllm", "site/vllm/model_executor"],
            2,
            "got a folder without vllm/model_executor/layers/fused_moe/configs",
        ),
        (&["import", "sglang", "site"], 1, "no sglang-VERSION.dist-info beside"),
        (
            &["import", "sglang", "site", "--release", "../x"],
            2,
            "got `../x`, expected a version such as 0.33.0",
        ),
        (&["import", "torch", "site"], 2, "one of vllm sglang"),
        (&["import", "vllm", "site", "--output", "site/x/y.json"], 1, "no such folder; create it first"),
        (&["import", "vllm", "site", "--output", "site/there.json"], 1, "exists; add --force to replace it"),
    ] {
        sandbox.write("site/there.json", "{}");
        let error = sandbox.fails(code, arguments);
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
    assert_eq!(crate::sandbox::content(&sandbox.path("site/there.json")), b"{}");
    let said = sandbox.fails(1, &["import", "vllm", "site", "--output", "/dev/stdout", "--force"]);
    assert!(said.contains("/dev/stdout: got a link"), "{said}");
    for (file, text) in [("E=8,N=1.json", "{}"), ("E=8,N=1,device_name=D.json", "{\"1\": ")] {
        sandbox.write(&format!("{EXPERTS}/{file}"), text);
    }
    let output = sandbox.run(&["import", "vllm", "site"]);
    let said = crate::sandbox::stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    for line in
        ["device_name: got no such part", "got EOF while parsing a value", "error: 2 files could not be read"]
    {
        assert!(said.contains(line), "{said}");
    }
    assert!(String::from_utf8_lossy(&output.stdout).contains("Wrote 2 files to "));
}

#[test]
fn a_prediction_names_what_was_read() {
    let sandbox = sandbox();
    let asked = ["predict", "moe 128x384x4096 top8 16 tokens bf16", "--hardware", "nvidia-h200"];
    assert!(!sandbox.ok(&asked).contains("vLLM 0.33.0"), "nothing was read");
    sandbox.ok(&["import", "vllm", "site"]);
    sandbox.ok(&["import", "sglang", "site", "--release", "0.5.23"]);
    let said = sandbox.ok(&asked);
    let published = said.split("Published files:\n").nth(1).unwrap();
    for name in ["vLLM's default", "vLLM 0.33.0", "SGLang's default", "SGLang 0.5.23"] {
        assert_eq!(published.matches(&format!("  {name}  ")).count(), 2, "{published}");
    }
    assert!(published.contains("E=128,N=384,device_name=NVIDIA_H200.json at 16"), "{published}");
    // A damaged file is named, and the others are read.
    sandbox.write("data/diode/published/vllm-0.33.0.json", "{");
    let output = sandbox.run(&asked);
    let warned = crate::sandbox::stderr(&output);
    assert!(
        warned.contains("vllm-0.33.0.json: ") && warned.contains("import it again or delete it"),
        "{warned}"
    );
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("SGLang 0.5.23") && !said.contains("vLLM 0.33.0"), "{said}");
    sandbox.ok(&["import", "vllm", "site"]);
    let asked = ["predict", "moe 128x384x4096 top8 60 tokens bf16", "--hardware", "nvidia-h200", "--json"];
    let document: Value = serde_json::from_str(&sandbox.ok(&asked)).unwrap();
    let rivals = document[0]["published"].as_array().unwrap();
    let rival = rivals.iter().find(|rival| rival["name"] == "vLLM 0.33.0").unwrap();
    assert_eq!(rival["config"], "16×64×128 s4 w4", "{document}");
    assert_eq!(rival["from"], "E=128,N=384,device_name=NVIDIA_H200.json at 64");
    assert!(rival["predicted_us"].as_f64().unwrap() > 1.0);
}
