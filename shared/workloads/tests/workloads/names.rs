//! The names that the catalogue's models give are those of the files that both projects ship, where they ship one.

use std::collections::BTreeSet;

use diode_core::hardware::Hardware;
use diode_workloads::catalogue;
use diode_workloads::file_names::{Consumer, device_name};
use diode_workloads::layers::Serving;
use diode_workloads::model_config::Quantization::{self, Bf16, Fp8Block, Fp8Channel};

use crate::published::published;

const DEVICES: [&str; 5] =
    ["NVIDIA H100 80GB HBM3", "NVIDIA H200", "NVIDIA B200", "AMD Instinct MI300X", "NVIDIA A100-SXM4-80GB"];

/// The tensor parallel sizes for which vLLM and SGLang ship a file, on each device, as they were counted by hand.
#[rustfmt::skip]
const SHIPPED: [(&str, Quantization, [[&str; 2]; 5]); 22] = [
    ("Mixtral-8x7B", Bf16, [["2,4,8", "2,4,8"], ["1,2,4,8", "1,2,4,8"], ["", ""], ["1,2,4,8", "1,2,4,8"], ["2,4,8", "2,4,8"]]),
    ("Mixtral-8x22B", Bf16, [["4,8", "4,8"], ["4,8", "4,8"], ["", ""], ["1,2,4,8", ""], ["4,8", "4,8"]]),
    ("Qwen3-30B-A3B", Bf16, [["2,4", "1,2,4"], ["1,2,4,8", "1,2,4"], ["1", ""], ["", ""], ["4", ""]]),
    ("Qwen3-30B-A3B", Fp8Block, [["", "2"], ["1,2", "1,2"], ["1,2", "2"], ["1,2", "2"], ["", ""]]),
    ("Qwen3-235B-A22B", Bf16, [["4,8", "2,4,8"], ["2,4,8", "2,4,8"], ["2", ""], ["", ""], ["8", ""]]),
    ("Qwen3-235B-A22B", Fp8Block, [["", "4"], ["2,4", "2,4"], ["2,4", "4"], ["2,4", "4"], ["", ""]]),
    ("Qwen3-Coder-480B-A35B", Bf16, [["", ""], ["", ""], ["", ""], ["", ""], ["", ""]]),
    ("Qwen3-Coder-480B-A35B", Fp8Block, [["", ""], ["", "4"], ["4", ""], ["", ""], ["", ""]]),
    ("Qwen3-Next-80B-A3B", Bf16, [["1,2,4", ""], ["1,2,4,8", ""], ["1,2,4,8", ""], ["", ""], ["4,8", ""]]),
    ("Qwen3-Next-80B-A3B", Fp8Block, [["2,4", ""], ["", "1"], ["1,2,4", ""], ["", ""], ["", ""]]),
    ("DeepSeek-V2-Lite", Bf16, [["", ""], ["", ""], ["1", ""], ["", ""], ["", ""]]),
    ("DeepSeek-V3", Fp8Block, [["", ""], ["4,8", "4,8"], ["4,8", "4,8"], ["8", ""], ["", ""]]),
    ("Kimi-K2", Fp8Block, [["", ""], ["", ""], ["8", "8"], ["", ""], ["", ""]]),
    ("GLM-4.5", Bf16, [["", ""], ["", "8"], ["", ""], ["8", ""], ["", ""]]),
    ("GLM-4.5", Fp8Channel, [["", ""], ["8", "4,8"], ["4", "4,8"], ["4", ""], ["", ""]]),
    ("GLM-4.5-Air", Bf16, [["", ""], ["", ""], ["", ""], ["", ""], ["", ""]]),
    ("GLM-4.5-Air", Fp8Channel, [["2,4", ""], ["", ""], ["2", ""], ["", ""], ["", ""]]),
    ("Llama-4-Scout", Bf16, [["", "4,8"], ["4,8", "2,8"], ["8", "4,8"], ["8", ""], ["", ""]]),
    ("Llama-4-Maverick", Bf16, [["", ""], ["8", ""], ["", ""], ["8", ""], ["", ""]]),
    ("Llama-4-Maverick", Fp8Channel, [["", ""], ["8", ""], ["", ""], ["8", ""], ["", ""]]),
    ("OLMoE-1B-7B", Bf16, [["", ""], ["", ""], ["", ""], ["", ""], ["", ""]]),
    ("MiniMax-M2", Fp8Block, [["4", "4"], ["", ""], ["", ""], ["", ""], ["", ""]]),
];

#[test]
fn names_are_those_of_published_files() {
    let Some(files) = published() else { return };
    let shipped: BTreeSet<(Consumer, &str)> =
        files.iter().map(|file| (file.project, file.name.as_str())).collect();
    let (mut compared, mut equal) = (0, 0);
    for (name, quantization, devices) in SHIPPED {
        let model = catalogue::find(name).unwrap_or_else(|| panic!("{name} is not in the catalogue"));
        let architecture = model.architecture().unwrap();
        for (device, expected) in DEVICES.into_iter().zip(devices) {
            for (consumer, expected) in [Consumer::Vllm, Consumer::Sglang].into_iter().zip(expected) {
                let hardware = Hardware::from_name(device).unwrap();
                // Files in fp8 for an A100 are not counted, because nobody serves so.
                let serves = !device.contains("A100") || quantization == Bf16;
                let mut found = Vec::new();
                for tensor_parallel in [1, 2, 4, 8].into_iter().filter(|_| serves) {
                    let serving = Serving { tensor_parallel, expert_parallel: 1, quantization };
                    let Ok(layer) = architecture.experts_layer(&serving, consumer) else { continue };
                    let file = layer.key(device_name(&hardware, consumer, false), consumer).name(consumer);
                    compared += 1;
                    if shipped.contains(&(consumer, file.as_str())) {
                        println!("{consumer}: {name} at tensor parallel {tensor_parallel}: {file}");
                        found.push(tensor_parallel.to_string());
                    }
                }
                equal += found.len();
                assert_eq!(found.join(","), expected, "{name} in {quantization} on {device} by {consumer}");
            }
        }
    }
    assert_eq!((compared, equal), (776, 154));
}
