"""Products that are lowered in another form than torch's: of int8 weights, and of weights that are gathered for few tokens."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import sympy
import torch
from torch._inductor.lowering import lowerings
from torch._inductor.virtualized import V

from .._core import Config
from . import Undo
from .kernels import hints
from .served import lowered as _lowered

aten = torch.ops.aten


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
        what = f"int8 weights {_sizes(x.get_size()[0], *weight.get_size())}"
        if x.get_device().type != "cuda" or not is_on(what, f"{_WAYS[way]}, not one thread an output as in torch"):
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


def _sizes(*sizes: Any) -> str:
    return "×".join(map(str, hints(sizes)))


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
        batch, m, k = a.get_size()
        what, gathered = f"bmm {_sizes(batch, m, b.get_size()[2], k)} of gathered weights", getattr(a, _GATHERED, None)
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
