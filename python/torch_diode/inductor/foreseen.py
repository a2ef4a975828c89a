"""Describes a kernel before Inductor lowers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._inductor import config, ir, utils
from torch._inductor.kernel_inputs import MMKernelInputs
from torch._inductor.virtualized import V

from . import OPS, served
from .served import TARGETS, numbers

_TRACED = {getattr(torch.ops.aten, op).default: op for op in OPS}


class Traced:
    """The operands of a multiplication as the traced graph describes them, with the methods of Inductor's inputs."""

    def __init__(self, op: str, node: Any) -> None:
        result = node.meta["val"]
        self._tensors = [argument.meta["val"] for argument in node.args]
        if op in ("addmm", "baddbmm"):
            self._tensors[0] = self._tensors[0].expand(result.shape)
        self._out_dtype = result.dtype

    def dtypes(self) -> list[Any]:
        return [tensor.dtype for tensor in self._tensors]

    def shapes_symbolic(self) -> list[list[int]]:
        return [numbers(tensor.shape) for tensor in self._tensors]

    def strides_symbolic(self) -> list[list[int]]:
        return [numbers(tensor.stride()) for tensor in self._tensors]

    def out_dtype(self) -> Any:
        return self._out_dtype


def on_meta(graph: Any) -> Iterator[tuple[str, Any, Any]]:
    """The multiplications of meta tensors in a traced graph, which Inductor removes before it lowers anything: operators, operands
    and nodes."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor) or value.device.type != "meta":
            continue
        if node.target in _TRACED:
            yield _TRACED[node.target], Traced(_TRACED[node.target], node), node
        elif node.target in TARGETS:
            yield TARGETS[node.target], served.Traced(TARGETS[node.target], node), node


def inputs_of(op: str, arguments: Sequence[Any], named: Mapping[str, Any], *, on_cpu: bool = False) -> Any:
    """A kernel's inputs before it is lowered. ``None`` for a kernel that the plug-in does not pick, unless it is ``on_cpu``.

    Looking changes nothing: no operand is computed, no layout fixed, no size specialised. So if the lowering is then left to
    Inductor, the code is the same as without the plug-in. A layout that is not decided yet is assumed to be the one in the
    traced graph.
    """
    is_sum = op in ("addmm", "baddbmm")
    out_dtype = named.get("out_dtype") if is_sum or len(arguments) < 3 else arguments[2]
    operands = list(arguments[: 3 if is_sum else 2])
    devices = ("cuda", "cpu") if on_cpu else ("cuda",)
    if out_dtype is not None or len(operands) < 2 or any(one.get_device().type not in devices for one in operands[-2:]):
        return None
    scalars = {name: named.get(name, 1) for name in ("alpha", "beta")} if is_sum else None
    # A sum with beta = 0 may be lowered as a product, so it is left to Inductor.
    if scalars is not None and scalars["beta"] == 0:
        return None
    nodes = [_standing_for(operand, at) for at, operand in enumerate(operands)]
    if is_sum:
        nodes[0] = _expanded(nodes[0], _output(nodes).size)
    return MMKernelInputs(nodes, scalars=scalars)


def may_be_tiled(inputs: Any) -> bool:
    """Whether Inductor offers tiles for a kernel when it is asked to tune."""
    layout = _output(inputs.nodes())
    if config.triton.native_matmul or getattr(config, "batch_invariant", False) or 0 in layout.size:
        return False
    known_precision = layout.dtype != torch.float32 or torch.backends.cuda.matmul.fp32_precision != "bfx9"
    return known_precision and bool(utils.use_triton_template(layout, check_max_autotune=False))


def followers(op: str) -> tuple[str, ...]:
    """The operators that use the result of what is being lowered, also through views, according to the traced graph."""
    node = V.graph.current_node
    if name_of(node) != op:  # Another operator is lowered as a multiplication here.
        return (name_of(node),)
    return followers_of(node)


def followers_of(node: Any) -> tuple[str, ...]:
    """The operators that use the result of a node of a graph, also through views."""
    names: list[str] = []
    waiting = list(node.users)
    while waiting:
        user = waiting.pop(0)
        if name_of(user) in ("view", "reshape", "_unsafe_view"):
            waiting += list(user.users)
        else:
            names.append(name_of(user))
    return tuple(names)


def name_of(node: Any) -> str:
    return node.op if node.op == "output" else getattr(node.target, "__name__", str(node.target)).split(".")[0]


def _output(nodes: Sequence[Any]) -> Any:
    size = [*nodes[-2].get_size()[:-1], nodes[-1].get_size()[-1]]
    return ir.FixedLayout(nodes[-2].get_device(), nodes[-2].get_dtype(), size)


def _standing_for(operand: Any, at: int) -> Any:
    size = list(operand.get_size())
    try:
        stride = list(ir.as_storage_and_layout(operand, freeze=False)[1].stride)
    except NotImplementedError:  # It is not computed yet.
        stride = _traced_stride(at, len(size)) or list(ir.FlexibleLayout.contiguous_strides(size))
    return _node(operand.get_device(), operand.get_dtype(), size, stride)


def _node(device: Any, dtype: Any, size: Sequence[Any], stride: Sequence[Any]) -> Any:
    return ir.InputBuffer(name="diode", layout=ir.FixedLayout(device, dtype, size, stride))


def _traced_stride(at: int, dimensions: int) -> list[Any] | None:
    node = V.graph.current_node
    # Another operator may be lowered as a multiplication, whose operands are not its own.
    arguments = node.args if node is not None and name_of(node) in OPS else ()
    value = getattr(arguments[at], "meta", {}).get("val") if at < len(arguments) else None
    if not isinstance(value, torch.Tensor) or value.dim() != dimensions:
        return None
    return [step.node.expr if isinstance(step, torch.SymInt) else step for step in value.stride()]


def _expanded(node: Any, size: Sequence[Any]) -> Any:
    """A bias, expanded to the shape of the output like in Inductor."""
    missing = len(size) - len(node.get_size())
    own = zip(node.get_size(), node.get_stride(), size[missing:], strict=True)
    stride = [0] * missing + [0 if one == 1 and other != 1 else step for one, step, other in own]
    return _node(node.get_device(), node.get_dtype(), size, stride)
