//! Files of kernel configs for servers of models.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};

use crate::sandbox::{Sandbox, stderr};

const QWEN: [&str; 6] = ["tune", "Qwen3-235B-A22B", "--tp", "4", "--hardware", "nvidia-h200"];
const SIZES: [u64; 18] = [1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096];

fn tune(sandbox: &Sandbox, arguments: &[&str]) -> Value {
    let said =
        sandbox.ok(&[&["tune"], arguments, &["--hardware", "nvidia-h200", "--format", "json"]].concat());
    serde_json::from_str(&said).unwrap()
}

fn read(sandbox: &Sandbox, name: &str) -> serde_json::Map<String, Value> {
    serde_json::from_slice(&crate::sandbox::content(&sandbox.path(name))).unwrap()
}

/// The files below a folder, in order.
fn below(folder: PathBuf) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(&folder).into_iter().flatten().map(Result::unwrap) {
        let path = entry.path();
        let name = entry.file_name().into_string().unwrap();
        if path.is_dir() {
            found.extend(below(path).into_iter().map(|inner| format!("{name}/{inner}")));
        } else {
            found.push(name);
        }
    }
    found.sort();
    found
}

#[test]
fn vllm_gets_a_file_with_a_config_for_every_batch_size() {
    let sandbox = Sandbox::new();
    let said = sandbox.ok(&[&QWEN[..], &["--quantization", "fp8"]].concat());
    let name = "E=128,N=384,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    for words in [
        "Qwen3-235B-A22B in fp8-block, TP 4, on NVIDIA H200",
        name,
        "export VLLM_TUNED_CONFIG_FOLDER=/",
        "within 5 %",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(below(sandbox.path("tuned")), [name]);
    let file = read(&sandbox, &format!("tuned/{name}"));
    for size in SIZES {
        let entry = file[&size.to_string()].as_object().unwrap();
        let keys =
            ["BLOCK_SIZE_M", "BLOCK_SIZE_N", "BLOCK_SIZE_K", "GROUP_SIZE_M", "num_warps", "num_stages"];
        assert!(entry.len() == 6 && keys.iter().all(|key| entry[*key].is_u64()), "{size}: {entry:?}");
    }
    // The same again changes nothing, and other configs need --force.
    let again = sandbox.ok(&[&QWEN[..], &["--quantization", "fp8"]].concat());
    assert!(again.contains("(as it was)"), "{again}");
    sandbox.write(&format!("tuned/{name}"), "{}");
    assert!(sandbox.fails(1, &[&QWEN[..], &["--quantization", "fp8"]].concat()).contains("--force"));
    sandbox.ok(&[&QWEN[..], &["--quantization", "fp8", "--force"]].concat());
    assert_eq!(read(&sandbox, &format!("tuned/{name}")), file);
    let judged = sandbox.ok(&["tune", "--check", "tuned", "--hardware", "nvidia-h200", "--for", "vllm"]);
    assert!(judged.starts_with("1 file for vLLM\n"), "{judged}");
}

#[test]
fn a_default_stays_unless_another_config_is_clearly_faster() {
    let sandbox = Sandbox::new();
    let told = tune(&sandbox, &["Qwen3-235B-A22B", "--tp", "4", "--quantization", "bf16"]);
    assert_eq!((&told["model"], &told["quantization"]), (&json!("Qwen3-235B-A22B"), &json!("bf16")));
    let layer = &told["layers"][0];
    let margin = layer["margin"].as_f64().unwrap();
    assert!(margin > 0.0 && layer["within_5_percent"].as_f64().unwrap() > 0.8, "{layer}");
    let batches = layer["batches"].as_array().unwrap();
    assert_eq!(batches.iter().map(|batch| batch["batch_size"].as_u64().unwrap()).collect::<Vec<_>>(), SIZES);
    for batch in batches {
        let gain = batch["gain"].as_f64().unwrap();
        if batch["keeps_default"] == true {
            assert_eq!((gain, &batch["config"]), (1.0, &batch["default"]));
        } else {
            assert!(gain > 1.0 + margin, "{batch}");
        }
    }
    assert!(batches.iter().any(|batch| batch["keeps_default"] == false));
}

