"""Inductor's template of tiles with a loop over K that the assembler `ptxas` cannot unroll."""

from __future__ import annotations

import copy
import functools
import hashlib
from typing import Any

import sympy

_STEPS = "range(0, tl.cdiv(K, BLOCK_K))"
# A grid of `mm` has two dimensions, so this index is 0. The assembler does not know that.
_HIDDEN = "range(0, tl.cdiv(K, BLOCK_K) + tl.program_id(2))"


def hiding(template: Any, inputs: Any) -> Any:
    """The template with hidden steps. The given template if this torch has another one, or if K may change anyway."""
    k = inputs.nodes()[-1].get_size()[-2]
    return (isinstance(k, (int, sympy.Integer)) and _edited(template)) or template


@functools.cache
def _edited(template: Any) -> Any:
    from torch._inductor.kernel import mm

    load = getattr(mm, "load_kernel_template", None)
    source = load("triton_mm") if load else ""
    digest = hashlib.sha256(source.encode()).hexdigest()
    if digest != getattr(template, "src_hash", None) or source.count(_STEPS) != 1:
        return None
    edited = copy.copy(template)
    edited.template = template._template_from_string(source.replace(_STEPS, _HIDDEN))
    # The cache is the original's, and does not distinguish the two.
    edited._cache_codegen_enabled_for_template = False
    return edited
