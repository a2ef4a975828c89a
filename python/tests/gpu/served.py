"""Work of served language models where torch's own lowering leaves the most: fp8, experts, int8 weights, FlexAttention."""

from __future__ import annotations

import functools
import math
from typing import Any

import torch
from cases import Case, Made

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
_FP8_MOST = 448

_LLAMA = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
"""N and K of the linear layers of Llama-8B."""
_EXPERTS = {"Qwen3-30B-A3B up": (128, 8, 1536, 2048), "Mixtral up": (8, 2, 28672, 4096)}
"""The experts, how many of them a token goes to, and N and K of each."""
_ATTENTION = {
    "decode 8×32/8×8192": (8, 32, 8, 1, 8192, 128, False),
    "decode 1×32/8×32768": (1, 32, 8, 1, 32768, 128, False),
    "decode 32×32/8×2048": (32, 32, 8, 1, 2048, 128, False),
    "causal 2048, 128 wide": (1, 32, 8, 2048, 2048, 128, True),
    "causal 8192, 128 wide": (1, 32, 8, 8192, 8192, 128, True),
    "full 4096, 64 wide": (2, 16, 16, 4096, 4096, 64, False),
}
"""Batch, heads of queries and of keys, rows, keys, width, and whether it is causal."""


def served() -> list[Case]:
    case = lambda name, make, *sizes: Case("served", name, functools.partial(make, *sizes))
    found = [case(f"int8 weights, {rows} rows", _int8_weights, rows) for rows in (1, 16, 512)]
    for name, sizes in _EXPERTS.items():
        found += [case(f"{name}, decoding {tokens} tokens", _decoding, tokens, *sizes) for tokens in (1, 4, 16)]
        found += [case(f"{name}, grouped, {tokens} tokens", _grouped, tokens, *sizes) for tokens in (64, 512, 4096)]
    found += [case(f"flex, {name}", _attention, *sizes) for name, sizes in _ATTENTION.items()]
    found += [case(f"fp8 by row {m}×{n}×{k}", _scaled, m, n, k) for m in (1, 16, 64, 256, 1024) for n, k in _LLAMA]
    return found


def _random(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", dtype=BF16)


def _int8_weights(rows: int) -> Made:
    weight = torch.randint(-128, 127, (4096, 4096), device="cuda", dtype=torch.int8)
    return lambda x, w, s: (x @ w.t().to(BF16)) * s, (_random(rows, 4096), weight, torch.rand(4096, device="cuda", dtype=BF16))


def _decoding(tokens: int, experts: int, top_k: int, n: int, k: int) -> Made:
    ids = torch.stack([torch.randperm(experts, device="cuda")[:top_k] for _ in range(tokens)]).flatten()
    x = _random(tokens, k).repeat_interleave(top_k, 0)
    return lambda w, ids, x: torch.bmm(w[ids], x.unsqueeze(-1)).squeeze(-1), (_random(experts, n, k) / math.sqrt(k), ids, x)


def _grouped(tokens: int, experts: int, top_k: int, n: int, k: int) -> Made:
    ids = torch.stack([torch.randperm(experts, device="cuda")[:top_k] for _ in range(tokens)]).flatten()
    ends = torch.bincount(ids, minlength=experts).cumsum(0).to(torch.int32)
    weights = (_random(experts, n, k) / math.sqrt(k)).transpose(-1, -2)
    return lambda x, w, ends: torch._grouped_mm(x, w, offs=ends), (_random(tokens * top_k, k), weights, ends)


def _scaled(m: int, n: int, k: int) -> Made:
    a, b = _random(m, k), _random(n, k)
    scales = [(one.abs().amax(1, keepdim=True).float() / _FP8_MOST) for one in (a, b)]
    a8, b8 = ((one / scale).to(FP8) for one, scale in zip((a, b), scales, strict=True))
    function = lambda a, b, sa, sb: torch._scaled_mm(a, b, sa, sb, out_dtype=BF16, use_fast_accum=True)
    return function, (a8, b8.t(), scales[0], scales[1].t().contiguous())


def _attention(batch: int, heads: int, groups: int, rows: int, keys: int, width: int, causal: bool) -> Made:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    mask = create_block_mask(lambda b, h, q, kv: q >= kv, None, None, rows, keys, device="cuda") if causal else None

    def function(q: Any, k: Any, v: Any) -> Any:
        return flex_attention(q, k, v, block_mask=mask, enable_gqa=heads != groups)

    return function, (
        _random(batch, heads, rows, width),
        _random(batch, groups, keys, width),
        _random(batch, groups, keys, width),
    )
