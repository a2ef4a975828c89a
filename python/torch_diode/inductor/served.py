"""Multiplications that models are served with: scaled, of 8-bit integers, and grouped. Torch lowers them in other ways than the
plain four, so their operands are read here, and their tiles are put in place here."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import config
from torch._inductor.kernel import mm, mm_grouped
from torch._inductor.lowering import lowerings
from torch._inductor.select_algorithm import TritonTemplateCaller

from .._core import Problem
from . import Undo
from .kernels import hints

aten = torch.ops.aten

TARGETS: dict[Any, str] = {
    aten._scaled_mm.default: "scaled_mm",
    aten._int_mm.default: "int_mm",
    aten._grouped_mm.default: "grouped_mm",
    aten._scaled_grouped_mm.default: "scaled_grouped_mm",
    # Older versions have no lowering for it. A fallback appears under its name when it is first used.
    **({aten._scaled_mm_v2.default: "scaled_mm"} if hasattr(mm, "tuned_scaled_mm_v2") else {}),
}
GROUPED = ("grouped_mm", "scaled_grouped_mm")

_SCALES = ("scale_a", "scale_b")
_PAIRS = (("self", "mat2"), _SCALES, ("recipe_a", "recipe_b"), ("swizzle_a", "swizzle_b"))
_OTHER = {one: other for a, b in _PAIRS for one, other in ((a, b), (b, a))}
"""The arguments that take each other's place when the transposes are multiplied."""
_RECIPES = {0: "tensor", 1: "row", 4: "block", 5: "block"}
_TEMPLATES = (mm_grouped.triton_grouped_mm_template, mm_grouped.triton_scaled_grouped_mm_template)


class Left(Exception):
    """Why a multiplication is left to Inductor, in words that complete a sentence."""


