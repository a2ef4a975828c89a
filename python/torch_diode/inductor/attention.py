"""FlexAttention: reads what a kernel works on from the graph, and replaces torch's blocks, stages and warps."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

from ..heuristics import Candidate
from ..heuristics.attention import Attention
from . import Undo
from .hooks import wrap_method
from .kernels import hints

_METHODS = {
    "forward": "get_flex_attention_fwd_configs",
    "backward": "get_flex_attention_bwd_configs",
    "decode": "get_flex_decode_configs",
}
_FIELDS = {
    "BLOCK_M": "block_m", "BLOCK_N": "block_n", "BLOCK_M1": "block_m1", "BLOCK_N1": "block_n1", "BLOCK_M2": "block_m2",
    "BLOCK_N2": "block_n2", "num_stages": "num_stages", "num_warps": "num_warps",
}  # fmt: skip
_COMPARISONS = ("ge", "gt", "le", "lt")
# The arguments of the operator in a graph.
_QUERY, _KEY, _SCORE, _MASK, _OPTIONS = 0, 1, 3, 4, 6


def wrap_options(decide: Callable[[str, Sequence[Any]], Any]) -> Undo:
    """Calls ``decide(pass, torch's configs)`` for each kernel, in every thread. It returns a config, or ``None`` to leave torch's."""

    def wrapper(kind: str) -> Callable[..., Any]:
        def wrapped(original: Callable[..., Any]) -> Callable[..., Any]:
            # Newer versions pass one argument more, in the middle.
            def configs(self: Any, *arguments: Any, **named: Any) -> Any:
                found = original(self, *arguments, **named)
                chosen = decide(kind, found)
                return found if chosen is None else [chosen]

            return configs

        return wrapped

    undos = [wrap_method(InductorChoices, name, wrapper(kind)) for kind, name in _METHODS.items()]

    def undo() -> None:
        for one in reversed(undos):
            one()

    return undo


def asked(kind: str) -> Attention:
    """The kernel of FlexAttention that is being lowered."""
    node = V.graph.current_node
    query, key = (node.args[at].meta["val"] for at in (_QUERY, _KEY))
    (batch, heads, rows, head_dim), (_, groups, keys, _) = (_sizes(one) for one in (query, key))
    nodes = list(_graphs(node))
    return Attention(
        kind=kind,
        dtype=str(query.dtype).removeprefix("torch."),
        head_dim=head_dim,
        group=max(1, heads // groups),
        heads=batch * (groups if kind == "decode" else heads),
        q=rows,
        kv=keys,
        mask=_mask(nodes[1]) if len(nodes) > 1 else "full",
        blocks=_block_sizes(node),
        why_not=_why_not(node, nodes),
    )


def changed(config: Any, picked: Candidate, attention: Attention) -> Any:
    """A config of torch's with other options. ``None`` if they do not divide the blocks of the mask."""
    options: Any = picked.config
    if not options.values:
        return None
    values = {_FIELDS[name]: value for name, value in options.values.items()}
    rows, keys = attention.blocks
    for name, value in options.values.items():
        by = rows if name.startswith("BLOCK_M") else keys if name.startswith("BLOCK_N") else value
        if by % value:
            return None
    known = {field.name for field in dataclasses.fields(config)}
    return dataclasses.replace(config, **values) if set(values) <= known else None


def _why_not(node: Any, graphs: Sequence[Any]) -> str | None:
    given = next((one for one in node.args if isinstance(one, Mapping)), {})
    own = [name for name in given if name.removeprefix("fwd_").removeprefix("bwd_") in _FIELDS]
    if own:
        return f"the user's kernel_options set {own[0]}"
    if graphs and not _is_identity(graphs[0]):
        return "it changes scores, and such kernels were not measured"
    return None


def _graphs(node: Any) -> Iterator[Any]:
    """The graphs that change scores and that mask them: those of the forward pass, or of the backward pass in the same order."""
    for one in node.args:
        several = one if isinstance(one, (tuple, list)) else [one]
        for inner in several:
            if getattr(inner, "op", None) == "get_attr":
                found = V.graph.module
                with contextlib.suppress(AttributeError):
                    for name in inner.target.split("."):
                        found = getattr(found, name)
                    if isinstance(found, torch.fx.GraphModule):
                        yield found.graph


def _is_identity(graph: Any) -> bool:
    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    output = next(node for node in graph.nodes if node.op == "output").args[0]
    output = output[0] if isinstance(output, (tuple, list)) else output
    return bool(placeholders) and output is placeholders[0]


def _mask(graph: Any) -> str:
    names = [
        str(getattr(node.target, "__name__", node.target)).split(".")[0] for node in graph.nodes if node.op == "call_function"
    ]
    if "index" in names:
        return "documents"
    if not any(name in _COMPARISONS for name in names):
        return "full"
    return "window" if "sub" in names or "add" in names else "causal"


def _block_sizes(node: Any) -> tuple[int, int]:
    """How many rows and keys are in one block of the mask."""
    for one in node.args:
        if isinstance(one, (tuple, list)) and len(one) > 3 and all(isinstance(size, int) for size in one[-3:-1]):
            return (one[-3], one[-2])
    return (1, 1)


def _sizes(value: torch.Tensor) -> Sequence[int]:
    return hints([size.node.expr if isinstance(size, torch.SymInt) else size for size in value.shape])
