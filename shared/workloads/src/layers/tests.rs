use super::*;
use crate::catalogue::find;

fn serving(tensor_parallel: u64, expert_parallel: u64, quantization: Quantization) -> Serving {
    Serving { tensor_parallel, expert_parallel, quantization }
}

fn name(model: &str, serving: Serving, consumer: Consumer) -> Result<String, String> {
    let model = find(model).unwrap().architecture().unwrap();
    let layer = model.experts_layer(&serving, consumer).map_err(|error| error.to_string())?;
    Ok(layer.key("D", consumer).name(consumer))
}

/// Names that vLLM and SGLang ship a file under, or are known to look for.
#[test]
fn files_have_the_names_that_servers_look_for() {
    use Consumer::{Sglang, Vllm};
    use Quantization::{Bf16, Fp8Block, Fp8Channel};
    for (model, split, consumer, expected) in [
        ("Mixtral-8x7B", serving(2, 1, Bf16), Vllm, "E=8,N=7168,device_name=D.json"),
        ("Mixtral-8x7B", serving(4, 1, Bf16), Sglang, "E=8,N=3584,device_name=D.json"),
        (
            "Qwen3-235B-A22B",
            serving(4, 1, Fp8Block),
            Vllm,
            "E=128,N=384,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
        ),
        (
            "Qwen3-235B-A22B",
            serving(4, 1, Fp8Block),
            Sglang,
            "E=128,N=384,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json",
        ),
        (
            "Qwen3-30B-A3B",
            serving(4, 1, Fp8Block),
            Vllm,
            "E=128,N=192,device_name=D,dtype=fp8_w8a8,block_shape=[64,64].json",
        ),
        (
            "Qwen3-30B-A3B",
            serving(8, 1, Fp8Block),
            Vllm,
            "E=128,N=96,device_name=D,dtype=fp8_w8a8,block_shape=[32,32].json",
        ),
        ("Qwen3-30B-A3B", serving(4, 4, Bf16), Sglang, "E=32,N=768,device_name=D.json"),
        (
            "DeepSeek-V3",
            serving(8, 1, Fp8Block),
            Sglang,
            "E=257,N=256,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json",
        ),
        (
            "DeepSeek-R1",
            serving(8, 8, Fp8Block),
            Vllm,
            "E=32,N=2048,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
        ),
        (
            "Qwen3-Coder-480B-A35B",
            serving(8, 8, Fp8Block),
            Vllm,
            "E=20,N=2560,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
        ),
        ("GLM-4.6", serving(8, 1, Fp8Channel), Vllm, "E=160,N=192,device_name=D,dtype=fp8_w8a8.json"),
        (
            "GLM-4.6",
            serving(8, 1, Fp8Channel),
            Sglang,
            "E=161,N=192,device_name=D,dtype=fp8_w8a8,per_channel_quant=True.json",
        ),
        ("Qwen3-Next-80B-A3B", serving(2, 1, Bf16), Vllm, "E=512,N=256,device_name=D.json"),
        ("Qwen3-Next-80B-A3B", serving(2, 1, Bf16), Sglang, "E=513,N=256,device_name=D.json"),
        (
            "Llama-4-Maverick-17B-128E",
            serving(8, 1, Fp8Channel),
            Vllm,
            "E=128,N=1024,device_name=D,dtype=fp8_w8a8.json",
        ),
        (
            "MiniMax-M2",
            serving(4, 1, Fp8Block),
            Vllm,
            "E=256,N=384,device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json",
        ),
        ("Phi-3.5-MoE", serving(1, 1, Bf16), Vllm, "E=16,N=6400,device_name=D.json"),
        ("gpt-oss-120b", serving(1, 1, Bf16), Vllm, "E=128,N=2880,device_name=D.json"),
        (
            "Kimi-K2",
            serving(8, 1, Fp8Block),
            Sglang,
            "E=384,N=256,device_name=D,dtype=fp8_w8a8,block_shape=[128, 128].json",
        ),
    ] {
        assert_eq!(name(model, split, consumer).unwrap(), expected, "{model}");
    }
}

#[test]
fn what_does_not_divide_is_refused() {
    use Consumer::{Sglang, Vllm};
    use Quantization::{Bf16, Fp8Block};
    for (model, split, consumer, words) in [
        (
            "Mixtral-8x7B",
            serving(3, 1, Bf16),
            Vllm,
            "width of an expert: got 14336, expected a multiple of 3",
        ),
        ("Mixtral-8x7B", serving(1, 3, Bf16), Vllm, "experts: got 8, expected a multiple of 3"),
        ("Mixtral-8x7B", serving(8, 4, Bf16), Vllm, "expert parallelism: got 4 with tensor parallelism 8"),
        ("Mixtral-8x7B", serving(2, 4, Bf16), Sglang, "expert parallelism: got 4 with tensor parallelism 2"),
        ("Qwen3-30B-A3B", serving(4, 1, Fp8Block), Sglang, "block scales: got 192 columns"),
        ("GLM-4.5-Air", serving(8, 1, Fp8Block), Vllm, "block scales: got 176 columns"),
        ("Llama-3.1-8B", serving(1, 1, Bf16), Vllm, "the model has no experts"),
    ] {
        let said = name(model, split, consumer).unwrap_err();
        assert!(said.starts_with(words), "{model}: {said}");
    }
    let llama = find("Llama-3.1-8B").unwrap().architecture().unwrap();
    let said = llama.dense_layers(&serving(3, 1, Bf16)).unwrap_err().to_string();
    assert_eq!(said, "attention heads: got 32, expected a multiple of 3 (tensor parallelism)");
}

