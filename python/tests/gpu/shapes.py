"""The problems that the GPU tests measure and check."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from typing import Any

import torch


@dataclasses.dataclass(frozen=True)
class Shape:
    """A multiplication. With ``linear`` it has a bias and B in columns, like nn.Linear. With ``tf32`` float32 may be rounded."""

    m: int
    n: int
    k: int
    dtype: torch.dtype = torch.bfloat16
    linear: bool = False
    batch: int = 0
    tf32: bool = False

    def inputs(self) -> tuple[torch.Tensor, ...]:
        lead = (self.batch,) if self.batch else ()
        a = torch.randn(*lead, self.m, self.k, device="cuda", dtype=self.dtype)
        if self.linear:
            weight = torch.randn(self.n, self.k, device="cuda", dtype=self.dtype) / math.sqrt(self.k)
            return a, weight, torch.randn(self.n, device="cuda", dtype=self.dtype)
        return a, torch.randn(*lead, self.k, self.n, device="cuda", dtype=self.dtype) / math.sqrt(self.k)

    def function(self) -> Callable[..., torch.Tensor]:
        return torch.nn.functional.linear if self.linear else torch.matmul

    def __str__(self) -> str:
        kind = "linear" if self.linear else f"bmm {self.batch}×" if self.batch else "mm"
        dtype = "tf32" if self.tf32 else str(self.dtype).removeprefix("torch.")
        return f"{kind} {self.m}×{self.n}×{self.k} {dtype}"


def single_mms() -> list[Shape]:
    """Twelve sizes, most of which occur in transformers."""
    sizes = [
        (512, 4096, 4096), (2048, 4096, 4096), (4096, 4096, 4096), (128, 11008, 4096), (1024, 11008, 4096), (2048, 1024, 8192),
        (16, 4096, 4096), (64, 8192, 1024), (256, 50304, 768), (8192, 768, 3072), (1000, 1000, 1000), (333, 2048, 777),
    ]  # fmt: skip
    return [Shape(*size) for size in sizes]


def judged() -> list[Shape]:
    """The sizes above and thirty more, which were drawn once, before any of them was measured."""
    draw = random.Random(20261121)
    size = lambda low, high: 8 * round(math.exp(draw.uniform(math.log(low / 8), math.log(high / 8))))
    shapes = single_mms()
    for at in range(30):
        m = draw.choice([1, 8, 16, 32]) if at % 4 == 0 else size(64, 8192)
        shapes.append(
            Shape(m, size(64, 16384), size(64, 8192), linear=at % 2 == 1, dtype=torch.float16 if at % 8 == 7 else torch.bfloat16)
        )
    return shapes


def in_tf32(shapes: Sequence[Shape]) -> list[Shape]:
    """The same multiplications of float32 values, which may be rounded to TF32."""
    return [dataclasses.replace(shape, dtype=torch.float32, tf32=True) for shape in shapes]


def random_problems(count: int, seed: int = 7) -> list[Shape]:
    """Problems of any size, also odd ones, of every type and operator."""
    draw = random.Random(seed)
    size = lambda high: max(1, round(math.exp(draw.uniform(0, math.log(high)))))
    dtypes: Sequence[Any] = (torch.float16, torch.bfloat16, torch.float32)
    shapes = []
    for _ in range(count):
        kind = draw.choice(["mm", "linear", "bmm"])
        batch = draw.randint(2, 16) if kind == "bmm" else 0
        high = 1024 if batch else 4096
        shapes.append(Shape(size(high), size(high), size(high), draw.choice(dtypes), linear=kind == "linear", batch=batch))
    return shapes
