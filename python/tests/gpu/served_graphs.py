"""Random graphs of what models are served with: scaled, grouped and integer products, and what may follow them."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

BF16, FP8, E5M2 = torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2
OPS = ("by row", "by tensor", "experts", "experts in fp8", "integers", "int8 weights", "gathered")

_FOLLOWING: dict[str, Callable[..., torch.Tensor]] = {
    "relu": F.relu,
    "scale": lambda y: y * 0.5 + 0.25,
    "silu": F.silu,
    "through fp32": lambda y: y.float().clamp(-2, 2).to(y.dtype),
    "residual": torch.add,
    "gate": lambda y, other: F.silu(y) * other,
    "routing weights": torch.mul,
}


@dataclasses.dataclass(frozen=True)
class ServedGraph:
    """A function of tensors, the exact result, and a tile for its multiplication."""

    label: str
    function: Callable[..., torch.Tensor]
    inputs: Sequence[torch.Tensor]
    exact: Callable[[], torch.Tensor]
    tolerance: float
    dynamic: bool
    tile: dict[str, Any]


def served_graph(seed: int, device: str) -> ServedGraph:
    """The graph with this number."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    op = OPS[seed % len(OPS)]
    made = {
        "experts": _experts,
        "experts in fp8": _experts,
        "integers": _integers,
        "int8 weights": _weights,
        "gathered": _gathered,
    }
    function, inputs, exact, tolerance = made.get(op, _scaled)(draw, op, device)
    m, n = exact().shape[-2:]
    steps = [draw.choice(list(_FOLLOWING)) for _ in range(draw.randint(0, 3))] if tolerance < 0.1 else []
    sizes = {"residual": (m, n), "gate": (m, n), "routing weights": (m, 1)}
    others = [torch.randn(sizes[step], dtype=BF16, device=device) for step in steps if step in sizes]

    def follow(y: torch.Tensor, left: list[torch.Tensor]) -> torch.Tensor:
        for step in steps:
            y = _FOLLOWING[step](y, *([left.pop(0)] if step in sizes else []))
        return y

    def whole(*given: torch.Tensor) -> torch.Tensor:
        return follow(function(*given[: len(inputs)]), list(given[len(inputs) :]))

    size = lambda *some: draw.choice(some)
    tile = {
        "template": size("triton::mm", "triton::mm_persistent_tma"),
        "block_m": size(16, 32, 64, 128), "block_n": size(32, 64, 128), "block_k": size(64, 128),
        "num_stages": size(2, 3, 4), "num_warps": size(4, 8),
    }  # fmt: skip
    if op.startswith("by") and not steps and draw.random() < 0.5:
        tile |= {"template": "triton::mm", "swap_ab": True}
    label = f"{seed}: {op} {[tuple(one.shape) for one in inputs]} {[str(one.dtype) for one in inputs[:2]]}, then {steps}"
    reference = lambda: follow(exact(), [one.double() for one in others])
    return ServedGraph(label, whole, [*inputs, *others], reference, tolerance, draw.random() < 0.2, tile)


_Made = tuple[Callable[..., torch.Tensor], list[torch.Tensor], Callable[[], torch.Tensor], float]


def _rows(draw: random.Random, most: int = 700) -> int:
    return draw.choice((1, 3, 17, 33, 64, 100, 256, draw.randint(1, most)))


def _dimension(draw: random.Random, most: int = 64) -> int:
    """A multiple of 16, as the library wants it."""
    return 16 * draw.randint(2, most)


def _eighths(value: torch.Tensor, dtype: torch.dtype, *, by_row: bool) -> tuple[torch.Tensor, torch.Tensor]:
    most = value.abs().amax(-1, keepdim=True) if by_row else value.abs().amax().reshape(1, 1)
    scale = most.float() / torch.finfo(dtype).max
    return (value / scale).to(dtype), scale


