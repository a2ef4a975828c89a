"""Experts when decoding in bf16: what may stand for Hugging Face's `batched_mm`, for each of its two products and for whole blocks.

batched   copies of the experts' weights, then bmm: what runs without us
sum       multiplied and summed in fp32, with the gather fused
grouped   rows sorted by expert, `_grouped_mm`, and sorted back
tile      the same with a Triton tile of Inductor's own template; `sorted` leaves the sorting out
"""

import pool

TOKENS = (1, 4, 16, 2, 64, 8, 32)
# name: experts, top-k, intermediate of an expert, hidden
MODELS = {
    "Qwen3-30B-A3B": (128, 8, 768, 2048),
    "Mixtral-8x7B": (8, 2, 14336, 4096),
    "OLMoE-1B-7B": (64, 8, 1024, 2048),
    "gpt-oss-20b": (32, 4, 2880, 2880),
    "DeepSeek-V2-Lite": (64, 6, 1408, 2048),
    "Qwen3-Next-80B-A3B": (512, 10, 512, 2048),
    "Phi-3.5-MoE": (16, 2, 6400, 4096),
    "Qwen1.5-MoE-A2.7B": (60, 4, 1408, 2048),
    "Qwen3-235B-A22B": (128, 8, 1536, 4096),
    "Granite-4-H-small": (72, 10, 768, 4096),
    "LFM2-8B-A1B": (32, 4, 1792, 2048),
    "Hunyuan-A13B": (64, 8, 3072, 4096),
}
BLOCKS = ("Qwen3-30B-A3B", "Mixtral-8x7B", "OLMoE-1B-7B", "gpt-oss-20b", "Qwen3-235B-A22B", "Phi-3.5-MoE")
TILE = {"BLOCK_M": 16, "BLOCK_N": 128, "BLOCK_K": 128, "NUM_CONSUMER_GROUPS": 1}
TILE_STAGES, TILE_WARPS = 4, 4
COPY = 8e9  # bytes of weights that `batched` may copy


def cases():
    found = []
    for tokens in TOKENS:
        for model, (experts, top_k, inner, hidden) in MODELS.items():
            for stage, n, k in (("up", 2 * inner, hidden), ("down", hidden, inner)):
                about = {"model": model, "stage": stage, "tokens": tokens, "experts": experts, "top_k": top_k, "n": n, "k": k}
                found.append({"case": f"{model}-{stage}-{tokens}", **about})
            if model in BLOCKS and tokens in (1, 4, 16, 64):
                about = {
                    "model": model,
                    "stage": "block",
                    "tokens": tokens,
                    "experts": experts,
                    "top_k": top_k,
                    "n": inner,
                    "k": hidden,
                }
                found.append({"case": f"{model}-block-{tokens}", **about})
    return found


def touched(case):
    reached = case["experts"] * (1 - (1 - case["top_k"] / case["experts"]) ** case["tokens"])
    return 2 * int(reached * case["n"] * case["k"] * (3 if case["stage"] == "block" else 1))


def inputs(case, sets):
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    tokens, experts, top_k, n, k = (case[name] for name in ("tokens", "experts", "top_k", "n", "k"))
    random = lambda *shape: torch.randn(shape, dtype=torch.bfloat16, device=device)
    weights = [random(experts, n * (2 if case["stage"] == "block" else 1), k) * k**-0.5]
    if case["stage"] == "block":
        weights.append(random(experts, k, n) * n**-0.5)
    rows = tokens * top_k if case["stage"] == "down" else tokens
    sets = max(sets, 8)
    tensors = []
    for _ in range(sets):
        scores, ids = torch.rand(tokens, experts, device=device).topk(top_k, dim=1)
        tensors.append((random(rows, k), ids, scores.to(torch.bfloat16)))
    return weights, tensors


def in_order(ids, experts):
    """The pairs sorted by expert, and the ends of the experts' rows."""
    import torch

    by_expert, order = torch.sort(ids)
    ends = torch.histc(by_expert.int(), bins=experts, min=0, max=experts - 1).cumsum(0, dtype=torch.int32)
    return order, ends


