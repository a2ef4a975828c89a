"""Picks blocks, stages and warps of FlexAttention by the nearest measured cases.

It is no multiplication, so it has a request of its own. Otherwise it is a heuristic like the others: it answers or abstains, and
its digest is part of the key of Inductor's graph cache.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Any

from .._core import Hardware
from . import Answer, Candidate

_FORMAT = "torch_diode flex 1"
_FURTHEST = 3.0
"""A case whose sizes differ by more doublings than this in all says nothing."""
_NEAREST = 3
"""How many of the nearest cases must agree that torch's own options are not the best."""


@dataclasses.dataclass(frozen=True)
class Options:
    """Blocks, stages and warps by their names in ``kernel_options``. None stand for torch's own."""

    values: Mapping[str, int]
    is_library = False

    @property
    def label(self) -> str:
        return ", ".join(f"{name} {value}" for name, value in self.values.items())


@dataclasses.dataclass(frozen=True)
class Attention:
    """A kernel of FlexAttention: its pass, its type, its sizes and the kind of its mask."""

    kind: str
    """``forward``, ``backward`` or ``decode``."""
    dtype: str
    head_dim: int
    group: int
    """How many heads of queries share a head of keys."""
    heads: int
    """The heads in the batch, when decoding those of the keys."""
    q: int
    kv: int
    mask: str
    """``full``, ``causal``, ``window`` or ``documents``."""
    blocks: tuple[int, int] = (128, 128)
    """How many rows and keys are in one block of the mask."""
    why_not: str | None = None
    """Why it is left to torch, whatever is known of such kernels."""

    @property
    def label(self) -> str:
        sizes = f"{self.heads} heads × {self.q} × {self.kv} keys, {self.head_dim} wide"
        return f"flex_attention {self.kind} {sizes} {self.dtype} {self.mask}"


@dataclasses.dataclass(frozen=True)
class AttentionRequest:
    """A kernel of FlexAttention to decide on."""

    problem: Attention
    hardware: Hardware | None


class AttentionTable:
    """Measured cases of one kind of hardware. Without a path, it is the table in this package."""

    kind = "attention"
    source = "table"

    def __init__(self, path: str | None = None) -> None:
        self._text, self._table = _shipped() if path is None else _read(path)

    def answer(self, request: AttentionRequest) -> Answer | None:
        if request.hardware is None or request.hardware.slug != self._table["hardware"]:
            return None
        near = sorted(((_distance(request.problem, entry), at) for at, entry in enumerate(self._table["entries"])))[:_NEAREST]
        entries = [self._table["entries"][at] for distance, at in near if distance <= _FURTHEST]
        if not entries:
            return None
        best = entries[0]
        # The nearest case must not stand alone, unless it is this very case.
        agree = near[0][0] == 0 or sum("options" in entry for entry in entries) * 2 >= len(entries)
        options: Any = Options(best["options"] if "options" in best and agree else {})
        cases = f"the nearest of {len(self._table['entries'])} cases of a table"
        if not options.values:
            return Answer(self.source, [Candidate(options)], f"torch's options are as good as any, by {cases}")
        gain = best["default_us"] / best["us"]
        why = f"expected to be {gain:.2f} times as fast as torch's options, by {cases}"
        return Answer(self.source, [Candidate(options)], why)

    def digest(self) -> str:
        return hashlib.sha256(self._text.encode()).hexdigest()


def _distance(asked: Attention, entry: Mapping[str, Any]) -> float:
    """How many doublings lie between the sizes of two cases."""
    # A row of queries meets all its keys, whatever the mask, except those of other documents.
    told_apart = (lambda mask: mask == "documents") if asked.kind == "decode" else str
    masks_differ = told_apart(asked.mask) != told_apart(entry["mask"])
    if masks_differ or (asked.kind, asked.dtype, asked.head_dim) != (entry["pass"], entry["dtype"], entry["head_dim"]):
        return math.inf
    sizes = ((asked.heads, "heads"), (asked.q, "q"), (asked.kv, "kv"), (asked.group, "group"))
    return sum(abs(math.log2(size / entry[name])) for size, name in sizes)


@functools.cache
def _shipped() -> tuple[str, Mapping[str, Any]]:
    return _checked(resources.files(__package__).joinpath("flex.json").read_text(encoding="utf-8"), "flex.json")


def _read(path: str) -> tuple[str, Mapping[str, Any]]:
    with open(path, encoding="utf-8") as file:
        return _checked(file.read(), path)


def _checked(text: str, name: str) -> tuple[str, Mapping[str, Any]]:
    from .._core import DiodeError

    table = json.loads(text)
    if not isinstance(table, Mapping) or table.get("format") != _FORMAT or not isinstance(table.get("entries"), Sequence):
        raise DiodeError(f"{name}: got something else, expected a table in the format `{_FORMAT}`")
    return text, table
