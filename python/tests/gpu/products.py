"""Scaled and grouped multiplications of served models, alone and with what follows them."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from cases import Case, Made
from torch.nn import functional as F

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn
_FP8_MOST = 448

# N and K of linear layers: Llama-8B, Qwen3-30B-A3B's attention, Llama-70B on four GPUs.
_LLAMA = ((6144, 4096), (4096, 4096), (28672, 4096), (4096, 14336))
_OTHERS = ((5120, 2048), (2560, 8192), (8192, 7168))
EXPERTS = {
    "Qwen3-30B-A3B up": (128, 8, 1536, 2048), "Qwen3-30B-A3B down": (128, 8, 2048, 768),
    "Mixtral up": (8, 2, 28672, 4096), "Mixtral down": (8, 2, 4096, 14336),
    "OLMoE up": (64, 8, 2048, 2048), "DeepSeek-V2-Lite up": (64, 6, 2816, 2048),
}  # fmt: skip
"""The experts, how many of them a token goes to, and N and K of each."""


def _quantised(y: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (y.float() * scale).clamp(-_FP8_MOST, _FP8_MOST).to(FP8)


# What follows a scaled multiplication, and what it takes besides the product: matrices or a single scale.
_FOLLOWING: dict[str, tuple[Callable[..., Any], tuple[str, ...]]] = {
    "residual": (torch.add, ("matrix",)),
    "silu × up, quantised": (lambda y, up, scale: _quantised(F.silu(y) * up, scale), ("matrix", "scale")),
    "relu squared": (lambda y: F.relu(y).square(), ()),
}
_FOLLOWED = ((16, 4096, 4096), (64, 28672, 4096), (256, 4096, 14336), (512, 6144, 4096), (2048, 4096, 4096))


def scaled() -> list[Case]:
    """By row and by tensor. By channel is what vLLM compiles: scales of one, an output in fp32, and then the scales."""
    sizes = [(m, n, k) for m in (1, 16, 64, 256, 1024) for n, k in _LLAMA]
    sizes += [(m, n, k) for m in (8, 128, 512, 4096) for n, k in _OTHERS]
    found = [_case("row", size, "") for size in sizes]
    found += [_case("tensor", (m, n, k), "") for m in (1, 16, 128, 1024) for n, k in (*_LLAMA[1:], _OTHERS[0])]
    found += [_case("row", size, name) for size in _FOLLOWED for name in _FOLLOWING]
    found += [_case("channel", size, "") for size in _FOLLOWED]
    return found


def _case(scaling: str, size: tuple[int, int, int], following: str) -> Case:
    name = f"scaled {'×'.join(map(str, size))} by {scaling}" + (f", {following}" if following else "")
    return Case("scaled", name, functools.partial(_scaled, scaling, size, following))


def _random(*sizes: int) -> torch.Tensor:
    return torch.randn(*sizes, device="cuda", dtype=BF16)


def _eighths(value: torch.Tensor, *, by_row: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A matrix in fp8 and its scales."""
    most = value.abs().amax(1, keepdim=True) if by_row else value.abs().amax().reshape(1, 1)
    scale = most.float() / _FP8_MOST
    return (value / scale).to(FP8), scale


def _scaled(scaling: str, size: tuple[int, int, int], following: str) -> Made:
    m, n, k = size
    (a, sa), (b, sb) = (_eighths(_random(rows, k), by_row=scaling != "tensor") for rows in (m, n))
    if scaling == "channel":
        one = torch.ones((), device="cuda")
        by_channel = lambda a, b, sa, sb: (torch._scaled_mm(a, b, one, one, out_dtype=torch.float32) * sa * sb.t()).to(BF16)
        return by_channel, (a, b.t(), sa, sb)
    then, takes = _FOLLOWING.get(following, (lambda y: y, ()))
    others = tuple(_random(m, n) if one == "matrix" else torch.tensor(3.0, device="cuda") for one in takes)

    def function(a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, *others: torch.Tensor) -> Any:
        return then(torch._scaled_mm(a, b, sa, sb, out_dtype=BF16, use_fast_accum=True), *others)

    return function, (a, b.t(), sa, sb.t().contiguous(), *others)


def grouped() -> list[Case]:
    """Experts in bf16, with the tokens of each expert in a row, and some in fp8."""
    case = lambda name, make, *sizes: Case("grouped", name, functools.partial(make, *sizes))
    found = [
        case(f"{name}, {tokens} tokens", experts_of, tokens, *sizes, "")
        for tokens in (16, 64, 512, 4096)
        for name, sizes in EXPERTS.items()
    ]
    found += [
        case(f"{name}, {tokens} tokens, {then}", experts_of, tokens, *EXPERTS[name], then)
        for tokens in (64, 512, 2048)
        for name, then in (("Qwen3-30B-A3B down", "routing weights"), ("OLMoE up", "relu"))
    ]
    found += [
        case(f"{name}, {tokens} tokens, fp8", experts_of, tokens, *EXPERTS[name], "fp8")
        for tokens in (64, 512, 4096)
        for name in ("Qwen3-30B-A3B up", "Mixtral up", "OLMoE up")
    ]
    return found


def routed(tokens: int, experts: int, top_k: int) -> torch.Tensor:
    """The ends of the experts' rows, for tokens that choose evenly."""
    ids = torch.stack([torch.randperm(experts, device="cuda")[:top_k] for _ in range(tokens)]).flatten()
    return torch.bincount(ids, minlength=experts).cumsum(0).to(torch.int32)


def experts_of(tokens: int, experts: int, top_k: int, n: int, k: int, following: str) -> Made:
    ends, x, weights = routed(tokens, experts, top_k), _random(tokens * top_k, k), _random(experts, n, k) / math.sqrt(k)
    if following == "fp8":
        x8, sx = _eighths(x, by_row=True)
        both = [_eighths(one, by_row=True) for one in weights]
        w8, sw = torch.stack([one for one, _ in both]), torch.stack([scale.flatten() for _, scale in both])
        in_fp8 = lambda x, w, sx, sw, ends: torch._scaled_grouped_mm(
            x, w.transpose(-1, -2), sx, sw, offs=ends, out_dtype=BF16, use_fast_accum=True
        )
        return in_fp8, (x8, w8, sx.flatten(), sw, ends)
    product = lambda x, w, ends: torch._grouped_mm(x, w.transpose(-1, -2), offs=ends)
    if following == "routing weights":
        return lambda x, w, ends, r: product(x, w, ends) * r, (x, weights, ends, _random(tokens * top_k, 1))
    if following == "relu":
        return lambda x, w, ends: F.relu(product(x, w, ends)), (x, weights, ends)
    return product, (x, weights, ends)
