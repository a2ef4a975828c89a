"""The multiplications of real models: sizes from their public configs, under tensor parallelism, by batch size.

Every problem names its model, and whole models are kept for judging: KEPT was chosen before anything was measured. A size that
a kept model shares with another one counts as kept. Any prefix of a list is a balanced sample of models, layers and batch sizes.
"""

import random
from itertools import cycle

BATCHES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 8192)
LIMIT = 124e9  # bytes of weights that one GPU holds

# name: billions of parameters, hidden, intermediate, heads, heads of keys and values, size of a head
DENSE = {
    "Llama-3.2-1B": (1.2, 2048, 8192, 32, 8, 64),
    "Llama-3.2-3B": (3.2, 3072, 8192, 24, 8, 128),
    "Llama-3.1-8B": (8, 4096, 14336, 32, 8, 128),
    "Llama-3.1-70B": (70, 8192, 28672, 64, 8, 128),
    "Llama-3.1-405B": (405, 16384, 53248, 128, 8, 128),
    "Qwen2.5-7B": (7.6, 3584, 18944, 28, 4, 128),
    "Qwen2.5-14B": (14.8, 5120, 13824, 40, 8, 128),
    "Qwen2.5-32B": (32.8, 5120, 27648, 40, 8, 128),
    "Qwen2.5-72B": (72.7, 8192, 29568, 64, 8, 128),
    "Qwen3-1.7B": (1.7, 2048, 6144, 16, 8, 128),
    "Qwen3-4B": (4, 2560, 9728, 32, 8, 128),
    "Qwen3-8B": (8.2, 4096, 12288, 32, 8, 128),
    "Qwen3-14B": (14.8, 5120, 17408, 40, 8, 128),
    "Qwen3-32B": (32.8, 5120, 25600, 64, 8, 128),
    "Mistral-Nemo-12B": (12.2, 5120, 14336, 32, 8, 128),
    "Mistral-Small-24B": (23.6, 5120, 32768, 32, 8, 128),
    "Mistral-Large-123B": (123, 12288, 28672, 96, 8, 128),
    "Gemma-2-9B": (9.2, 3584, 14336, 16, 8, 256),
    "Gemma-2-27B": (27.2, 4608, 36864, 32, 16, 128),
    "Gemma-3-12B": (12.2, 3840, 15360, 16, 8, 256),
    "Gemma-3-27B": (27.4, 5376, 21504, 32, 16, 128),
    "Phi-3-mini": (3.8, 3072, 8192, 32, 32, 96),
    "Phi-4": (14.7, 5120, 17920, 40, 10, 128),
    "Command-R-plus": (104, 12288, 33792, 96, 8, 128),
    "Yi-34B": (34.4, 7168, 20480, 56, 8, 128),
    # Attention of models whose other layers are experts.
    "Qwen3-30B-A3B": (30.5, 2048, 0, 32, 4, 128),
    "Qwen3-235B-A22B": (235, 4096, 0, 64, 4, 128),
    "GLM-4.5-Air": (106, 4096, 0, 96, 8, 128),
    "GLM-4.5": (355, 5120, 0, 96, 8, 128),
    "gpt-oss-120b": (117, 2880, 0, 64, 8, 64),
    "MiniMax-M2": (230, 3072, 0, 48, 8, 128),
}
# DeepSeek-V3: rows and columns of the weights at one GPU, and which of the two is divided (0, 1, or neither).
DEEPSEEK_V3 = {"qkv_a": (2112, 7168, None), "q_b": (24576, 1536, 0), "kv_b": (32768, 512, 0), "o": (7168, 16384, 1),
               "gate_up": (36864, 7168, 0), "down": (7168, 18432, 1), "shared_gate_up": (4096, 7168, 0), "shared_down": (7168, 2048, 1)}  # fmt: skip

