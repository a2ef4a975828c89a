"""Checks that this torch has what the plug-in needs."""

from __future__ import annotations

import inspect
from typing import Any

import torch
from torch._inductor import compile_fx_ext, config, utils
from torch._inductor.choices import InductorChoices
from torch._inductor.kernel_inputs import MMKernelInputs
from torch._inductor.kernel_template_choice import KernelTemplateChoice
from torch._inductor.lowering import lowerings
from torch._inductor.select_algorithm import get_algorithm_selector_cache

from . import OPS
from .config import entry
from .kernels import size_hints


def lacking() -> str | None:
    """What this torch lacks, in one line. ``None`` if it has everything."""
    wanted = {
        InductorChoices._finalize_template_configs: [
            "self", "template_choices", "kernel_inputs", "templates", "op_name", "kwarg_overrides"
        ],
        InductorChoices.get_ktc: ["self", "kernel_inputs", "template", "op_name", "kwarg_overrides"],
        KernelTemplateChoice.__init__: ["self", "template", "params", "extra_kwargs", "layout", "inputs"],
        MMKernelInputs.__init__: ["self", "input_nodes", "scalars", "out_dtype", "mat1_idx", "mat2_idx"],
    }  # fmt: skip
    for function, names in wanted.items():
        if list(inspect.signature(function).parameters) != names:
            return f"{function.__qualname__} has changed"
    owners: list[tuple[Any, str]] = [
        (MMKernelInputs, "shapes_symbolic"), (MMKernelInputs, "strides_symbolic"), (MMKernelInputs, "output_layout"),
        (config, "_config"), (config, "max_autotune_gemm_backends"), (utils, "_use_autotune_backend"),
        (compile_fx_ext, "_WireProtocolInput"), (get_algorithm_selector_cache(), "preprocessing_fns"), (get_algorithm_selector_cache(), "feedback_saver_fns"),
    ]  # fmt: skip
    for owner, name in owners:
        if not hasattr(owner, name):
            return f"{getattr(owner, '__name__', type(owner).__name__)} has no {name}"
    missing = [op for op in OPS if getattr(torch.ops.aten, op).default not in lowerings]
    if missing:
        return f"there is no lowering of {missing[0]}"
    if size_hints() is None:
        return "SizeVarAllocator has neither optimization_hints nor size_hints"
    try:
        entry("diode_check", 1, int)
    except TypeError as error:
        return f"_ConfigEntry: {error}"
    return None
