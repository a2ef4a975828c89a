"""Inductor's template of tiles with sizes that the assembler `ptxas` does not know.

Inductor writes sizes and strides into the source of a kernel. Then `ptxas` may unroll the loop over K, and it computes the
addresses of a step in another way than in the kernels of packs, which get sizes and strides as arguments.
"""

from __future__ import annotations

import copy
import dataclasses
import functools
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import sympy

# A thread loads as many bytes at once, if all rows begin at multiples of them.
_WIDE_BYTES, _WORD_BYTES = 16, 4
# Of half precision. In fp32, nobody has measured what hidden strides change.
_ITEM_BYTES = 2

_STEPS = "range(0, tl.cdiv(K, BLOCK_K))"
# A grid of `mm` has two dimensions, so this index is 0. The assembler does not know that.
_ZERO = "tl.program_id(2)"
_HIDDEN_STEPS = f"range(0, tl.cdiv(K, BLOCK_K) + {_ZERO})"
_LOOP = f"    for k_idx in {_STEPS}:\n"
_LOAD = """\
        {{{{load_input("{0}", "{1}", ("idx_m", "idx_n"), mask=None if EVEN_K else "{1}_mask",
                     indent_width=8, index_shape={2})}}}}
"""
_SHAPES = {"A": '("BLOCK_M", "BLOCK_K")', "B": '("BLOCK_K", "BLOCK_N")'}


def steps(template: Any, inputs: Any) -> Any:
    """The template with a loop over K that cannot be unrolled. The given template if that cannot be had."""
    k = inputs.nodes()[-1].get_size()[-2]
    return (_is_known(k) and _edited(template, ((_STEPS, _HIDDEN_STEPS),))) or template


def unaligned_strides(template: Any, inputs: Any, stages: int) -> Any:
    """The template with hidden steps and strides, for operands in half precision of which one has unaligned rows.

    Its kernels read like those of packs for all sizes, whose times models and tables have. No other kernel can be
    fused before a kernel with hidden strides. Otherwise it is the given template.
    """
    a, b = (_Operand.of(node, k_index) for node, k_index in zip(inputs.nodes()[-2:], (1, 0), strict=True))
    if a is None or b is None or not _should_hide(a, b, stages):
        return template
    return _edited(template, _with_hidden_strides({"A": a, "B": b})) or template


def _should_hide(a: _Operand, b: _Operand, stages: int) -> bool:
    """Whether kernels with hidden strides were faster on an H200 than Inductor's.

    They were if the rows of exactly one operand begin at any element and no operand has rows along K. If A has aligned rows
    along K, they were only with two stages or more; with one stage they took twice as long. B with rows along K was not timed.
    """
    unaligned, other = (b, a) if a.is_aligned else (a, b)
    if unaligned.divisor != 1 or not other.is_aligned or b.has_rows_along_k:
        return False
    return not a.has_rows_along_k or (a.is_aligned and stages > 1)


@dataclasses.dataclass(frozen=True)
class _Operand:
    """How a matrix in half precision lies in memory: which index moves by a stride that is not 1, and what divides that stride."""

    strided: int
    divisor: int
    has_rows_along_k: bool

    @staticmethod
    def of(node: Any, k_index: int) -> _Operand | None:
        stride = node.get_stride()
        if node.get_dtype().itemsize != _ITEM_BYTES or not all(map(_is_known, [*node.get_size(), *stride])):
            return None
        if [int(one) for one in stride].count(1) != 1:
            return None
        strided = 1 if stride[0] == 1 else 0
        return _Operand(strided, _divisor(int(stride[strided])), has_rows_along_k=strided != k_index)

    @property
    def is_aligned(self) -> bool:
        return self.divisor * _ITEM_BYTES == _WIDE_BYTES

    def stride(self, name: str) -> str:
        """The stride as a sum that still shows its divisor, on which the width of loads depends."""
        return f'({{{{stride("{name}", {self.strided})}}}} // {self.divisor} + {_ZERO}.to(tl.int64)) * {self.divisor}'

    def load(self, name: str) -> str:
        value, index = name.lower(), ["idx_m", "idx_n"]
        moving = index.pop(self.strided)
        at = f"{name} + ({index[0]} + hidden_{value} * {moving})"
        return f"        {value} = tl.load({at}{{% if not EVEN_K %}}, mask={value}_mask, other=0.0{{% endif %}})\n"


def _divisor(stride: int) -> int:
    """What a pack promises of a stride, in elements."""
    promises = (bytes_ // _ITEM_BYTES for bytes_ in (_WIDE_BYTES, _WORD_BYTES, _ITEM_BYTES))
    return next(promise for promise in promises if stride % promise == 0)


def _with_hidden_strides(operands: Mapping[str, _Operand]) -> tuple[tuple[str, str], ...]:
    hidden = "".join(f"    hidden_{name.lower()} = {operand.stride(name)}\n" for name, operand in operands.items())
    loads = ((_LOAD.format(name, name.lower(), _SHAPES[name]), operand.load(name)) for name, operand in operands.items())
    return ((_LOOP, hidden + _LOOP.replace(_STEPS, _HIDDEN_STEPS)), *loads)


def _is_known(size: Any) -> bool:
    return isinstance(size, (int, sympy.Integer))


@functools.cache
def _edited(template: Any, changes: Sequence[tuple[str, str]]) -> Any:
    """A copy of the template with other text. ``None`` if this torch has another template."""
    from torch._inductor.kernel import mm

    load = getattr(mm, "load_kernel_template", None)
    source = load("triton_mm") if load else ""
    digest = hashlib.sha256(source.encode()).hexdigest()
    if digest != getattr(template, "src_hash", None):
        return None
    for before, after in changes:
        if source.count(before) != 1:
            return None
        source = source.replace(before, after)
    edited = copy.copy(template)
    edited.template = template._template_from_string(source)
    # The cache is the original's, and does not distinguish the two.
    edited._cache_codegen_enabled_for_template = False
    return edited
