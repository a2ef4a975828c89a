//! The modules of vLLM 0.33.0 and SGLang 0.5.23 that look files up, from their wheels, find the files that we write for
//! ten models, and take the config from them that we say they take.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use diode_core::Tile;
use diode_core::hardware::{Hardware, find};
use diode_workloads::file_body::{BATCH_SIZES, Body, Entry, LARGE_BATCH_SIZES};
use diode_workloads::file_names::{Consumer, DenseKey, DtypeWord, FileKey, device_name};
use serde_json::{Value, json};

use crate::wheels::{members, script};

/// Experts, their width, hidden size, whether SGLang fuses a shared expert, and how weights are scaled.
const MODELS: [(&str, u64, u64, u64, bool, Scales); 10] = [
    ("Mixtral-8x7B", 8, 14_336, 4096, false, Scales::None),
    ("Qwen3-30B-A3B-FP8", 128, 768, 2048, false, Scales::Block),
    ("Qwen3-235B-A22B-FP8", 128, 1536, 4096, false, Scales::Block),
    ("Qwen3-Next-80B-A3B", 512, 512, 2048, true, Scales::None),
    ("DeepSeek-V3", 256, 2048, 7168, true, Scales::Block),
    ("Kimi-K2", 384, 2048, 7168, false, Scales::Block),
    ("GLM-4.6-FP8", 160, 1536, 5120, true, Scales::Channel),
    ("Llama-4-Scout", 16, 8192, 5120, false, Scales::None),
    ("OLMoE-1B-7B", 64, 1024, 2048, false, Scales::None),
    ("MiniMax-M2", 256, 1536, 3072, false, Scales::Block),
];

#[derive(Clone, Copy, PartialEq)]
enum Scales {
    None,
    Channel,
    Block,
}

/// Batch sizes between and beyond those of the files.
const ASKED: [u64; 9] = [1, 3, 12, 20, 72, 700, 5000, 12_288, 40_000];

/// A file with a different config for each batch size.
fn body(salt: u64) -> Body {
    let mut body = Body::default();
    for (at, batch) in (0_u32..).zip(BATCH_SIZES.into_iter().chain(LARGE_BATCH_SIZES)) {
        let stages = 2 + (salt as u32 + at) % 4;
        body.insert(batch, Entry::of(&Tile { group_m: at + 1, ..Tile::new(16, 64, 128, stages, 4) }));
    }
    body
}

/// A question to the projects' code, with the file that it must find.
struct Asked {
    what: String,
    question: Value,
    name: String,
    body: Body,
}

#[expect(clippy::disallowed_methods, reason = "thrown away at once")]
fn write(folder: &Path, name: &str, body: &Body) {
    std::fs::create_dir_all(folder).unwrap();
    std::fs::write(folder.join(name), body.to_text()).unwrap();
}

fn ask_experts(folder: &Path, hardware: &Hardware, asked: &mut Vec<Asked>) {
    for (model, experts, width, hidden, fused, scales) in MODELS {
        for tensor in [1, 2, 4, 8] {
            let n = width / tensor;
            for consumer in [Consumer::Vllm, Consumer::Sglang] {
                let is_sglang = consumer == Consumer::Sglang;
                let block = match scales {
                    Scales::Block if is_sglang && n % 128 != 0 => continue,
                    Scales::Block if n % 128 != 0 => Some([if n % 64 == 0 { 64 } else { 32 }; 2]),
                    Scales::Block => Some([128, 128]),
                    _ => None,
                };
                for down in if is_sglang { &[false, true][..] } else { &[false] } {
                    let key = FileKey {
                        word: if scales == Scales::None { DtypeWord::None } else { DtypeWord::Fp8W8A8 },
                        block,
                        per_channel: is_sglang && scales == Scales::Channel,
                        down: *down,
                        ..FileKey::new(
                            experts + u64::from(is_sglang && fused),
                            n,
                            device_name(hardware, consumer, false),
                        )
                    };
                    let folder = folder.join(consumer.as_str());
                    let (name, body) = (key.name(consumer), body(n + key.experts));
                    write(&folder.join(consumer.folder(consumer.triton())), &name, &body);
                    let question = json!({
                        "project": consumer, "kind": "experts", "device": hardware.name, "triton": consumer.triton(),
                        "folder": folder, "dtype": key.word, "block": block, "per_channel": key.per_channel,
                        "down": down, "experts": key.experts, "n": n, "hidden": hidden, "batches": ASKED,
                    });
                    let what =
                        format!("{model} TP{tensor} for {consumer}{}", if *down { ", down" } else { "" });
                    asked.push(Asked { what, question, name, body });
                }
            }
        }
    }
}