def _scaled(draw: random.Random, op: str, device: str) -> _Made:
    by_row, m, n, k = op == "by row", _rows(draw), _dimension(draw), _dimension(draw)
    dtype = FP8 if by_row else draw.choice((FP8, E5M2))
    a, sa = _eighths(torch.randn(m, k, device=device), dtype, by_row=by_row)
    b, sb = _eighths(torch.randn(n, k, device=device) / k**0.5, FP8, by_row=by_row)
    out = draw.choice((BF16, BF16, torch.float32, FP8)) if not by_row else BF16
    fast, biased = draw.random() < 0.5, out == BF16 and draw.random() < 0.3
    if not by_row:
        shape = draw.choice(((1, 1), (1,), ()))
        sa, sb = sa.reshape(shape), sb.reshape(shape)
    sb = sb.t().contiguous() if by_row else sb
    inputs = [a, b, sa, sb, *([torch.randn(n, device=device, dtype=BF16)] if biased else [])]

    def function(a: torch.Tensor, b: torch.Tensor, sa: torch.Tensor, sb: torch.Tensor, *bias: torch.Tensor) -> torch.Tensor:
        found = torch._scaled_mm(a, b.t(), sa, sb, bias[0] if bias else None, out_dtype=out, use_fast_accum=fast)
        return found.to(BF16)

    def exact() -> torch.Tensor:
        found = (a.double() * sa.double()) @ (b.double().t() * sb.double())
        return found + inputs[4].double() if biased else found

    return function, inputs, exact, 0.12 if out == FP8 else 0.04


def _ends(draw: random.Random, groups: int, device: str) -> torch.Tensor:
    """The ends of groups, of which some are empty, some have few rows and one may have most of them."""
    rows = [draw.choice((0, 0, 1, 2, 7, 16, 33, draw.randint(0, 200))) for _ in range(groups)]
    rows[draw.randrange(groups)] += 1
    return torch.tensor(rows, device=device).cumsum(0).to(torch.int32)


def _experts(draw: random.Random, op: str, device: str) -> _Made:
    groups, n, k = draw.choice((1, 3, 8, 60)), _dimension(draw, 32), _dimension(draw, 32)
    ends = _ends(draw, groups, device)
    many = int(ends[-1])
    x, w = torch.randn(many, k, device=device), torch.randn(groups, n, k, device=device) / k**0.5
    bounds = [0, *ends.tolist()]

    def exact() -> torch.Tensor:
        parts = [(xs[bounds[at] : bounds[at + 1]] @ ws[at].t()) for at in range(groups)]
        return torch.cat(parts)

    if op == "experts":
        inputs = [x.to(BF16), w.to(BF16), ends]
        xs, ws = inputs[0].double(), inputs[1].double()
        return lambda x, w, ends: torch._grouped_mm(x, w.transpose(-1, -2), offs=ends), inputs, exact, 0.04
    x8, sx = _eighths(x, FP8, by_row=True)
    w8, sw = _eighths(w, FP8, by_row=True)
    inputs = [x8, w8, sx.flatten(), sw.squeeze(-1), ends]
    xs, ws = x8.double() * sx.double(), w8.double() * sw.double()
    in_fp8 = lambda x, w, sx, sw, ends: torch._scaled_grouped_mm(
        x, w.transpose(-1, -2), sx, sw, offs=ends, out_dtype=BF16, use_fast_accum=True
    )
    return in_fp8, inputs, exact, 0.04


def _integers(draw: random.Random, op: str, device: str) -> _Made:
    m, n, k = 16 + _rows(draw), _dimension(draw), _dimension(draw)
    a, b = (torch.randint(-128, 127, size, device=device, dtype=torch.int8) for size in ((m, k), (n, k)))
    sa, sb = torch.rand(m, 1, device=device) * 1e-3, torch.rand(n, device=device) * 1e-2
    exact = lambda: (a.double() @ b.double().t()) * sa.double() * sb.double()
    return lambda a, b, sa, sb: (torch._int_mm(a, b.t()) * sa * sb).to(BF16), [a, b, sa, sb], exact, 0.04


def _weights(draw: random.Random, op: str, device: str) -> _Made:
    m, n, k = _rows(draw), _dimension(draw), _dimension(draw)
    w = torch.randint(-128, 127, (n, k), device=device, dtype=torch.int8)
    x, scales = torch.randn(m, k, device=device, dtype=BF16) / k**0.5, torch.rand(n, device=device, dtype=BF16) * 0.05
    exact = lambda: (x.double() @ w.double().t()) * scales.double()
    return lambda x, w, s: (x @ w.t().to(BF16)) * s, [x, w, scales], exact, 0.04


def _gathered(draw: random.Random, op: str, device: str) -> _Made:
    experts, tokens, n, k = draw.choice((8, 64)), draw.choice((1, 2, 16, 40)), _dimension(draw, 32), _dimension(draw, 32)
    w, x = torch.randn(experts, n, k, device=device, dtype=BF16) / k**0.5, torch.randn(tokens, k, device=device, dtype=BF16)
    ids = torch.randint(experts, (tokens,), device=device)
    exact = lambda: torch.bmm(w.double()[ids], x.double().unsqueeze(-1)).squeeze(-1)
    return lambda w, ids, x: torch.bmm(w[ids], x.unsqueeze(-1)).squeeze(-1), [w, ids, x], exact, 0.04
