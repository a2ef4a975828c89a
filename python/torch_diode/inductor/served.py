"""Multiplications that models are served with: scaled, of 8-bit integers, and grouped. Torch lowers them in other ways than the
plain four, so their operands are read here, and their tiles are put in place here."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.kernel import mm, mm_grouped
from torch._inductor.lowering import lowerings
from torch._inductor.select_algorithm import TritonTemplateCaller
from torch._inductor.virtualized import V

from .._core import Config, Problem
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
        self.op = op
        self.a = self._arguments["self"]
        self.b = self._arguments["mat2" if "mat2" in self._arguments else "mat_b"]

    def device(self) -> Any:
        return self.a.get_device()

    def may_use_tma(self) -> bool:
        """Whether Inductor offers the TMA tile of a scaled multiplication. Newer versions fix sizes when they look for it."""
        static = all(isinstance(size, (int, sympy.Integer)) for one in (self.a, self.b) for size in one.get_size())
        return static and self._arguments.get("bias") is None

    def may_swap(self) -> bool:
        """Whether the product of the transposes is lowered with the same operator."""
        return self._target is aten._scaled_mm.default and self._arguments.get("bias") is None

    def swapped(self) -> list[Any]:
        """The arguments for the product of the transposes."""
        other = {"self": "mat2", "mat2": "self", "scale_a": "scale_b", "scale_b": "scale_a"}
        turned = lambda one: _lowered(aten.permute.default, one, [1, 0]) if len(one.get_size()) == 2 else one
        given = (
            {one.name: one.default_value for one in self._target._schema.arguments}
            | self._arguments
            | {"self": self.a, "mat2": self.b}
        )
        return [turned(given[other[name]]) if name in other else one for name, one in given.items()]

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
        node.realize()
        stride = node.maybe_get_stride() if hasattr(node, "maybe_get_stride") else node.get_stride()
        steps = hints(stride if stride is not None else node.get_layout().stride)
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
        scales, recipes = self._scales()
        if recipes is None:
            raise Left("its scales have shapes that Inductor has no tiles for")
        if "block" in recipes:
            raise Left("blocks have scales, for which only the library multiplies in fp8")
        if any(one.get_dtype() != torch.float32 for one in scales):
            raise Left("its scales are not fp32")
        if k <= 16:
            raise Left("K is too short for a tile")
        dimensions = {len(one.get_size()) for one in scales}
        # Before the hook existed, tiles failed for scales of one dimension, and for two with different numbers of them.
        if not hasattr(InductorChoices, "append_flex_attention_choices") and dimensions not in ({0}, {2}):
            raise Left("in this version of torch, tiles fail for scales of one dimension; give both the shape (1, 1)")
        return "row" if "row" in recipes else "tensor"

    def _scales(self) -> tuple[Sequence[Any], Sequence[str] | None]:
        a, b = self._arguments["scale_a"], self._arguments["scale_b"]
        if "recipe_a" in self._arguments:
            both = [*self._arguments["recipe_a"], *self._arguments["recipe_b"]]
            names = [_RECIPES.get(int(one)) for one in both]
            single = len(a) == len(b) == 1 and None not in names and not any(self._arguments.get("swizzle_a") or ())
            return [*a, *b], [str(name) for name in names] if single else None
        with contextlib.suppress(AssertionError):  # No pair of recipes has such shapes.
            found = mm.get_scaling_options(self.a, self.b, a.get_size(), b.get_size())
            names = [_RECIPES.get(one.value) for one in found]
            return [a, b], [str(name) for name in names] if None not in names else None
        return [a, b], None


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
    return _lowered(aten.permute.default, product, [1, 0])


def is_tile(choice: Any) -> bool:
    """Whether a choice, which need not be made from a template choice, is a tile of Triton."""
    return isinstance(choice, TritonTemplateCaller)


def tuning(tma: bool) -> contextlib.AbstractContextManager[Any]:
    """A context in which Inductor offers tiles, and with ``tma`` those that it offers only if the user asks for them."""
    return config.patch({"max_autotune_gemm": True, **({"triton.enable_persistent_tma_matmul": True} if tma else {})})


def _lowered(target: Any, *arguments: Any, **named: Any) -> Any:
    return lowerings[target](*arguments, **named)


def wrap_rewrites(
    is_on: Callable[[str, str], bool], with_tile: Callable[[Config], contextlib.AbstractContextManager[Any]]
) -> Undo:
    """Lowers two things in another way, if ``is_on(what, why)``:

    a linear layer with int8 weights, which torch rewrites to an operator that takes one thread for each output; and a batched product
    with a single row or column of gathered weights, which torch copies before it multiplies, as a product and a sum that gather as
    they read, or as groups. In the context ``with_tile(tile)``, a multiplication gets this tile.
    """
    pack = aten._weight_int8pack_mm.default
    original_pack = lowerings.get(pack)

    def unpacked(x: Any, weight: Any, scales: Any) -> Any:
        way = _way_for(x.get_size()[0])
        if x.get_device().type != "cuda" or not is_on("int8 weights", f"{_WAYS[way]}, not one thread an output as in torch"):
            if original_pack is not None:
                return original_pack(x, weight, scales)
            from torch._inductor.lowering import fallback_handler

            return fallback_handler(pack, add_to_fallback_set=False)(x, weight, scales)
        return product(way, x, weight, scales)

    def product(way: int, x: Any, weight: Any, scales: Any) -> Any:
        if way == _SUM:
            summed = _summed(_lowered(aten.unsqueeze.default, x, 1), _lowered(aten.unsqueeze.default, weight, 0), x.get_dtype())
            return _lowered(aten.mul.Tensor, summed, scales)
        widened = _converted(weight, x.get_dtype())
        if way == 0:
            multiplied = _lowered(aten.mm.default, x, _lowered(aten.permute.default, widened, [1, 0]))
            return _lowered(aten.mul.Tensor, multiplied, scales)
        # The weights come first: a tile can convert its first operand, if that lies along K, as it reads.
        tile = Config(block_m=32, block_n=way, block_k=256, num_stages=4, num_warps=4)
        with with_tile(tile):
            turned = _lowered(aten.mm.default, widened, _lowered(aten.permute.default, x, [1, 0]))
        if len(scales.get_size()) != 1:
            return _lowered(aten.mul.Tensor, _lowered(aten.permute.default, turned, [1, 0]), scales)
        # Before it is turned back, the product is scaled in the tile's kernel.
        scaled = _lowered(aten.mul.Tensor, turned, _lowered(aten.unsqueeze.default, scales, 1))
        return _lowered(aten.permute.default, scaled, [1, 0])

    lowerings[pack] = unpacked
    undos = [lambda: lowerings.__setitem__(pack, original_pack) if original_pack is not None else lowerings.pop(pack, None)]
    for target in (aten.bmm, aten.bmm.default):
        original = lowerings[target]
        lowerings[target] = _summing(original, is_on, with_tile)
        undos.append(functools.partial(lowerings.__setitem__, target, original))
    for target in (aten.index, aten.index.Tensor):
        if target in lowerings:
            original = lowerings[target]
            lowerings[target] = _remembering(original)
            undos.append(functools.partial(lowerings.__setitem__, target, original))

    def undo() -> None:
        for one in reversed(undos):
            one()

    return undo


_SUM = 1
_WAYS = {
    _SUM: "multiplied and summed as they are read",
    16: "converted in the tile that multiplies them",
    32: "converted in the tile that multiplies them",
    0: "converted and multiplied by mm",
}
"""How int8 weights are multiplied. Numbers from 16 are the rows of a tile."""


def _way_for(rows: Any) -> int:
    """The way that was the fastest on an H200 for eight sizes of weights, in the geometric mean and hardly ever behind another.

    Over a conversion by a kernel of its own: 2.8 and 1.5 times for one and two rows, 1.6 to 2.5 times to 32 rows. With more rows, a
    tile loses up to a third for some sizes.
    """
    at_most = lambda most: V.graph.sizevars.statically_known_true(sympy.Le(rows, most))
    return _SUM if at_most(2) else 16 if at_most(16) else 32 if at_most(32) else 0


def _converted(value: Any, dtype: torch.dtype) -> Any:
    return _lowered(torch.ops.prims.convert_element_type.default, value, dtype)


def _summed(a: Any, b: Any, dtype: torch.dtype) -> Any:
    """The sum over the last dimension of a product, in fp32."""
    product = _lowered(aten.mul.Tensor, _converted(a, torch.float32), _converted(b, torch.float32))
    return _converted(_lowered(aten.sum.dim_IntList, product, [2]), dtype)


def _summing(original: Callable[..., Any], is_on: Callable[[str, str], bool], with_tile: Any) -> Callable[..., Any]:
    @functools.wraps(original)
    def lowering(a: Any, b: Any, *rest: Any, **named: Any) -> Any:
        if rest or named or not _is_gathered_vector(a, b):
            return original(a, b, *rest, **named)
        what, gathered = "bmm of gathered weights", getattr(a, _GATHERED, None)
        if gathered is not None and _share_experts(*gathered):
            if is_on(what, "multiplied as groups, each expert's rows together, so that its weights are read once"):
                weights, ids = gathered
                return _grouped(weights, ids, b, with_tile)
        elif is_on(what, "multiplied and summed as the weights are gathered, without a copy of them"):
            dtype = a.get_dtype()
            left, right = (_converted(one, torch.float32) for one in (a, b))
            product = _lowered(
                aten.mul.Tensor, _lowered(aten.unsqueeze.default, left, 3), _lowered(aten.unsqueeze.default, right, 1)
            )
            return _converted(_lowered(aten.sum.dim_IntList, product, [2]), dtype)
        return original(a, b)

    return lowering


_GATHERED = "_torch_diode_gathered"
_SHARING = 1.2
"""From so many rows for each expert that has any, grouping them is faster than reading weights for each row. Measured on an H200."""
_GROUP_TILE = Config("triton::mm_persistent_tma", block_m=16, block_n=128, block_k=128, num_stages=4, num_warps=4)


def _remembering(original: Callable[..., Any]) -> Callable[..., Any]:
    """Notes at what is gathered from a stack of matrices where it was gathered from."""

    @functools.wraps(original)
    def lowering(x: Any, indices: Any, *rest: Any, **named: Any) -> Any:
        found = original(x, indices, *rest, **named)
        if len(x.get_size()) == 3 and len(indices) == 1 and indices[0] is not None and len(indices[0].get_size()) == 1:
            setattr(found, _GATHERED, (x, indices[0]))
        return found

    return lowering


def _share_experts(weights: Any, ids: Any) -> bool:
    """Whether rows are expected to share experts. The graph does not say which rows belong to one token."""
    experts, n, k = weights.get_size()
    [rows] = ids.get_size()
    if not all(isinstance(size, (int, sympy.Integer)) for size in (experts, n, k, rows)) or weights.get_dtype() != torch.bfloat16:
        return False
    # Grouped products want rows of multiples of 16 bytes, and the library of them fewer than 1024 groups.
    if experts >= 1024 or n % 8 or k % 8:
        return False
    distinct = float(experts) * (1 - (1 - 1 / float(experts)) ** int(rows))
    return float(rows) / distinct > _SHARING


def _grouped(weights: Any, ids: Any, vectors: Any, with_tile: Any) -> Any:
    """Each row times its expert's weights, with the rows sorted by experts. Sorting counts, since there are few rows."""
    (experts, _, _), [rows] = weights.get_size(), ids.get_size()
    device = weights.get_device()
    count = lambda size: _lowered(
        torch.ops.prims.iota.default, size, start=0, step=1, dtype=torch.int64, device=device, requires_grad=False
    )
    row, column = (lambda one: _lowered(aten.unsqueeze.default, one, 0)), (lambda one: _lowered(aten.unsqueeze.default, one, 1))
    both, either = functools.partial(_lowered, aten.logical_and.default), functools.partial(_lowered, aten.logical_or.default)
    less, same = functools.partial(_lowered, aten.lt.Tensor), functools.partial(_lowered, aten.eq.Tensor)
    total = lambda one, dtype: _lowered(aten.sum.dim_IntList, _converted(one, dtype), [1], dtype=dtype)
    ids, place = _converted(ids, torch.int64), count(rows)
    from_end = _lowered(aten.lt.Scalar, ids, 0)  # Indices may count from the end.
    ids = _lowered(aten.where.self, from_end, _lowered(aten.add.Tensor, ids, int(experts)), ids)
    before = either(less(row(ids), column(ids)), both(same(row(ids), column(ids)), less(row(place), column(place))))
    rank = total(before, torch.int64)
    rank.realize()
    is_here = _converted(same(column(place), row(rank)), torch.int64)
    order = total(_lowered(aten.mul.Tensor, is_here, row(place)), torch.int64)
    ends = total(_lowered(aten.le.Tensor, row(ids), column(count(experts))), torch.int32)
    sorted_rows = _lowered(aten.index.Tensor, _lowered(aten.squeeze.dim, vectors, 2), [order])
    with with_tile(_GROUP_TILE):
        product = _lowered(aten._grouped_mm.default, sorted_rows, _lowered(aten.permute.default, weights, [0, 2, 1]), ends)
    return _lowered(aten.unsqueeze.default, _lowered(aten.index.Tensor, product, [rank]), 2)


def _is_gathered_vector(a: Any, b: Any) -> bool:
    """Whether the weights are gathered by an index and meet a single row or column each."""
    node = V.graph.current_node
    if (
        node.target is not aten.bmm.default
        or a.get_device().type != "cuda"
        or a.get_dtype() not in (torch.bfloat16, torch.float16)
    ):
        return False
    (batch, m, _), n = a.get_size(), b.get_size()[2]
    known = V.graph.sizevars.statically_known_true
    weights = node.args[0] if known(sympy.Eq(n, 1)) else node.args[1] if known(sympy.Eq(m, 1)) else None
    while weights is not None and weights.target in (aten.permute.default, aten.transpose.int, aten.view.default):
        weights = weights.args[0]
    is_index = weights is not None and weights.target in (aten.index.Tensor, aten.index_select.default)
    # The rows of a batch are tokens and their experts. With very many, a grouped product or a copy is better.
    return bool(is_index and known(sympy.Le(batch, 1024)))
