"""Fuses an epilogue into a picked tile even through a view with another number of dimensions.

Before the schedulers of torch 2.10 and 2.11 merge loops, they compare exactly how memory is written and read. So what follows
a linear layer with three-dimensional activations would be a kernel of its own. If a template is involved, newer schedulers
compare the names of buffers instead. That rule is added here, for picked tiles only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._inductor import ir
from torch._inductor.dependencies import MemoryDep
from torch._inductor.scheduler import Scheduler

from . import Undo
from .hooks import wrap_method

_MARK = "torch_diode_picked"


def mark_picked(lowered: Any) -> None:
    """Marks what was lowered as a picked tile."""
    buffer = getattr(getattr(lowered, "data", None), "data", None)
    if isinstance(buffer, ir.TritonTemplateBuffer):
        setattr(buffer, _MARK, True)


def fuse_through_views() -> Undo:
    """Lets the scheduler see that a picked tile and what follows a view of it share memory."""
    if "is_template" in Scheduler.score_fusion_memory.__code__.co_names:
        return lambda: None

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def score(self: Any, node1: Any, node2: Any, *arguments: Any, **named: Any) -> Any:
            found = original(self, node1, node2, *arguments, **named)
            # Newer callers may ask this method for more than the score.
            if found != 0 or not _is_picked(node1):
                return found
            return sum(self.dep_size_hint(read) for read in _read_of(node1, node2))

        return score

    return wrap_method(Scheduler, "score_fusion_memory", wrapper)


def _is_picked(node: Any) -> bool:
    return bool(node.is_template() and getattr(node.get_template_node(), _MARK, False))


def _read_of(tile: Any, other: Any) -> list[Any]:
    """What another kernel reads from the output of a tile."""
    written = {dep.name for dep in tile.read_writes.writes}
    return [dep for dep in other.read_writes.reads if isinstance(dep, MemoryDep) and dep.name in written]