# name: billions of parameters, experts, top-k, intermediate of an expert, hidden, whether the first product has a gate
EXPERTS = {
    "Mixtral-8x7B": (46.7, 8, 2, 14336, 4096, True),
    "Mixtral-8x22B": (141, 8, 2, 16384, 6144, True),
    "Qwen1.5-MoE-A2.7B": (14.3, 60, 4, 1408, 2048, True),
    "Qwen2-57B-A14B": (57.4, 64, 8, 2560, 3584, True),
    "Qwen3-30B-A3B": (30.5, 128, 8, 768, 2048, True),
    "Qwen3-235B-A22B": (235, 128, 8, 1536, 4096, True),
    "Qwen3-Coder-480B": (480, 160, 8, 2560, 6144, True),
    "Qwen3-Next-80B-A3B": (80, 512, 10, 512, 2048, True),
    "Qwen3.5-35B-A3B": (35, 256, 8, 512, 2048, True),
    "Qwen3.5-397B-A17B": (397, 512, 10, 1024, 4096, True),
    "DeepSeek-V2-Lite": (15.7, 64, 6, 1408, 2048, True),
    "DeepSeek-V2": (236, 160, 6, 1536, 5120, True),
    "DeepSeek-V3": (671, 256, 8, 2048, 7168, True),
    "Kimi-K2": (985, 384, 8, 2048, 7168, True),
    "GLM-4.5": (355, 160, 8, 1536, 5120, True),
    "GLM-4.5-Air": (106, 128, 8, 1408, 4096, True),
    "gpt-oss-20b": (21, 32, 4, 2880, 2880, True),
    "gpt-oss-120b": (117, 128, 4, 2880, 2880, True),
    "Llama-4-Scout": (109, 16, 1, 8192, 5120, True),
    "Llama-4-Maverick": (400, 128, 1, 8192, 5120, True),
    "OLMoE-1B-7B": (6.9, 64, 8, 1024, 2048, True),
    "MiniMax-Text-01": (456, 32, 2, 9216, 6144, True),
    "MiniMax-M2": (230, 256, 8, 1536, 3072, True),
    "Hunyuan-A13B": (80, 64, 8, 3072, 4096, True),
    "ERNIE-4.5-21B": (21, 64, 6, 1536, 2560, True),
    "ERNIE-4.5-300B": (300, 64, 8, 3584, 8192, True),
    "Phi-3.5-MoE": (41.9, 16, 2, 6400, 4096, True),
    "DBRX": (132, 16, 4, 10752, 6144, True),
    "Jamba-1.5-Mini": (51.6, 16, 2, 14336, 4096, True),
    "Granite-4-H-small": (32, 72, 10, 768, 4096, True),
    "Nemotron-3-Nano-30B": (31.6, 128, 6, 1856, 2688, False),
    "LFM2-8B-A1B": (8.3, 32, 4, 1792, 2048, True),
    "Grok-1": (314, 8, 2, 32768, 6144, True),
}
KEPT = {
    "Llama-3.2-3B", "Llama-3.1-70B", "Qwen2.5-14B", "Qwen3-32B", "Mistral-Small-24B", "Gemma-2-27B", "Phi-4", "Qwen3-30B-A3B",
    "DeepSeek-V3", "Mixtral-8x22B", "GLM-4.5-Air", "OLMoE-1B-7B", "MiniMax-M2", "Hunyuan-A13B", "Qwen3-Next-80B-A3B",
}  # fmt: skip


