"""Turns what Inductor is about to compile into a problem."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

from ._core import DiodeError, Hardware, Problem
from .inductor import epilogues, served
from .inductor.kernels import hints

DTYPES = (torch.float16, torch.bfloat16, torch.float32)


class Unsupported(Exception):
    """Why a kernel is left to Inductor, in words that complete a sentence."""


def problem_of(kernel_inputs: Any, op_name: str) -> Problem:
    """The problem of a kernel. Sizes that are not known are replaced by their hints."""
    if isinstance(kernel_inputs, served.Served):
        try:
            return kernel_inputs.problem(epilogues.scaled_to(op_name, kernel_inputs.node) if op_name == "int_mm" else None)
        except (served.Left, DiodeError) as left:
            raise Unsupported(str(left)) from None
    dtypes, shapes, strides = kernel_inputs.dtypes(), kernel_inputs.shapes_symbolic(), kernel_inputs.strides_symbolic()
    a_dtype, b_dtype, out_dtype = dtypes[-2], dtypes[-1], kernel_inputs.out_dtype()
    for dtype in (a_dtype, b_dtype, out_dtype):
        if dtype not in DTYPES:
            raise Unsupported(f"it computes in {_name(dtype)}; fp16, bf16 and fp32 are supported")
    *batch, m, k = hints(shapes[-2])
    [n] = hints(shapes[-1][-1:])
    if 0 in (*batch, m, n, k):
        raise Unsupported("it is empty")
    return Problem(
        op_name,
        m=m,
        n=n,
        k=k,
        dtype=_name(a_dtype),
        b=batch[0] if batch else 1,
        b_dtype=_name(b_dtype),
        out_dtype=_name(out_dtype),
        a_layout=_layout("A", hints(strides[-2])),
        b_layout=_layout("B", hints(strides[-1])),
        bias=_bias(op_name, shapes[0], strides[0]) if op_name in ("addmm", "baddbmm") else None,
    )


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _layout(name: str, strides: Sequence[int]) -> str:
    if strides[-1] == 1:
        return "row"
    if strides[-2] == 1:
        return "column"
    raise Unsupported(f"neither dimension of {name} is contiguous (strides {list(strides)})")


def _bias(op: str, shape: Sequence[Any], strides: Sequence[Any]) -> str:
    steps = hints(strides)
    # The library takes the bias of an `addmm` as it is. That of a `baddbmm` is copied for it, too. The stride of a
    # single element says nothing.
    if op == "addmm" and not any(step == 1 and size != 1 for size, step in zip(shape, steps, strict=True)):
        raise Unsupported("no dimension of its bias is contiguous, and Inductor would copy the bias for a tile")
    # Inductor expands the bias to the shape of the output. A row distance of 0 shows that it was a
    # vector.
    return "vector" if steps[-2] == 0 else "matrix"


class Device:
    """A GPU as torch describes it, and its hardware in the catalogue."""

    def __init__(self, name: str, hardware: Hardware | None, shared_memory: int | None) -> None:
        self.name = name
        self.hardware = hardware
        self.shared_memory = shared_memory


def device_of(kernel_inputs: Any) -> Device:
    """The device that a kernel will run on."""
    device = kernel_inputs.device()
    if device.type != "cuda":
        raise Unsupported(f"it runs on {device.type}; NVIDIA's and AMD's GPUs are supported")
    return described_device(device.index if device.index is not None else torch.cuda.current_device())


@functools.lru_cache(maxsize=64)
def described_device(index: int) -> Device:
    """The GPU with this number."""
    properties = torch.cuda.get_device_properties(index)
    shared_memory = getattr(properties, "shared_memory_per_block_optin", 0) or None
    if torch.version.hip is not None:
        shared_memory = getattr(properties, "shared_memory_per_block", 0) or None
    return Device(properties.name, Hardware.find(properties.name), shared_memory)