#[test]
fn sglang_gets_two_files_with_blocks_of_one_height() {
    let sandbox = Sandbox::new();
    let told = tune(&sandbox, &["deepseek-ai/DeepSeek-V3", "--tp", "8", "--for", "sglang", "--out", "out"]);
    let name = "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128]";
    let files = below(sandbox.path("out"));
    let expected = [".json", "_down.json"].map(|end| format!("configs/triton_3_8_0/{name}{end}"));
    assert_eq!(files, expected);
    let [up, down] = expected.map(|file| read(&sandbox, &format!("out/{file}")));
    for (size, entry) in &up {
        assert_eq!(entry["BLOCK_SIZE_M"], down[size]["BLOCK_SIZE_M"], "{size}");
        assert!([64, 128].contains(&entry["BLOCK_SIZE_K"].as_u64().unwrap()), "{size}: {entry}");
    }
    assert_eq!((up.len(), told["variable"]["name"].as_str()), (18, Some("SGLANG_MOE_CONFIG_DIR")));
    assert!(told["notes"].to_string().contains("replaces SGLang's own files"), "{told}");

    let dense = tune(&sandbox, &["Qwen3-8B", "--quantization", "fp8", "--for", "sglang", "--out", "dense"]);
    let files = below(sandbox.path("dense"));
    assert_eq!(files.len(), 4, "{files:?}");
    assert!(files[0].starts_with("N=24576,K=4096,device_name=NVIDIA_H200,dtype=fp8_w8a8"), "{files:?}");
    assert!(dense["notes"].to_string().contains("sglang/kernels/ops/gemm/configs"), "{dense}");
}

#[test]
fn inductor_gets_a_lookup_table_of_the_dense_layers() {
    let sandbox = Sandbox::new();
    tune(&sandbox, &["Llama-3.2-1B", "--for", "inductor"]);
    assert_eq!(below(sandbox.path("tuned")), ["lookup.json"]);
    let table = read(&sandbox, "tuned/lookup.json");
    let key =
        "NVIDIA H200+((torch.bfloat16, [16, 2048], [2048, 1]), (torch.bfloat16, [2048, 2048], [1, 2048]))+mm";
    assert!(table[key][0]["template_id"].is_string(), "{:?}", table.keys().next());
    let config = json!({"hidden_size": 256, "num_hidden_layers": 2, "intermediate_size": 512,
        "quantization_config": {"quant_method": "fp8"}});
    sandbox.write("fp8.json", &config.to_string());
    let told = tune(&sandbox, &["fp8.json", "--for", "inductor", "--out", "fp8"]);
    assert!(
        told["notes"].to_string().contains("weights are fp8-tensor; the table is of its dense"),
        "{told}"
    );
    let said = sandbox.fails(
        2,
        &["tune", "Llama-3.2-1B", "--for", "inductor", "--quantization", "fp8", "--hardware", "nvidia-h200"],
    );
    assert!(said.contains("expected bf16: Inductor's lookup table has no scaled"), "{said}");
}