def dense_layers():
    """(model, layer, tensor parallel, N, K), for fp8 weights."""
    for name, (billions, hidden, inner, heads, kv, size) in DENSE.items():
        for parallel in (1, 2, 4, 8):
            if billions * 1e9 / parallel > LIMIT or (parallel > 1 and billions / parallel < 1) or heads % parallel:
                continue
            of_heads = (heads // parallel + 2 * max(1, kv // parallel)) * size
            yield name, "qkv", parallel, of_heads, hidden
            yield name, "o", parallel, hidden, heads // parallel * size
            if inner:
                yield name, "gate_up", parallel, 2 * inner // parallel, hidden
                yield name, "down", parallel, hidden, inner // parallel
    for layer, (n, k, divided) in DEEPSEEK_V3.items():
        for parallel in (8, 16):
            sizes = [n, k]
            if divided is not None:
                sizes[divided] //= parallel
            if divided is not None or parallel == 8:
                yield "DeepSeek-V3", layer, parallel, *sizes


def expert_layers(size):
    """(model, tensor parallel, experts, top-k, intermediate on one GPU, hidden, gate)."""
    for name, (billions, experts, top_k, inner, hidden, gate) in EXPERTS.items():
        for parallel in (1, 2, 4, 8):
            weights = billions * 1e9 * size / parallel
            if weights <= LIMIT and (parallel == 1 or weights >= 3e9) and inner % parallel == 0:
                yield name, parallel, experts, top_k, inner // parallel, hidden, gate


def of_kind(kind):
    found = {}
    block = kind.endswith("block")
    if kind.startswith("scaled"):
        for model, layer, parallel, n, k in dense_layers():
            if n % 16 == 0 and k % (128 if block else 16) == 0:
                _add(found, {"model": model, "layer": layer, "tp": parallel, "stages": [[n, k]]})
        batches = (*BATCHES, 1, 16, 64, 256, 1024)
    else:
        for model, parallel, experts, top_k, inner, hidden, gate in expert_layers(
            2 if "bf16" in kind or kind == "grouped_mm" else 1
        ):
            if inner % (128 if block else 16) or hidden % (128 if block else 16):
                continue
            stages = [[inner * (1 + gate), hidden], [hidden, inner]]
            about = {"model": model, "tp": parallel, "experts": experts, "top_k": top_k, "inner": inner}
            if kind == "grouped_mm":
                for layer, stage in zip(("gate_up", "down"), stages, strict=True):
                    _add(found, {**about, "layer": layer, "stages": [stage]})
            else:
                _add(found, {**about, "layer": "experts", "stages": stages})
        batches = BATCHES[:-1] if kind != "grouped_mm" else (*BATCHES, 64, 512, 4096)
    order = _balanced(list(found.values()), batches, kind.removesuffix("_inductor"))
    return [{"kind": kind, "id": index, **one} for index, one in enumerate(order)]


def key(problem):
    return problem["kind"], problem["model"], problem["tp"], problem["layer"], problem["m"]


def _add(found, layer):
    """Layers of equal sizes are one; a kept model's name wins."""
    key = (layer.get("experts"), layer.get("top_k"), str(layer["stages"]))
    layer["kept"] = layer["model"] in KEPT
    if key not in found or (layer["kept"] and not found[key]["kept"]):
        found[key] = layer


def _balanced(layers, batches, seed):
    """All layers by all batch sizes, so that neighbours differ in model and batch."""
    shuffled = random.Random(seed)
    by_model = {}
    for layer in layers:
        by_model.setdefault(layer["model"], []).extend({**layer, "m": m} for m in set(batches))
    waiting = {model: {} for model in by_model}
    for model, all_of_it in by_model.items():
        shuffled.shuffle(all_of_it)
        for one in all_of_it:
            waiting[model].setdefault(one["m"], []).append(one)
    order, models, sizes = [], list(by_model), list(batches)
    shuffled.shuffle(models)
    shuffled.shuffle(sizes)
    next_size = cycle(sizes)
    while len(order) < 2000 and any(waiting.values()):
        for model in models:
            size = next(next_size)
            lists = waiting[model]
            if not lists:
                continue
            nearest = min(lists, key=lambda m: abs(m.bit_length() - size.bit_length()) + (m != size))
            order.append(lists[nearest].pop())
            if not lists[nearest]:
                del lists[nearest]
    return order


if __name__ == "__main__":
    import configs

    for kind in configs.KINDS:
        some = of_kind(kind)
        first = some[:300]
        print(kind, len(some), "of the first 300:", sum(one["kept"] for one in first), "kept;", len({one["model"] for one in first}), "models;",
              {m: sum(one["m"] == m for one in first) for m in BATCHES})  # fmt: skip
