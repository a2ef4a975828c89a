"""Random graphs: a multiplication of any kind, layout and size, with what may follow it in a network."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn import functional as F

OPS = ("mm", "addmm, vector", "addmm, matrix", "bmm", "baddbmm", "linear", "linear of 3-D", "linear of 4-D")
DTYPES = (torch.bfloat16, torch.float16, torch.float32)

_ALONE: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "tanh gelu": lambda y: F.gelu(y, approximate="tanh"),
    "silu": F.silu,
    "scale": lambda y: y * 0.5 + 0.25,
    "sigmoid": torch.sigmoid,
    "flat": lambda y: y.reshape(-1, y.shape[-1]).relu().reshape(y.shape),
    "through fp32": lambda y: y.float().clamp(-2, 2).to(y.dtype),
    "norm": lambda y: F.layer_norm(y, y.shape[-1:]),
}
_WITH_ANOTHER: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "residual": torch.add,
    "gate": lambda y, other: F.silu(y) * other,
    "gated": lambda y, other: y * torch.sigmoid(other),
}
_ENDS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "": lambda product, y: y,
    "both kept": lambda product, y: (product, y),
    "squared and summed": lambda product, y: y.square().sum(-1),
    "transposed": lambda product, y: y.transpose(-1, -2).contiguous(),
    "multiplied again": lambda product, y: y @ y.transpose(-1, -2) * (1 / y.shape[-1]),
}


@dataclasses.dataclass(frozen=True)
class Graph:
    """A function of tensors, and a tile for its first multiplication."""

    label: str
    function: Callable[..., Any]
    inputs: Sequence[torch.Tensor]
    dynamic: bool
    tile: dict[str, Any]


def graph(seed: int, device: str) -> Graph:
    """The graph with this number."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    op, dtype, dynamic = draw.choice(OPS), draw.choice(DTYPES), draw.random() < 0.25
    is_batched = "bmm" in op
    m, n, k = (_size(draw, 256 if is_batched else 1024) for _ in range(3))
    lead = {"linear of 3-D": (4,), "linear of 4-D": (2, 3)}.get(op, (draw.randint(2, 8),) if is_batched else ())
    column = "linear" in op
    layouts = [draw.choice(("row", "column", "slice")), "column" if column else draw.choice(("row", "column", "slice"))]
    if len(lead) > 1 or column:
        layouts[0] = draw.choice(("row", "slice"))
    a = _operand(layouts[0], (*lead, m, k), dtype, device)
    b = _operand(layouts[1], (*(lead if is_batched else ()), k, n), dtype, device) / math.sqrt(k)
    inputs = [a, b]
    if op in ("addmm, vector", "linear", "linear of 3-D", "linear of 4-D"):
        inputs.append(torch.randn(n, dtype=dtype, device=device))
    elif op in ("addmm, matrix", "baddbmm"):
        inputs.append(torch.randn(*lead, m, n, dtype=dtype, device=device))
    alone = [name for name in _ALONE if name != "norm" or n >= 64]
    steps = [draw.choice([*alone, *_WITH_ANOTHER]) for _ in range(draw.randint(0, 4))]
    inputs += [torch.randn(*lead, m, n, dtype=dtype, device=device) for step in steps if step in _WITH_ANOTHER]
    end = draw.choice(list(_ENDS))

    def function(a: torch.Tensor, b: torch.Tensor, *others: torch.Tensor) -> Any:
        left = list(others)
        product = _product(op, a, b, left)
        y = product
        for step in steps:
            y = _ALONE[step](y) if step in _ALONE else _WITH_ANOTHER[step](y, left.pop(0))
        return _ENDS[end](product, y)

    size = lambda *sizes: draw.choice(sizes)
    tile = {
        "template": "triton::bmm" if is_batched else "triton::mm",
        "block_m": size(16, 32, 64, 128), "block_n": size(16, 32, 64, 128), "block_k": size(16, 32, 64),
        "num_stages": size(2, 3, 4), "num_warps": size(4, 8),
    }  # fmt: skip
    sizes = "×".join(str(one) for one in (*lead, m, n, k))
    what = ", then ".join([" ".join(layouts) + " " + op, *steps, *([end] if end else [])])
    return Graph(f"{seed}: {sizes} {dtype}{' dynamic' if dynamic else ''} {what}", function, inputs, dynamic, tile)


def _size(draw: random.Random, high: int) -> int:
    """Any size, or a size that makes rows aligned."""
    size = math.exp(draw.uniform(0, math.log(high)))
    return max(1, round(size)) if draw.random() < 0.4 else 8 * max(1, round(size / 8))


def _operand(layout: str, shape: tuple[int, ...], dtype: torch.dtype, device: str) -> torch.Tensor:
    *lead, rows, columns = shape
    if layout == "column":
        return torch.randn(*lead, columns, rows, dtype=dtype, device=device).transpose(-1, -2)
    if layout == "slice":
        return torch.randn(*lead, rows, columns + 24, dtype=dtype, device=device)[..., 8 : 8 + columns]
    return torch.randn(*shape, dtype=dtype, device=device)


def _product(op: str, a: torch.Tensor, b: torch.Tensor, left: list[torch.Tensor]) -> torch.Tensor:
    if op.startswith("linear"):
        return F.linear(a, b.t(), left.pop(0))
    if op.startswith("addmm"):
        return torch.addmm(left.pop(0), a, b)
    if op == "baddbmm":
        return torch.baddbmm(left.pop(0), a, b)
    return torch.bmm(a, b) if op == "bmm" else a @ b
