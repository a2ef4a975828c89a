"""Inductor's templates, and the choices that are made from them."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import config, utils
from torch._inductor.ir import FixedLayout
from torch._inductor.kernel_template_choice import KernelTemplateChoice
from torch._inductor.lookup_table import LookupTableChoices
from torch._inductor.virtualized import V

try:  # The newer name. The older one will go.
    from torch._inductor.heuristics.template import get_template_heuristic
    from torch._inductor.heuristics.template.params import DictKernelTemplateParams
except ImportError:
    from torch._inductor.template_heuristics import get_template_heuristic
    from torch._inductor.template_heuristics.params import DictKernelTemplateParams

LIBRARY = "aten::"
DECOMPOSE_K = "decompose_k"
LIBRARY_WITHOUT_CPP = "aten::bias_addmm"
"""A Python function of Inductor. Compiled C++ code cannot call it."""

_numbers_lock = threading.Lock()
_next_number = itertools.count(1)
_numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()


def is_library(template: Any) -> bool:
    return bool(template.uid.startswith(LIBRARY))


def is_kernel(template: Any) -> bool:
    """Whether a template gives tiles or splits of K, and neither the library nor a rewrite of the operands."""
    return bool(template.uid.startswith("triton::") or template.uid == DECOMPOSE_K)


def offers_library() -> bool:
    """Whether the user lets Inductor choose the library when it tunes."""
    return bool(utils._use_autotune_backend("ATEN"))


def ktc_of(choice: Any) -> Any:
    """The template choice that a rendered choice was made from. ``None`` if no template made it."""
    return getattr(choice, "annotations", {}).get("ktc")


def build(template: Any, inputs: Any, op: str, params: Mapping[str, Any]) -> Any:
    """A choice from a template with these parameters. Everything else is as in Inductor."""
    heuristic = get_template_heuristic(template.uid, inputs.device_type, op)
    return KernelTemplateChoice(
        template=template,
        params=DictKernelTemplateParams(params),
        extra_kwargs=heuristic.get_extra_kwargs(inputs, op),
        layout=inputs.output_layout(),
        inputs=heuristic.adjust_kernel_inputs(inputs, op),
    )


def changed(choice: Any, params: Mapping[str, Any], *, in_columns: bool = False) -> Any:
    """A choice like another one, with other parameters. It may write its product by columns."""
    return (_InColumns if in_columns else KernelTemplateChoice)(
        template=choice.template,
        params=DictKernelTemplateParams(params),
        extra_kwargs=choice.extra_kwargs,
        layout=choice.layout,
        inputs=choice.inputs,
    )


class _InColumns(KernelTemplateChoice):
    """A choice that writes its product by columns. Inductor gives all choices of scaled multiplications rows, also later."""

    @property
    def layout(self) -> Any:
        return self._layout

    @layout.setter
    def layout(self, layout: Any) -> None:
        rows, columns = layout.size
        self._layout = FixedLayout(layout.device, layout.dtype, [rows, columns], [sympy.S.One, rows])


def table_entry(choice: Any) -> dict[str, Any]:
    """A choice in the form of Inductor's lookup table."""
    template = choice.template
    digest = getattr(template, "src_hash", None)
    hashed = {} if digest is None else {"template_hash": digest}
    params = choice.params.to_serializeable_dict()
    if isinstance(choice, _InColumns):  # Blocks are those of the product, not of its transpose.
        params |= {"BLOCK_M": params["BLOCK_N"], "BLOCK_N": params["BLOCK_M"], "swap_ab": True}
    return {"template_id": template.uid, **hashed, **params}


def left_out_tile(inputs: Any) -> Any:
    """The template of tiles, if Inductor leaves it out because tiles seldom win for these sizes."""
    if not utils.use_triton_template(inputs.output_layout(), check_max_autotune=False):
        return None
    from torch._inductor.kernel.mm import mm_template

    return mm_template


def tiles_use_tf32(inputs: Any, op: str) -> bool:
    """Whether Inductor's tiles compute fp32 products in TF32. Newer versions do not for small sizes, where the library does."""
    uid = "triton::bmm" if op in ("bmm", "baddbmm") else "triton::mm"
    extra = get_template_heuristic(uid, inputs.device_type, op).get_extra_kwargs(inputs, op)
    return bool(extra.get("ALLOW_TF32", False))


def library_uses_tf32() -> bool:
    """Whether the user lets fp32 products be computed in TF32."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")


def divides(size: Any, by: int) -> bool:
    """Whether a size is known to be a multiple. It is not enough that it is one now."""
    return bool(V.graph.sizevars.statically_known_true((size % by) == 0))


def writes_cpp() -> bool:
    return bool(V.graph.cpp_wrapper)


def lookup_keys(inputs: Any, op: str) -> list[str]:
    """The keys of Inductor's lookup table. The key with the device's name comes first."""
    if not hasattr(inputs, "shapes_hinted"):
        return []
    keys = LookupTableChoices().make_lookup_key_variants(inputs, op)
    return [key for key in keys if key is not None]


def size_hints() -> Callable[..., Any] | None:
    """The method that returns assumed values for sizes that may change."""
    from torch._inductor.sizevars import SizeVarAllocator

    return getattr(SizeVarAllocator, "optimization_hints", None) or getattr(SizeVarAllocator, "size_hints", None)


def hints(sizes: Sequence[Any]) -> Sequence[int]:
    """The assumed values for sizes that may change. Plain numbers need no half of a repeated problem's time for it."""
    if all(isinstance(size, (int, sympy.Integer)) for size in sizes):
        return [int(size) for size in sizes]
    ask = size_hints()
    assert ask is not None
    hinted: Sequence[int] = ask(V.graph.sizevars, sizes, fallback=config.unbacked_symint_fallback)
    return hinted


def compile_id() -> str:
    """The id of the compile in this thread. Forward and backward of a frame have the same id."""
    return str(torch._guards.CompileContext.current_compile_id())


def compile_number() -> int:
    """The number of the compile in this thread, which no other compile of the process has. Outside of a compile it is 0.

    Forward and backward of a frame have the same context, and so the same number.
    """
    context = torch._guards.CompileContext.try_get()
    if context is None:
        return 0
    with _numbers_lock:
        if context not in _numbers:
            _numbers[context] = next(_next_number)
        return _numbers[context]