#[test]
fn deepseek_v3_has_the_layers_that_files_are_tuned_for() {
    let model = find("DeepSeek-V3").unwrap().architecture().unwrap();
    let layers = model.dense_layers(&serving(8, 1, Quantization::Fp8Block)).unwrap();
    let listed: Vec<(&str, u64, u64, u64)> =
        layers.iter().map(|layer| (layer.name.as_str(), layer.n, layer.k, layer.count)).collect();
    let expected = [
        ("qkv-a", 2112, 7168, 61),
        ("q-b", 3072, 1536, 61),
        ("kv-b", 4096, 512, 61),
        ("o", 7168, 2048, 61),
        ("gate-up", 4608, 7168, 3),
        ("down", 7168, 2304, 3),
        ("router", 256, 7168, 58),
        ("shared-gate-up", 512, 7168, 58),
        ("shared-down", 7168, 256, 58),
        ("head", 16_160, 7168, 1),
    ];
    assert_eq!(listed, expected);
    let scaled = layers[0].problem(64, Quantization::Fp8Block).unwrap();
    assert!(scaled.canonical().starts_with("scaled_mm;b=1;m=64;n=2112;k=7168;in=float8_e4m3fn"));
    let router = layers[6].problem(64, Quantization::Fp8Block).unwrap();
    assert!(router.canonical().starts_with("mm;b=1;m=64;n=256;k=7168;in=bfloat16"));
}

/// Copies of a head of keys and values, and gated and linear attention.
#[test]
fn attention_of_other_forms_is_split_as_servers_do() {
    let of = |model: &str, tp: u64| {
        let model = find(model).unwrap().architecture().unwrap();
        let layers = model.dense_layers(&serving(tp, 1, Quantization::Bf16)).unwrap();
        layers.into_iter().map(|layer| (layer.name, layer.n, layer.k, layer.count)).collect::<Vec<_>>()
    };
    let qwen = of("Qwen3-235B-A22B", 8);
    assert_eq!(qwen[0], ("qkv".to_owned(), (8 + 2) * 128, 4096, 94));
    let next = of("Qwen3-Next-80B-A3B", 1);
    assert_eq!(next[0], ("qkv".to_owned(), (32 + 4) * 256, 2048, 12));
    assert_eq!(next[2], ("linear-qkvz".to_owned(), 12_288, 2048, 36));
    assert_eq!(of("DeepSeek-V2-Lite", 1)[0], ("q".to_owned(), 3072, 2048, 27));
    assert_eq!(of("bert-base", 1)[2], ("up".to_owned(), 3072, 768, 12));
}

#[test]
fn a_files_name_tells_how_its_model_is_served() {
    let ways = |model: &str, name: &str, consumer| {
        let model = find(model).unwrap().architecture().unwrap();
        let (serving, layer) = model.serving_for(&FileKey::parse(name).unwrap(), consumer)?;
        Some((serving.tensor_parallel, serving.expert_parallel, layer.hidden))
    };
    use Consumer::{Sglang, Vllm};
    let block = "device_name=D,dtype=fp8_w8a8,block_shape=[128,128].json";
    let named = |sizes: &str| format!("{sizes},{block}");
    assert_eq!(ways("DeepSeek-V3", &named("E=256,N=256"), Vllm), Some((8, 1, 7168)));
    assert_eq!(ways("DeepSeek-V3", &named("E=256,N=256"), Sglang), None);
    assert_eq!(ways("DeepSeek-V3", &named("E=257,N=256"), Sglang), Some((8, 1, 7168)));
    assert_eq!(ways("DeepSeek-V3", &named("E=32,N=2048"), Vllm), Some((1, 8, 7168)));
    let refined = "E=128,N=192,device_name=D,dtype=fp8_w8a8,block_shape=[64,64].json";
    assert_eq!(ways("Qwen3-30B-A3B", refined, Vllm), Some((4, 1, 2048)));
    assert_eq!(ways("Qwen3-30B-A3B", "E=128,N=768,device_name=D,dtype=int8_w8a16.json", Vllm), None);
}

#[test]
fn weights_that_a_server_keeps_together_have_parts() {
    let llama = find("Llama-3.1-8B").unwrap().architecture().unwrap();
    let layers = llama.dense_layers(&serving(1, 1, Quantization::Bf16)).unwrap();
    let apart: Vec<u64> = layers.iter().flat_map(DenseLayer::apart).map(|layer| layer.n).collect();
    assert_eq!(apart, [6144, 4096, 1024, 4096, 28_672, 14_336, 4096, 128_256]);
}

#[test]
fn a_launch_of_spread_experts_computes_its_share() {
    let model = find("DeepSeek-V3").unwrap().architecture().unwrap();
    let spread = serving(8, 8, Quantization::Fp8Block);
    let layer = model.experts_layer(&spread, Consumer::Vllm).unwrap();
    let [up, down] = layer.problems(64).unwrap();
    assert_eq!(
        (up.m, up.n, up.k, up.groups.unwrap().count, up.groups.unwrap().top_k),
        (64, 4096, 7168, 32, 1)
    );
    assert_eq!((down.n, down.k), (7168, 2048));
    assert_eq!(layer.nominal(64).unwrap().groups.unwrap().top_k, 8);
    // Ten of 512 experts on 16 GPUs: 0.625 pairs of each token.
    let next = find("Qwen3-Next-80B-A3B").unwrap().architecture().unwrap();
    let layer = next.experts_layer(&serving(1, 16, Quantization::Bf16), Consumer::Vllm).unwrap();
    assert_eq!(layer.problems(64).unwrap()[0].m, 40);
    assert_eq!(layer.problems(1).unwrap()[0].m, 1);
    let whole = model.experts_layer(&serving(8, 1, Quantization::Fp8Block), Consumer::Vllm).unwrap();
    assert_eq!(whole.problems(64).unwrap()[0].m, 64);
}
