"""What is compared with no tuning: multiplications alone, with what follows in networks, and with what comes before."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Callable
from typing import Any

import torch
from shapes import Shape, in_tf32, judged, single_mms
from torch.nn import functional as F

Made = tuple[Callable[..., Any], tuple[torch.Tensor, ...]]
"""A function and its inputs on the GPU."""


@dataclasses.dataclass(frozen=True)
class Case:
    """A function to compile and to time."""

    part: str
    """``alone``, ``batched``, ``layers``, ``epilogues``, ``prologues``, ``unaligned``, ``served``, ``scaled``, ``grouped``, ``served networks`` or ``networks``."""
    name: str
    make: Callable[[], Made]
    training: bool = False
    alone: str | None = None
    """The name of the case with the same multiplication and nothing after it."""
    tf32: bool = False
    """Whether float32 may be rounded to TF32."""


def _kept(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return y, F.relu(y)


def _normed(y: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(y + other, y.shape[-1:])


# What follows a multiplication, and whether that takes another matrix.
_FOLLOWING: dict[str, tuple[Callable[..., Any], bool]] = {
    "gelu": (F.gelu, False),
    "tanh gelu": (lambda y: F.gelu(y, approximate="tanh"), False),
    "relu": (F.relu, False),
    "silu × gate": (lambda y, other: F.silu(y) * other, True),
    "residual": (lambda y, other: y + other, True),
    "residual, norm": (_normed, True),
    "scale, to fp32": (lambda y: (y * 0.5).float(), False),
    "relu, both kept": (_kept, False),
}

# M, N and K of linear layers, and what follows in each case. "3-D" means activations of three dimensions.
_LINEAR: list[tuple[tuple[int, int, int], tuple[str, ...]]] = [
    ((16, 4096, 4096), ("gelu", "residual", "silu × gate")),
    ((64, 1024, 1024), ("gelu", "relu", "residual")),
    ((256, 2048, 512), ("silu × gate", "relu, both kept", "residual, norm")),
    ((512, 4096, 4096), ("gelu", "silu × gate", "residual", "3-D gelu")),
    ((1000, 1000, 1000), ("relu", "scale, to fp32", "residual")),
    ((1024, 3072, 768), ("gelu", "tanh gelu", "3-D residual")),
    ((1024, 768, 3072), ("residual", "residual, norm", "3-D relu")),
    ((1568, 3072, 768), ("gelu", "residual", "3-D gelu")),
    ((2048, 512, 256), ("relu", "silu × gate", "relu, both kept")),
    ((4096, 4096, 1024), ("gelu", "residual", "scale, to fp32")),
    ((4096, 1024, 4096), ("residual", "tanh gelu", "3-D silu × gate")),
    ((8192, 768, 3072), ("residual", "gelu", "residual, norm")),
    ((8192, 4096, 256), ("relu", "silu × gate", "3-D residual")),
    ((16384, 512, 128), ("gelu", "residual", "relu, both kept")),
]  # fmt: skip


def alone() -> list[Case]:
    """Multiplications with nothing after them."""
    layers = [Shape(*size, linear=True) for size, _ in _LINEAR]
    shapes = [*judged(), *layers, *in_tf32([*single_mms(), *layers])]
    return [Case("alone", str(shape), functools.partial(_alone, shape), tf32=shape.tf32) for shape in shapes]


def _alone(shape: Shape) -> Made:
    return shape.function(), shape.inputs()


# Batch, M, N and K of a network's batched products. In the first of attention's two products, queries with keys, B is
# in columns; in the second one, weights with values, it is in rows.
_QUERIES = [
    (96, 128, 128, 64), (96, 512, 512, 64),  # BERT base, T5 base
    (64, 384, 384, 64), (48, 1024, 1024, 64),  # BERT large, GPT-2
    (32, 512, 512, 128), (128, 4, 2048, 128),  # Llama 8B: a prompt; decoding of 16 texts with grouped heads
    (96, 197, 197, 64), (2048, 32, 32, 64),  # ViT base; the interactions of a recommender
]  # fmt: skip
_VALUES = [
    (96, 128, 64, 128), (64, 384, 64, 384), (48, 1024, 64, 1024), (32, 512, 128, 512), (128, 4, 128, 2048), (96, 197, 64, 197),
    (16, 64, 2816, 2048), (16, 64, 2048, 1408),  # experts
]  # fmt: skip
# Queries with keys, and a bias for each pair of positions, as in T5 and BLOOM.
_BIASED = [(96, 128, 128, 64), (96, 512, 512, 64), (64, 256, 256, 64), (256, 1, 1024, 64), (32, 512, 512, 128)]


def batched() -> list[Case]:
    """Batched products with nothing after them: those of attention, of experts and of a recommender."""
    products = [
        *(("bmm", size, True, torch.bfloat16) for size in _QUERIES),
        *(("bmm", size, False, torch.bfloat16) for size in _VALUES),
        ("bmm", _QUERIES[0], True, torch.float16),
        ("bmm", _VALUES[0], False, torch.float16),
        *(("baddbmm", size, True, torch.bfloat16) for size in _BIASED),
    ]
    return [
        Case(
            "batched",
            f"{op} {'×'.join(map(str, size))} {str(dtype).removeprefix('torch.')} {'nt' if columns else 'nn'}",
            functools.partial(_batched, op, size, columns, dtype),
        )
        for op, size, columns, dtype in products
    ]


def _batched(op: str, size: tuple[int, int, int, int], columns: bool, dtype: torch.dtype) -> Made:
    batch, m, n, k = size
    random = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=dtype)
    a = random(batch, m, k) / math.sqrt(k)
    b = random(batch, n, k).transpose(1, 2) if columns else random(batch, k, n)
    return (torch.bmm, (a, b)) if op == "bmm" else (torch.baddbmm, (random(batch, m, n), a, b))


# N and K of the linear layers of Llama 8B and of Qwen2.5 7B.
_DECODER = [(4096, 4096), (1024, 4096), (14336, 4096), (4096, 14336), (3584, 3584), (18944, 3584), (3584, 18944)]
IN_A_ROW = 8
"""How many layers run one after the other."""


def in_a_row() -> list[Case]:
    """A decoder's layers for few tokens, each alone and eight of its size in a row.

    Before a layer runs alone, the cache is filled by writing. In a row, as in a network, the layer before has filled it
    by reading its weights. What is written must go to the memory before other data can take its place.
    """
    return [
        Case("layers", name, functools.partial(_in_a_row, layers, tokens, n, k), alone=alone)
        for tokens in (1, 16, 64)
        for n, k in _DECODER
        for alone in [f"layer {tokens}×{n}×{k} bfloat16"]
        for layers, name in ((1, alone), (IN_A_ROW, f"{alone}, in a row"))
    ]


def _in_a_row(layers: int, tokens: int, n: int, k: int) -> Made:
    random = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=torch.bfloat16) / math.sqrt(k)
    inputs = [random(tokens, k) for _ in range(layers)] + [random(n, k) for _ in range(layers)]

    def function(*inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return tuple(F.linear(x, weight) for x, weight in zip(inputs[:layers], inputs[layers:], strict=True))

    return function, tuple(inputs)


def epilogues() -> list[Case]:
    """Linear layers with what follows them. In TF32, every size has its first epilogue only."""
    found = []
    for size, names in _LINEAR:
        layer = Shape(*size, linear=True)
        (rounded,) = in_tf32([layer])
        for shape, name in [*((layer, name) for name in names), (rounded, names[0])]:
            make = functools.partial(_made, shape, name)
            found.append(Case("epilogues", f"{shape}, {name}", make, alone=str(shape), tf32=shape.tf32))
    return found


def _made(shape: Shape, name: str) -> Made:
    following, takes_other = _FOLLOWING[name.removeprefix("3-D ")]
    x, weight, bias = shape.inputs()
    lead: tuple[int, ...] = (shape.m,)
    if name.startswith("3-D"):
        lead = (4, shape.m // 4)
        x = x.view(*lead, shape.k)
    others = (torch.randn(*lead, shape.n, device=x.device, dtype=x.dtype),) if takes_other else ()

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, *others: torch.Tensor) -> Any:
        return following(F.linear(x, weight, bias), *others)

    return function, (x, weight, bias, *others)


# What comes before a multiplication and becomes part of a tile's kernel, with M, N and K of each
# multiplication.
_PREPARED: dict[str, list[tuple[int, int, int]]] = {
    "int8 weights": [(16, 4096, 4096), (512, 4096, 4096)],
    "gathered rows": [(512, 4096, 4096), (2048, 512, 256), (16384, 512, 128)],
    "transposed copy": [(512, 4096, 4096), (2048, 512, 256)],
}


def prologues() -> list[Case]:
    """Multiplications with an operand that is computed just before."""
    return [
        Case("prologues", f"{Shape(*size)}, {name}", functools.partial(_prepared, Shape(*size), name), alone=str(Shape(*size)))
        for name, sizes in _PREPARED.items()
        for size in sizes
    ]


def _prepared(shape: Shape, name: str) -> Made:
    a, b = shape.inputs()
    if name == "int8 weights":
        return (lambda a, b: a @ b.to(a.dtype)), (a, (b * 64).to(torch.int8))
    if name == "gathered rows":
        return (lambda a, rows, b: a[rows] @ b), (a, torch.randint(shape.m, (shape.m,), device=a.device), b)
    return (lambda a, b: a.t().contiguous() @ b), (a.t().contiguous(), b)


def recommender(rows: int) -> Made:
    """The tower of a recommender."""
    sizes = [512, 1024, 1024, 512, 256, 1]
    layers: list[torch.nn.Module] = []
    for k, n in itertools.pairwise(sizes):
        layers += [torch.nn.Linear(k, n), torch.nn.ReLU()]
    tower = torch.nn.Sequential(*layers[:-1], torch.nn.Sigmoid()).cuda().bfloat16()
    return tower, (torch.randn(rows, sizes[0], device="cuda", dtype=torch.bfloat16) / math.sqrt(sizes[0]),)