class Served:
    """The operands of one multiplication. Looking at them realises A and B, which the lowering does next anyway."""

    def __init__(self, op: str, target: Any, given: Sequence[Any], named: Mapping[str, Any]) -> None:
        names = [one.name for one in target._schema.arguments]
        self._arguments: dict[str, Any] = {**dict(zip(names, given, strict=False)), **named}
        self._target = target
        self.node: Any = None
        """The node of the traced graph, if it is not the one that is being lowered."""
        self.op = op
        self.a = self._arguments["self"]
        self.b = self._arguments["mat2"]

    def device(self) -> Any:
        return self.a.get_device()

    def may_use_tma(self) -> bool:
        """Whether Inductor offers the TMA tile of a scaled multiplication. Newer versions fix sizes when they look for it."""
        static = all(isinstance(size, (int, sympy.Integer)) for one in (self.a, self.b) for size in one.get_size())
        return static and self._arguments.get("bias") is None

    def may_swap(self) -> bool:
        """Whether the product of the transposes is lowered with the same operator."""
        known = self.op == "scaled_mm" and not self._arguments.get("contraction_dim")
        return known and self._arguments.get("bias") is None

    def given(self, *, swapped: bool) -> list[Any]:
        """The arguments for a tile, or for a tile of the product of the transposes."""
        found = {one.name: one.default_value for one in self._target._schema.arguments} | self._arguments
        scales = [one for name in _SCALES for one in _several(found.get(name))]
        # Before 2.14, tiles failed for scales of one dimension, and for two with different numbers of them.
        if self.op == "scaled_mm" and {len(one.get_size()) for one in scales} not in ({0}, {2}):
            found |= {name: _each(found[name], lambda one: lowered(aten.view.default, one, [1, 1])) for name in _SCALES}
        if swapped:
            turned = lambda one: lowered(aten.permute.default, one, [1, 0]) if len(one.get_size()) == 2 else one
            found |= {name: _each(found[name], turned) for name in ("self", "mat2", *_SCALES)}
        return [found[_OTHER[name]] if swapped and name in _OTHER else one for name, one in found.items()]

    # Tables in Inductor's form have keys that are made of these, like those of Inductor's own inputs.
    _scalars: Mapping[str, Any] | None = None

    def _nodes(self) -> list[Any]:
        others = (*_SCALES, "offs" if self.op in GROUPED else "bias")
        return [self.a, self.b, *(one for name in others for one in _several(self._arguments.get(name)))]

    def dtypes(self) -> list[Any]:
        return [one.get_dtype() for one in self._nodes()]

    def shapes_hinted(self) -> list[Sequence[int]]:
        return [hints(one.get_size()) for one in self._nodes()]

    def strides_hinted(self) -> list[Sequence[int]]:
        return [_steps(one) for one in self._nodes()]

    def problem(self, out_dtype: torch.dtype | None) -> Problem:
        """The problem. ``out_dtype`` is what is made of the integers of an `_int_mm`."""
        (*_, m, k), (*_, n) = hints(self.a.get_size()), hints(self.b.get_size())
        if 0 in (m, n, k):
            raise Left("it is empty")
        more: dict[str, Any] = {}
        op, out = self.op, self._arguments.get("out_dtype")
        if op in GROUPED:
            more = self._groups()
            out = out or torch.bfloat16
        elif op == "int_mm":
            if out_dtype is None:
                raise Left("its integers are not scaled in the same kernel")
            op, out, more = "scaled_mm", out_dtype, {"scaling": "row"}
        else:
            more = {"scaling": self._scaling(k)}
            out = out or self.a.get_dtype()
        name = lambda dtype: str(dtype).removeprefix("torch.")
        return Problem(
            op, m=m, n=n, k=k, dtype=name(self.a.get_dtype()), b_dtype=name(self.b.get_dtype()), out_dtype=name(out),
            a_layout=self._layout(self.a, "A"), b_layout=self._layout(self.b, "B"), **more,
        )  # fmt: skip

    def _layout(self, node: Any, name: str) -> str:
        steps = _steps(node)
        if steps[-1] == 1:
            return "row"
        if steps[-2] == 1:
            return "column"
        raise Left(f"neither dimension of {name} is contiguous (strides {list(steps)})")

    def _groups(self) -> dict[str, Any]:
        if (len(self.a.get_size()), len(self.b.get_size())) != (2, 3):
            raise Left("only rows of A that belong to groups are known, not gradients of weights or batches")
        if self._arguments.get("bias") is not None or self._arguments.get("scale_result") is not None:
            raise Left("it has a bias or scales its result")
        [count, *_] = hints(self.b.get_size())
        # The graph does not say how many rows a token has, so each row counts as a token.
        return {"groups": count, **({"scaling": "row"} if self.op == "scaled_grouped_mm" else {})}

    def _scaling(self, k: int) -> str:
        recipes = self._recipes()
        if None in recipes:
            raise Left("its scales have shapes that Inductor has no tiles for")
        if "block" in recipes:
            raise Left("blocks have scales, for which only the library multiplies in fp8")
        if any(one.get_dtype() != torch.float32 for name in _SCALES for one in _several(self._arguments[name])):
            raise Left("its scales are not fp32")
        if k <= 16:
            raise Left("K is too short for a tile")
        return "row" if "row" in recipes else "tensor"

    def _recipes(self) -> list[str | None]:
        """How A's and B's scales are meant. ``None`` for what Inductor has no tiles for."""
        a, b = (_several(self._arguments[name]) for name in _SCALES)
        stated = [_RECIPES.get(int(one)) for name in ("recipe_a", "recipe_b") for one in self._arguments.get(name, ())]
        if len(a) != 1 or len(b) != 1 or any(self._arguments.get("swizzle_a") or ()):
            return [None]
        if "block" in stated:
            return stated
        # Tiles read scales by their shapes, not by what they are said to be.
        found = self._recipes_of(a[0], b[0])
        return found if not stated or stated == found else [None]

    def _recipes_of(self, a: Any, b: Any) -> list[str | None]:
        """How scales are meant by their shapes. ``None`` for what Inductor has no tiles for."""
        try:
            return [_RECIPES.get(one.value) for one in mm.get_scaling_options(self.a, self.b, a.get_size(), b.get_size())]
        except AssertionError:  # No pair of recipes has such shapes.
            return [None]


