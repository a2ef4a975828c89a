"""Multiplications that nobody decides: Inductor calls them as they are, without any choice."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import torch
from torch._inductor.graph import GraphLowering

from . import Undo
from .hooks import wrap_method
from .served import TARGETS

_LIKE_A_MULTIPLICATION = re.compile(r"(?:^|_)(?:[a-z]?mm|mv|dot|gemm|matmul|linear|moe|experts|f8f8bf16)(?:_|\d|$)")
_AS_THEY_ARE = {
    "_scaled_mm_v2", "_scaled_grouped_mm_v2", "_triton_scaled_dot_attention", "_scaled_addmm", "_trilinear",
    "_weight_int4pack_mm", "_weight_int4pack_mm_with_scales_and_zeros", "_mixed_dtypes_linear",
    "_cslt_sparse_mm", "_sparse_semi_structured_mm", "_sparse_semi_structured_addmm", "_sparse_semi_structured_linear",
    "dot", "vdot", "mv", "addmv", "addbmm", "_addmm_activation",
}  # fmt: skip
_OWN = ("aten", "prims", "prim", "inductor", "quantized")


def note_unseen(note: Callable[[str, str], None]) -> Undo:
    """Calls ``note(name, why)`` for each multiplication on a GPU that is about to be called as it is."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def call_function(self: Any, target: Any, args: Any, kwargs: Any) -> Any:
            reason = _reason(target)
            if reason is not None and _is_on_gpu(args):
                note(str(target).removesuffix(".default"), reason)
            return original(self, target, args, kwargs)

        return call_function

    return wrap_method(GraphLowering, "call_function", wrapper)


def _reason(target: Any) -> str | None:
    if not isinstance(target, torch._ops.OpOverload) or target in TARGETS:
        return None
    namespace, _, name = target._schema.name.partition("::")
    if namespace in _OWN:
        return "this version of torch calls it as it is" if namespace == "aten" and name in _AS_THEY_ARE else None
    if not _LIKE_A_MULTIPLICATION.search(name.lower()):
        return None
    return f"it is an operator of {namespace}, into which Inductor does not see"


def _is_on_gpu(arguments: Any) -> bool:
    first = next((one for one in arguments if hasattr(one, "get_device")), None)
    device = first.get_device() if first is not None else None
    return device is not None and device.type == "cuda"