#[test]
fn a_config_file_is_as_good_as_a_name() {
    let sandbox = Sandbox::new();
    let config = json!({"model_type": "qwen3_moe", "hidden_size": 4096, "num_hidden_layers": 94,
        "num_attention_heads": 64, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
        "num_experts_per_tok": 8, "moe_intermediate_size": 1536,
        "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}});
    fs::create_dir(sandbox.path("model")).unwrap();
    sandbox.write("model/config.json", &config.to_string());
    let by_path = tune(&sandbox, &["./model", "--tp", "4", "--out", "a"]);
    let by_name = tune(&sandbox, &["Qwen3-235B-A22B-FP8", "--tp", "4", "--out", "b"]);
    assert_eq!(by_path["layers"], by_name["layers"]);
    assert_eq!(below(sandbox.path("a")), below(sandbox.path("b")));
}

#[test]
fn a_log_names_the_files_to_write() {
    let sandbox = Sandbox::new();
    let line = |name: &str| {
        format!(
            "(Worker_TP0 pid=1013) WARNING 05-07 09:05:19 [fused_moe.py:1090] Using default MoE config. Performance \
             might be sub-optimal! Config file not found at /opt/vllm/model_executor/layers/fused_moe/configs/{name}\n"
        )
    };
    let qwen = "E=160,N=320,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[64,64].json";
    sandbox.write("serve.log", &format!("INFO start\n{0}{0}", line(qwen)));
    let said = sandbox.ok(&["tune", "--log", "serve.log", "--out", "out"]);
    assert!(said.contains("160 experts of 320") && said.contains("nobody has measured"), "{said}");
    assert_eq!(below(sandbox.path("out")), [qwen]);

    // Two models look for this one, so it must be said which.
    let shared = "E=128,N=768,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128,128].json";
    sandbox.write("shared.log", &line(shared));
    let said = sandbox.fails(2, &["tune", "--log", "shared.log", "--out", "shared"]);
    assert!(said.contains("Qwen3-30B-A3B and Qwen3-235B-A22B look for it"), "{said}");
    sandbox.ok(&["tune", "Qwen3-30B-A3B", "--log", "shared.log", "--out", "shared"]);
    assert_eq!(below(sandbox.path("shared")), [shared]);

    // The log's settings tell it too.
    let settings =
        "config: model='Qwen/Qwen3-235B-A22B-FP8', tensor_parallel_size=2, pipeline_parallel_size=1";
    sandbox.write("told.log", &format!("{settings}\n{}", line(shared)));
    let said = sandbox.ok(&["tune", "--log", "told.log", "--out", "told"]);
    assert!(said.starts_with("Qwen3-235B-A22B, on NVIDIA H200"), "{said}");
    assert!(
        said.contains("hidden size 4096") && said.contains("the log is of Qwen3-235B-A22B, TP 2"),
        "{said}"
    );

    for (log, more, words) in [
        (qwen, "nvidia-h100", "--hardware: got nvidia-h100, expected nvidia-h200, which the log names"),
        (&qwen.replace("H200", "X9"), "nvidia-h200", "the log names NVIDIA_X9, which Diode doesn't know"),
    ] {
        sandbox.write("odd.log", &line(log));
        let said = sandbox.fails(2, &["tune", "--log", "odd.log", "--hardware", more, "--out", "odd"]);
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(below(sandbox.path("odd")), <[String; 0]>::default());

    sandbox.write("other.log", "INFO all is well\n");
    let said = sandbox.fails(2, &["tune", "--log", "other.log"]);
    assert!(said.contains("got a log that names no missing file, expected"), "{said}");
}

#[test]
fn files_that_compute_wrong_sums_are_named() {
    let sandbox = Sandbox::new();
    let entry = json!({"BLOCK_SIZE_M": 64, "BLOCK_SIZE_N": 128, "BLOCK_SIZE_K": 256, "GROUP_SIZE_M": 1,
        "num_warps": 4, "num_stages": 3});
    let name = "E=512,N=256,device_name=NVIDIA_H100_80GB_HBM3,dtype=fp8_w8a8,block_shape=[128, 128].json";
    fs::create_dir_all(sandbox.path("c/configs/triton_3_5_1")).unwrap();
    sandbox.write(&format!("c/configs/triton_3_5_1/{name}"), &json!({"64": entry}).to_string());
    let output = sandbox.run(&["tune", "--check", "c"]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said.contains("wrong: ") && said.contains("at batch size 64"), "{said}");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("judged for SGLang, by the names of most files"), "{told}");
    // A served model says how it finds the file, or that it never does.
    let mine = r#"{"hidden_size": 2048, "num_hidden_layers": 4, "num_experts": 512, "num_experts_per_tok": 10,
        "moe_intermediate_size": 512}"#;
    sandbox.write("mine.json", mine);
    for (model, words) in [
        ("mine.json", "mine.json looks for it at --tp 2 --ep 1"),
        ("Qwen3-30B-A3B", "Qwen3-30B-A3B never looks for it, on 1 to 64 GPUs"),
    ] {
        let said = String::from_utf8(sandbox.run(&["tune", model, "--check", "c"]).stdout).unwrap();
        assert!(said.contains(words) && !said.contains("shared by"), "{said}");
    }
    assert!(sandbox.fails(2, &["tune", "--check", "nowhere"]).contains("nowhere"));
}

#[test]
fn models_are_listed_with_their_sizes() {
    let sandbox = Sandbox::new();
    let all = sandbox.ok(&["tune", "--list"]);
    assert!(all.lines().count() > 70, "{all}");
    let said = sandbox.ok(&["tune", "--list", "qwen3-235"]);
    assert_eq!(said.lines().count(), 2, "{said}");
    let row: Vec<&str> = said.lines().nth(1).unwrap().split("  ").filter(|cell| !cell.is_empty()).collect();
    let row: Vec<&str> = row.into_iter().map(str::trim).collect();
    assert_eq!(row, ["Qwen3-235B-A22B", "experts", "bf16, fp8-block", "128 of 1536, top 8", "4096"]);
    let told: Value =
        serde_json::from_str(&sandbox.ok(&["tune", "--list", "vision", "--format", "json"])).unwrap();
    let rows = told.as_array().unwrap();
    let is_vision = |row: &Value| row["tags"].as_array().unwrap().contains(&json!("vision"));
    assert!(!rows.is_empty() && rows.iter().all(is_vision), "{told}");
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_named_and_does_not_end_the_check() {
    let sandbox = Sandbox::new();
    fs::create_dir_all(sandbox.path("c/folder.json")).unwrap();
    std::os::unix::fs::symlink("nowhere", sandbox.path("c/dead.json")).unwrap();
    let pipe = sandbox.path("c/pipe.json");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = sandbox.run(&["tune", "--check", "c", "--for", "vllm", "--format", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let said: Vec<String> =
        findings.iter().map(|finding| format!("{} {}", finding["file"], finding["severity"])).collect();
    let expected = [("dead.json", "unread"), ("folder.json", "note"), ("pipe.json", "note")];
    assert_eq!(said, expected.map(|(file, severity)| format!("\"{file}\" \"{severity}\"")));
}

#[test]
fn what_cannot_be_tuned_is_refused_in_one_line() {
    let sandbox = Sandbox::new();
    let moe = r#"{"model_type": "mixtral", "hidden_size": 4096, "num_hidden_layers": 32, "num_local_experts": 8,
        "num_experts_per_tok": 2, "intermediate_size": 14336"#;
    let int4 = format!(r#"{moe}, "quantization_config": {{"quant_method": "awq"}}}}"#);
    for (name, text) in [
        ("truncated.json", moe),
        ("int4.json", &int4),
        ("empty.json", "{}"),
        ("list.json", "[]"),
        ("dense.json", r#"{"hidden_size": 4096, "num_hidden_layers": 32, "intermediate_size": 14336}"#),
        (
            "odd.json",
            r#"{"hidden_size": 100, "num_hidden_layers": 2, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 90}"#,
        ),
    ] {
        sandbox.write(name, text);
    }
    diode_formats::write_atomically(&sandbox.path("bytes.json"), &[0xff, 0xfe]).unwrap();
    for (arguments, words) in [
        ("truncated.json", "truncated.json: got text that is not JSON (EOF"),
        ("int4.json", "Diode doesn't tune this form (awq); it knows fp8 and bf16"),
        ("empty.json", "empty.json: got no `hidden_size`"),
        ("list.json", "list.json: got a list, expected a JSON object"),
        ("bytes.json", "bytes.json: got bytes that are not UTF-8"),
        ("nowhere.json", "nowhere.json"),
        ("dense.json", "vLLM reads no files for dense layers on CUDA"),
        ("odd.json --tp 4", "--tp 4: odd.json: width of an expert: got 90, expected a multiple of 4"),
        ("odd.json --quantization fp8-block", "got a hidden size of 100, expected a multiple of 128"),
        ("Llama-3.1-8B", "Llama-3.1-8B: got a model without experts"),
        (
            "Llama-3.1-8B --for sglang --quantization bf16",
            "expected fp8-block, which is what SGLang reads files for",
        ),
        ("Llama-3.1-8B --for inductor --tp 3", "--tp 3: Llama-3.1-8B: attention heads: got 32"),
        ("Mixtral-8x7B --for inductor --tp 64", "--tp 64: Mixtral-8x7B: attention heads: got 32"),
        ("Mixtral-8x7B --tp 64", "--tp 64: Mixtral-8x7B: attention heads: got 32"),
        ("Mixtral-8x7B --for inductor --tp 3", "width of an expert: got 14336"),
        (
            "Qwen3-31B-A3B",
            "MODEL: got `Qwen3-31B-A3B`, expected a model that `diode tune --list` names, such as",
        ),
        ("zzz", "MODEL: got `zzz`, expected a model that `diode tune --list` names, or"),
        (
            "Mixtral-8x7B --tp 3",
            "--tp 3: Mixtral-8x7B: width of an expert: got 14336, expected a multiple of 3",
        ),
        ("Mixtral-8x7B --ep 3", "--ep 3: Mixtral-8x7B: experts: got 8, expected a multiple of 3"),
        ("Mixtral-8x7B --tp 8 --ep 4", "--ep 4: Mixtral-8x7B: expert parallelism: got 4"),
        ("Mixtral-8x7B --tp 2 --ep 4 --for sglang", "expected a divisor of 2"),
        ("Mixtral-8x7B --quantization int3", "--quantization: got `int3`, expected fp8 or one of bf16"),
        ("Mixtral-8x7B --quantization FP8", "--quantization: got `FP8`"),
        ("Qwen3-30B-A3B --tp 4 --quantization fp8 --for sglang", "SGLang does not run it"),
        ("Qwen3-30B-A3B --tp 8 --quantization fp8", "nobody has measured smaller blocks"),
        ("GLM-4.5-Air --tp 8 --quantization fp8-block", "got 176 columns of an expert"),
        ("gpt-oss-20b --quantization fp8-block", "got a hidden size of 2880, expected a multiple of 128"),
        ("gpt-oss-20b", "Diode doesn't tune this form (mxfp4)"),
    ] {
        let line: Vec<&str> = arguments.split(' ').collect();
        let said = sandbox.fails(2, &[&["tune"], &line[..], &["--hardware", "nvidia-h200"]].concat());
        assert!(said.contains(words), "{arguments}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{arguments}: {said}");
    }
    for (arguments, words) in [
        ("Mixtral-8x7B --hardware nvidia-x9", "--hardware: got `nvidia-x9`"),
        ("Mixtral-8x7B --tp 0", "--tp"),
        ("Mixtral-8x7B --tp -1", "--tp"),
        ("Mixtral-8x7B --for tgi", "--for"),
        ("--log a.log --check b", "--check"),
        ("--list --tp 2", "--tp"),
        ("--check truncated.json", "--check: got the file truncated.json, expected a folder"),
        ("--list zzz", "MODEL: got `zzz`, which none of the"),
        ("nowhere.json --check b", "nowhere.json"),
        ("--log nowhere.log --hardware nvidia-h200", "nowhere.log"),
        ("Mixtral-8x7B --hardware nvidia-h200 --picks 4", "--measure"),
        ("Mixtral-8x7B --hardware nvidia-h200 --budget 1m", "--measure"),
        ("--hardware nvidia-h200", "required arguments were not provided"),
    ] {
        let line: Vec<&str> = arguments.split(' ').collect();
        // Clap names a missing argument on a line of its own.
        let output = sandbox.run(&[&["tune"], &line[..]].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.contains(words), "{arguments}: {said}");
    }
    let asked = ["tune", "Mixtral-8x7B", "--hardware", "nvidia-h200", "--published", "nowhere"];
    let said = sandbox.fails(1, &asked);
    assert!(said.contains("--published: nowhere: no such folder"), "{said}");
    assert_eq!(below(sandbox.path("tuned")), <[String; 0]>::default());
}

#[cfg(target_os = "linux")]
#[test]
fn nothing_is_left_half_written() {
    let sandbox = Sandbox::new();
    let line = ["Mixtral-8x7B", "--hardware", "nvidia-h200", "--out"];
    let fails = |out: &str| sandbox.fails(1, &[&["tune"], &line[..], &[out]].concat());
    // /dev/full would be a file; a folder that cannot be made is one below a file.
    sandbox.write("file", "");
    assert!(fails("file/below").contains("cannot make the folder"));
    assert!(fails("/proc/tuned").contains("/proc/tuned"));
    // A name that is taken by a folder: the first of the pair was new and is taken back.
    let name = "E=257,N=256,device_name=NVIDIA_H200,dtype=fp8_w8a8,block_shape=[128, 128].json";
    let folder = sandbox.path("out/configs/triton_3_8_0");
    fs::create_dir_all(folder.join(name)).unwrap();
    let deepseek =
        ["tune", "DeepSeek-V3", "--tp", "8", "--for", "sglang", "--hardware", "nvidia-h200", "--out", "out"];
    sandbox.fails(1, &[&deepseek[..], &["--force"]].concat());
    assert_eq!(below(folder), <[String; 0]>::default());
}

/// Two programs that write other configs to one new file at once: one of them fails.
#[test]
fn of_two_writers_without_force_one_fails() {
    let sandbox = Sandbox::new();
    let line = |model, tp| ["tune", model, "--tp", tp, "--hardware", "nvidia-h200", "--quantization", "bf16"];
    let both = [("Qwen3-30B-A3B", "1"), ("Qwen3-235B-A22B", "2")].map(|(model, tp)| {
        let mut command = sandbox.command(&line(model, tp));
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    });
    let ended = both.map(|writer| writer.wait_with_output().unwrap());
    let failed: Vec<_> = ended.iter().filter(|output| !output.status.success()).collect();
    assert_eq!(failed.len(), 1);
    let said = stderr(failed[0]);
    assert!(said.contains("E=128,N=768,device_name=NVIDIA_H200.json exists; add --force"), "{said}");
}

#[cfg(unix)]
#[test]
fn a_link_is_not_replaced() {
    let sandbox = Sandbox::new();
    sandbox.write("precious", "kept");
    fs::create_dir(sandbox.path("tuned")).unwrap();
    let name = "tuned/E=8,N=7168,device_name=NVIDIA_H200.json";
    std::os::unix::fs::symlink(sandbox.path("precious"), sandbox.path(name)).unwrap();
    let said =
        sandbox.fails(1, &["tune", "Mixtral-8x7B", "--tp", "2", "--hardware", "nvidia-h200", "--force"]);
    assert!(said.contains("got a link, which is neither followed nor replaced"), "{said}");
    assert!(sandbox.path(name).is_symlink());
    assert_eq!(crate::sandbox::content(&sandbox.path("precious")), b"kept");
}

/// Two programs that write the same files at once: each file is whole.
#[test]
fn two_writers_leave_whole_files() {
    let sandbox = Sandbox::new();
    let line = ["tune", "Mixtral-8x7B", "--tp", "2", "--hardware", "nvidia-h200", "--force"];
    let mut both =
        [0, 1].map(|_| sandbox.command(&line).stdout(std::process::Stdio::null()).spawn().unwrap());
    for writer in &mut both {
        assert!(writer.wait().unwrap().success());
    }
    assert_eq!(below(sandbox.path("tuned")), ["E=8,N=7168,device_name=NVIDIA_H200.json"]);
    assert_eq!(read(&sandbox, "tuned/E=8,N=7168,device_name=NVIDIA_H200.json").len(), 18);
}
