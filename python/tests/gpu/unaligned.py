"""Multiplications of which one operand has rows that are no multiple of 16 bytes. The kernels of some hide strides."""

from __future__ import annotations

import functools
import math

import torch
from cases import Case, Made

# M, N and K of each kind: which size is no multiple of 8, and whether A is transposed, as in gradients of weights.
_SIZES: dict[tuple[str, bool], list[tuple[int, int, int]]] = {
    ("M", True): [(50257, 768, 2048), (50257, 1024, 1024), (30522, 768, 1024), (32001, 512, 1024), (10001, 256, 4096)],
    ("N", True): [(768, 50257, 2048), (1024, 5003, 1024), (2048, 1001, 4096), (512, 3333, 2048)],
    ("K", False): [(2048, 768, 50257), (1024, 1024, 5003), (333, 2048, 777), (4096, 512, 1001), (256, 4096, 333)],
    ("N", False): [(1024, 5003, 1024), (2048, 1001, 4096), (512, 3333, 2048), (4096, 777, 512)],
}


def unaligned() -> list[Case]:
    """The multiplications in bf16, alone."""
    return [
        Case("unaligned", f"mm {m}×{n}×{k} bfloat16 {'tn' if turned else 'nn'}, {which} unaligned", functools.partial(_made, m, n, k, turned))
        for (which, turned), sizes in _SIZES.items()
        for m, n, k in sizes
    ]  # fmt: skip


def _made(m: int, n: int, k: int, turned: bool) -> Made:
    random = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)
    a = random(k, m).t() if turned else random(m, k)
    return torch.mm, (a, random(k, n) / math.sqrt(k))