fn ask_dense(folder: &Path, hardware: &Hardware, asked: &mut Vec<Asked>) {
    for (n, k) in [(2112, 7168), (24_576, 1536), (7168, 2048)] {
        for consumer in [Consumer::Vllm, Consumer::Sglang] {
            let device = device_name(hardware, consumer, true);
            let key = DenseKey { n, k, device, word: DtypeWord::Fp8W8A8, block: Some([128, 128]) };
            let folder = folder.join(format!("dense-{consumer}-{n}"));
            let (name, body) = (key.name(consumer), body(n));
            write(&folder, &name, &body);
            let question = json!({
                "project": consumer, "kind": "dense", "device": hardware.name, "folder": folder, "triton": "3.8.0",
                "dtype": key.word, "block": key.block, "n": n, "k": k, "batches": ASKED,
            });
            asked.push(Asked { what: format!("{n}×{k} for {consumer}"), question, name, body });
        }
    }
}

fn answers(code: &Path, asked: &[Asked]) -> Vec<Value> {
    let mut python = Command::new("python3")
        .arg(script("look_up.py"))
        .arg(code)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let questions: String = asked.iter().map(|asked| format!("{}\n", asked.question)).collect();
    let mut input = python.stdin.take().unwrap();
    let writing = std::thread::spawn(move || input.write_all(questions.as_bytes()));
    let output = python.wait_with_output().unwrap();
    writing.join().unwrap().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn both_projects_find_and_accept_every_file_of_ten_models() {
    let vllm: &[&str] = &[
        "vllm/model_executor/layers/fused_moe/fused_moe.py",
        "vllm/model_executor/layers/quantization/utils/fp8_utils.py",
        "vllm/utils/platform_utils.py",
    ];
    let sglang: &[&str] = &[
        "sglang/srt/layers/moe/moe_runner/triton_utils/fused_moe_triton_config.py",
        "sglang/kernels/ops/gemm/fp8_kernel.py",
    ];
    let Some(code) = members("code", [vllm, sglang]) else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut asked = Vec::new();
    // vLLM's files of experts are shared by the family, dense ones are not.
    let hopper = Hardware { name: "NVIDIA H200 NVL".to_owned(), ..find("nvidia-h200").unwrap() };
    ask_experts(folder.path(), &hopper, &mut asked);
    ask_dense(folder.path(), &hopper, &mut asked);
    let answers = answers(&code, &asked);
    assert_eq!(answers.len(), asked.len());
    for (asked, answer) in asked.iter().zip(&answers) {
        assert_eq!(answer["name"], asked.name, "{}", asked.what);
        for (batch, taken) in ASKED.iter().zip(answer["taken"].as_array().unwrap()) {
            let (_, ours) = asked.body.nearest(*batch).unwrap();
            let mut ours = serde_json::to_value(ours).unwrap();
            let mut taken = taken.clone();
            // Triton's own parameter that SGLang passes on beside those of the file.
            for config in [&mut ours, &mut taken] {
                config.as_object_mut().unwrap().remove("USE_TMA");
            }
            assert_eq!(taken, ours, "{} at {batch}", asked.what);
        }
    }
    assert_eq!(answers.len(), 118);
}
