use serde_json::json;

use super::*;

fn read(value: Value) -> Result<Architecture, String> {
    Architecture::from_value(&value).map_err(|error| error.to_string())
}

fn moe(keys: Value) -> RoutedExperts {
    let mut config = json!({"hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32});
    config.as_object_mut().unwrap().extend(keys.as_object().unwrap().clone());
    read(config).unwrap().experts.unwrap()
}

#[test]
fn experts_are_found_in_every_spelling() {
    for (keys, expected) in [
        (json!({"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768}), (128, 8, 768)),
        (
            json!({"n_routed_experts": 256, "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "intermediate_size": 18432}),
            (256, 8, 2048),
        ),
        (
            json!({"num_local_experts": 8, "num_experts_per_tok": 2, "intermediate_size": 14336}),
            (8, 2, 14336),
        ),
        (json!({"moe_num_experts": 64, "moe_k": 6, "moe_intermediate_size": [1536, 512]}), (64, 6, 1536)),
        (json!({"num_experts": 64, "moe_topk": [8, 8], "moe_intermediate_size": [3072]}), (64, 8, 3072)),
        (json!({"num_experts": 192, "num_experts_per_tok": 8, "expert_hidden_dim": 1536}), (192, 8, 1536)),
        (
            json!({"n_routed_experts": 512, "moe_topk": 12, "expert_ffn_hidden_size": 2048, "ffn_hidden_size": 12288}),
            (512, 12, 2048),
        ),
        (
            json!({"ffn_config": {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752}}),
            (16, 4, 10752),
        ),
        (json!({"num_experts": 128, "top_k_experts": 8, "moe_intermediate_size": 704}), (128, 8, 704)),
    ] {
        let found = moe(keys.clone());
        assert_eq!((found.count, found.top_k, found.intermediate), expected, "{keys}");
    }
    let shared =
        moe(json!({"n_routed_experts": 160, "num_experts_per_tok": 8, "moe_intermediate_size": 1536,
        "n_shared_experts": 1, "first_k_dense_replace": 3, "intermediate_size": 12288}));
    assert_eq!((shared.shared, shared.blocks), (1, 29));
    let none =
        read(json!({"hidden_size": 64, "num_hidden_layers": 2, "num_experts": 0, "intermediate_size": 128}));
    assert_eq!(none.unwrap().experts, None);
}

#[test]
fn nested_configs_and_latent_attention_are_read() {
    let nested = json!({"model_type": "llama4", "text_config": {"model_type": "llama4_text", "hidden_size": 5120,
        "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "head_dim": 128,
        "intermediate_size": 8192, "intermediate_size_mlp": 16384, "num_local_experts": 128,
        "num_experts_per_tok": 1, "interleave_moe_layer_step": 2},
        "vision_config": {"hidden_size": 1408}});
    let maverick = read(nested).unwrap();
    let experts = maverick.experts.unwrap();
    assert_eq!((experts.blocks, experts.shared_intermediate), (24, Some(8192)));
    assert_eq!(maverick.dense, Some(Mlp { blocks: 24, intermediate: 16384, gated: true }));

    let latent = read(json!({"hidden_size": 2048, "num_hidden_layers": 27, "num_attention_heads": 16,
        "q_lora_rank": null, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "intermediate_size": 10944}));
    let Some(Attention::Latent { query_rank, kv_rank, .. }) = latent.unwrap().attention else { panic!() };
    assert_eq!((query_rank, kv_rank), (None, 512));
}

#[test]
fn the_form_of_the_weights_is_read() {
    let shipped = |quantization: Value| {
        let config = json!({"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128,
            "quantization_config": quantization});
        read(config).unwrap().shipped
    };
    let group = |weights: Value| json!({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"weights": weights}}});
    for (config, expected) in [
        (json!(null), Quantization::Bf16),
        (json!({"quant_method": "fp8"}), Quantization::Fp8Tensor),
        (json!({"quant_method": "fp8", "weight_block_size": [128, 128]}), Quantization::Fp8Block),
        (group(json!({"num_bits": 8, "type": "float", "strategy": "channel"})), Quantization::Fp8Channel),
        (
            group(
                json!({"num_bits": 8, "type": "float", "strategy": "block", "block_structure": [128, 128]}),
            ),
            Quantization::Fp8Block,
        ),
        (json!({"quant_method": "fbgemm_fp8"}), Quantization::Fp8Channel),
        (json!({"quant_method": "modelopt", "quant_algo": "FP8"}), Quantization::Fp8Tensor),
    ] {
        assert_eq!(shipped(config.clone()), Shipped::As(expected), "{config}");
    }
    for (config, expected) in [
        (json!({"quant_method": "mxfp4"}), "mxfp4"),
        (json!({"quant_method": "fp8", "weight_block_size": [32, 32]}), "fp8 in blocks of [32,32]"),
        (group(json!({"num_bits": 4, "type": "int", "strategy": "group"})), "int of 4 bits by group"),
    ] {
        assert_eq!(shipped(config), Shipped::Otherwise(expected.to_owned()));
    }
}

#[test]
fn a_text_that_is_no_config_is_refused_by_the_key() {
    let said = |text: &str| Architecture::from_json(text).unwrap_err().to_string();
    for (text, words) in [
        ("", "got text that is not JSON (EOF"),
        (r#"{"hidden_size": 40"#, "got text that is not JSON (EOF"),
        ("[1]", "got a list, expected a JSON object"),
        ("7", "got a number, expected"),
        ("{}", "got no `hidden_size` (or d_model, n_embd, dim), expected"),
        (r#"{"hidden_size": 64}"#, "got no `num_hidden_layers`"),
        (r#"{"hidden_size": 64, "num_hidden_layers": 2}"#, "got no `intermediate_size`"),
        (r#"{"hidden_size": -1}"#, "hidden_size: got -1, expected a size"),
        (r#"{"hidden_size": "64"}"#, "hidden_size: got \"64\", expected a size"),
        (r#"{"hidden_size": 64.5}"#, "hidden_size: got 64.5, expected a size"),
        (r#"{"hidden_size": 99999999999}"#, "hidden_size: got 99999999999, expected a size"),
        (r#"{"hidden_size": []}"#, "hidden_size: got [], expected a size"),
        (r#"{"hidden_size": 64, "num_hidden_layers": 0}"#, "num_hidden_layers: got 0"),
        (r#"{"hidden_size": 64, "num_hidden_layers": 2, "num_experts": 8}"#, "got no `num_experts_per_tok`"),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "num_experts": 8, "num_experts_per_tok": 9}"#,
            "num_experts_per_tok: got 9, expected at most the number of experts",
        ),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "num_experts": 8, "num_experts_per_tok": 2}"#,
            "got no `moe_intermediate_size`",
        ),
        (
            r#"{"hidden_size": 100, "num_hidden_layers": 2, "intermediate_size": 8, "num_attention_heads": 3}"#,
            "num_attention_heads: got 3, expected a divisor of hidden_size",
        ),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "kv_lora_rank": 8}"#,
            "got no `qk_nope_head_dim`",
        ),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "num_experts": 8, "num_local_experts": 16}"#,
            "num_local_experts: got 16 beside num_experts of 8, expected the same number",
        ),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 8, "quantization_config": "fp8"}"#,
            "quantization_config: got \"fp8\", expected an object",
        ),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 8, "torch_dtype": "int7"}"#,
            "torch_dtype: got \"int7\", expected a type of floating-point numbers",
        ),
        (
            r#"{"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 8, "torch_dtype": 16}"#,
            "torch_dtype: got 16, expected",
        ),
        (
            r#"{"model_type": "qwen3_moe", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 8, "num_experts": 8, "num_experts_per_tok": 2}"#,
            "got no `moe_intermediate_size`, expected",
        ),
        (r#"{"multiplications": []}"#, "multiplications: got an empty list"),
        (r#"{"multiplications": [{"name": "a", "n": 0, "k": 1}]}"#, "multiplications: got a size of a"),
        (r#"{"multiplications": [{"n": 1}]}"#, "multiplications: got missing field `name`"),
    ] {
        let said = said(text);
        assert!(said.starts_with(words), "{text}: {said}");
        assert!(!said.contains('\n'), "{said}");
    }
}