def product(way, x, ids, weight, experts, gathered=None):
    """(pairs, K) by each pair's weight: (pairs, N)."""
    import torch

    if way == "batched":
        return torch.bmm(weight[ids], x.unsqueeze(-1)).squeeze(-1)
    if way == "sum":
        return (weight[ids].float() * x.float().unsqueeze(1)).sum(-1).to(x.dtype)
    order, ends = in_order(ids, experts)
    out = torch._grouped_mm(x[order], weight.transpose(1, 2), offs=ends)
    back = torch.empty_like(order)
    back[order] = torch.arange(order.numel(), device=order.device)
    return out[back]


def layer(way, x, ids, scores, up, down, experts, top_k):
    """A block of experts after the router, as Hugging Face writes it."""
    import torch

    tokens = torch.arange(x.shape[0], device=x.device).repeat_interleave(top_k)
    pairs, flat = x[tokens], ids.flatten()
    silu = lambda both: torch.nn.functional.silu(both.chunk(2, -1)[0]) * both.chunk(2, -1)[1]
    if way in ("batched", "sum"):
        out = product(way, silu(product(way, pairs, flat, up, experts)), flat, down, experts) * scores.flatten().unsqueeze(-1)
    else:
        order, ends = in_order(flat, experts)
        both = torch._grouped_mm(pairs[order], up.transpose(1, 2), offs=ends)
        out = torch._grouped_mm(silu(both), down.transpose(1, 2), offs=ends) * scores.flatten()[order].unsqueeze(-1)
        back = torch.empty_like(order)
        back[order] = torch.arange(order.numel(), device=order.device)
        out = out[back]
    return out.view(x.shape[0], top_k, -1).sum(1)


def forced_tile():
    """Inductor takes one tile of its template for grouped products, without timing any."""
    import contextlib
    from unittest import mock

    import torch
    from torch._inductor.kernel import mm_grouped

    stack = contextlib.ExitStack()
    only = [mm_grouped.Config(TILE, num_stages=TILE_STAGES, num_warps=TILE_WARPS)]
    stack.enter_context(mock.patch.object(mm_grouped, "grouped_mm_configs", return_value=only))
    stack.enter_context(mock.patch.object(mm_grouped, "early_config_prune", lambda g, m, size, configs, named: configs))
    stack.enter_context(torch._inductor.config.patch(max_autotune_gemm=True, max_autotune_gemm_backends="TRITON"))
    return stack


def variants(case):
    import torch

    experts, top_k, stage = case["experts"], case["top_k"], case["stage"]

    def build(way):
        def compiled(given):
            import contextlib

            weights, tensors = given
            kind = "grouped" if way.startswith(("tile", "sorted")) else way

            if stage == "block":
                function = lambda x, ids, scores, up, down: layer(kind, x, ids, scores, up, down, experts, top_k)
            elif way.startswith("sorted"):
                function = lambda x, ends, weight: torch._grouped_mm(x, weight.transpose(1, 2), offs=ends)
            else:

                def function(x, ids, scores, weight):
                    flat = ids.flatten()
                    rows = x if stage == "down" else x[torch.arange(ids.shape[0], device=x.device).repeat_interleave(top_k)]
                    return product(kind, rows, flat, weight, experts)

            done = torch.compile(function, dynamic=False, fullgraph=True)
            if way.startswith("sorted"):
                with pool.Turn():
                    ready = []
                    for x, ids, _ in tensors:
                        order, ends = in_order(ids.flatten(), experts)
                        ready.append((x[order if stage == "down" else order // top_k], ends))
                call = lambda turn: done(*ready[turn], *weights)
            else:
                call = lambda turn: done(*tensors[turn], *weights)
            with forced_tile() if "tile" in way else contextlib.nullcontext():
                call(0)
            return call

        return compiled

    ways = ["batched", "sum", "grouped", "tile"]
    if stage != "block":
        ways += ["sorted", "sorted tile"]
    copied = 2 * case["tokens"] * top_k * case["n"] * case["k"] * (3 if stage == "block" else 1)
    if copied > COPY:
        ways.remove("batched")
    return [(way, build(way)) for way in ways]