class Traced(Served):
    """The same as a traced graph describes it, before anything is lowered."""

    def __init__(self, op: str, node: Any) -> None:
        described = lambda one: _Described(one.meta["val"])
        super().__init__(op, node.target, torch.fx.map_arg(node.args, described), torch.fx.map_arg(node.kwargs, described))
        self.node = node

    def _recipes_of(self, a: Any, b: Any) -> list[str | None]:
        shapes = [list(one.get_size()) for one in (a, b)]
        if math.prod(shapes[0]) == math.prod(shapes[1]) == 1:
            return ["tensor", "tensor"]
        is_by_row = shapes == [[self.a.get_size()[0], 1], [1, self.b.get_size()[1]]]
        return ["row", "row"] if is_by_row else ["block", "block"]


class _Described:
    """A tensor of a traced graph, with the methods of Inductor's values."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor

    def get_size(self) -> list[int]:
        return numbers(self._tensor.shape)

    def get_stride(self) -> list[int]:
        return numbers(self._tensor.stride())

    def get_dtype(self) -> torch.dtype:
        return self._tensor.dtype

    def realize(self) -> None:
        """Nothing: a traced graph computes nothing."""


def numbers(sizes: Sequence[Any]) -> list[int]:
    """Sizes of a traced tensor. Those that may change are as in the example."""
    return [size if isinstance(size, int) else size.node.hint for size in sizes]


def _several(value: Any) -> Sequence[Any]:
    """The values of an argument that is missing, one value or, in newer operators, a list."""
    return value if isinstance(value, (list, tuple)) else () if value is None else (value,)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    return [change(one) for one in value] if isinstance(value, (list, tuple)) else change(value)


def _steps(node: Any) -> Sequence[int]:
    """How far apart neighbours in each dimension are, which is certain as soon as a value is realised."""
    node.realize()
    stride = node.maybe_get_stride() if hasattr(node, "maybe_get_stride") else node.get_stride()
    return hints(stride if stride is not None else node.get_layout().stride)


def wrap_lowerings(lower: Callable[..., Any]) -> Undo:
    """Replaces their lowerings by ``lower(operator, original, arguments, named, target)``."""
    replaced = {target: lowerings[target] for target in TARGETS if target in lowerings}

    def wrapped(op: str, target: Any, original: Callable[..., Any]) -> Callable[..., Any]:
        return functools.wraps(original)(lambda *given, **named: lower(op, original, given, named, target))

    for target, original in replaced.items():
        lowerings[target] = wrapped(TARGETS[target], target, original)
    return lambda: lowerings.update(replaced)


def wrap_grouped_tiles(planned: Callable[[], dict[str, Any] | None]) -> Undo:
    """Grouped multiplications do not ask for choices: the lowering appends one for each config of a list of its own.

    ``planned()`` returns the parameters of the pick for the first of them, and an empty dict for the others, which are not made.
    ``None`` leaves the lowering as it is.
    """

    def appending(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def append(choices: list[Any], **given: Any) -> Any:
            params = planned()
            if params is None:
                return original(choices, **given)
            return original(choices, **{**given, **params}) if params else None

        return append

    for template in _TEMPLATES:
        template.maybe_append_choice = appending(template.maybe_append_choice)

    def undo() -> None:
        for template in _TEMPLATES:
            vars(template).pop("maybe_append_choice", None)

    return undo


def turned_back(product: Any) -> Any:
    """The product of the transposes as the product."""
    return lowered(aten.permute.default, product, [1, 0])


def is_tile(choice: Any) -> bool:
    """Whether a choice, which need not be made from a template choice, is a tile of Triton."""
    return isinstance(choice, TritonTemplateCaller)


def tuning(tma: bool) -> contextlib.AbstractContextManager[Any]:
    """A context in which Inductor offers tiles, and with ``tma`` those that it offers only if the user asks for them."""
    return config.patch({"max_autotune_gemm": True, **({"triton.enable_persistent_tma_matmul": True} if tma else {})})


def lowered(target: Any, *arguments: Any, **named: Any) -> Any:
    """What an operator is lowered to."""
    return lowerings[target](*arguments, **named)
