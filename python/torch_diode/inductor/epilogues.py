"""Reads from a graph what becomes part of a multiplication's kernel, if that is a tile.

The graph is read before anything is fused, by the rules that the scheduler follows later. If a rule is not known, or depends
on a later decision, nothing is expected to be fused.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import torch
from torch._inductor import config
from torch._inductor.virtualized import V

from .._core import Epilogue
from . import OPS
from .foreseen import name_of
from .kernels import hints

_VIEWS = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze", "permute", "transpose", "t", "expand", "slice", "select")
_RESHAPES = ("view", "reshape", "_unsafe_view", "unsqueeze", "squeeze")
# Kernels of a library. They read their inputs from memory.
_SERVED = ("_scaled_mm", "_scaled_mm_v2", "_int_mm", "_grouped_mm", "_scaled_grouped_mm")
_LIBRARIES = (*OPS, *_SERVED, "convolution")
_ATTENTION = "_scaled_dot_product"


class _Unfused(Exception):
    """Something keeps an operation out of the tile's kernel, or may do so."""


def epilogue_of(op: str, product: Any = None) -> Epilogue | None:
    """The epilogue that would be fused with the tile of a multiplication, by default of the one that is being lowered.

    ``None`` if nothing would be fused.
    """
    product = product or V.graph.current_node
    names = (op, f"_{op}", f"_{op}_v2")
    if name_of(product) not in names or not config.epilogue_fusion or not _is_tensor(product):
        return None
    try:
        return _Reading(product).epilogue()
    except _Unfused:
        return None


def scaled_to(op: str, product: Any = None) -> torch.dtype | None:
    """The type that a tile of integers is scaled to in its own kernel. ``None`` if that is another kernel's work."""
    last = product or V.graph.current_node
    if epilogue_of(op, last) is None:
        return None
    while len(last.users) == 1 and (_is_pointwise(user := next(iter(last.users))) or name_of(user) in _RESHAPES):
        last = user
    found: torch.dtype = last.meta["val"].dtype
    return found if found.is_floating_point else None


class _Reading:
    """A product, what follows it point by point, and which of these values are stored."""

    def __init__(self, product: Any) -> None:
        self._product = product
        self._elements = _elements(product)
        self._following: dict[Any, None] = {}
        self._stored: dict[Any, None] = {}

    def epilogue(self) -> Epilogue | None:
        waiting = [self._product]
        while waiting:
            value = waiting.pop(0)
            for user in self._users_of(value, value):
                if user not in self._following:
                    self._following[user] = None
                    waiting.append(user)
        if not self._following:
            return None
        read = {node: None for following in self._following for node in self._others(following)}
        return Epilogue(
            ops=[name_of(node) for node in self._following],
            elements=self._elements,
            product_bytes=_bytes(self._product),
            read_bytes=sum(map(_bytes, read)),
            written_bytes=sum(_bytes(node) for node in self._stored if node is not self._product),
            keeps_product=self._product in self._stored,
        )

    def _users_of(self, value: Any, seen: Any) -> Iterator[Any]:
        """The operations that use a value, or a view of it, point by point."""
        for user in _living_users(seen):
            name = name_of(user)
            if user.op == "output" or name in _LIBRARIES or name.startswith(_ATTENTION):
                self._stored[value] = None
            elif name in _VIEWS:
                if name in _RESHAPES:
                    yield from self._users_of(value, user)
                else:
                    self._only_stored(value, user)
            elif _is_pointwise(user) and _elements(user) == self._elements:
                yield user
            else:  # A reduction, for example, takes what comes before it into its own kernel.
                raise _Unfused

    def _only_stored(self, value: Any, view: Any) -> None:
        """A view that only libraries read: the value is stored. Other readers would compute it again in their own order."""
        for user in _living_users(view):
            name = name_of(user)
            if name in _VIEWS:
                self._only_stored(value, user)
            elif user.op == "output" or name in _LIBRARIES or name.startswith(_ATTENTION):
                self._stored[value] = None
            else:
                raise _Unfused

    def _others(self, following: Any) -> Iterator[Any]:
        """The other tensors that an operation reads. They must exist before the product does."""
        for node in following.all_input_nodes:
            base = _base(node)
            if base is self._product or base in self._following:
                continue
            if base.op == "call_function" and base > self._product:
                if not _is_pointwise(base):
                    raise _Unfused
                yield from self._others(base)
            elif _is_tensor(base):
                yield base


def _living_users(node: Any) -> list[Any]:
    return [user for user in node.users if user.users or user.op == "output"]


def _base(node: Any) -> Any:
    """The tensor behind a view."""
    while node.op == "call_function" and name_of(node) in _VIEWS:
        node = node.args[0]
    return node


def _is_pointwise(node: Any) -> bool:
    target = node.target
    if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or name_of(node).endswith("_"):
        return False
    return torch.Tag.pointwise in target.tags and _is_tensor(node)


def _is_tensor(node: Any) -> bool:
    return isinstance(node.meta.get("val"), torch.Tensor)


def _elements(node: Any) -> int:
    sizes = [size.node.expr if isinstance(size, torch.SymInt) else size for size in node.meta["val"].shape]
    return math.prod(sizes if all(isinstance(size, int) for size in sizes) else hints(sizes))


def _bytes(node: Any) -> int:
    return _elements(node) * int(node.meta["val"].dtype.itemsize)
