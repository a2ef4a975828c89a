"""Inductor's own measurements, for code that keeps them."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from torch._inductor import config, utils
from torch._inductor.kernel_inputs import MMKernelInputs
from torch._inductor.select_algorithm import get_algorithm_selector_cache

from . import Undo


def inputs_of(nodes: Sequence[Any]) -> Any:
    """The inputs of a kernel that was benchmarked. In all four operators, the output has the type of A."""
    return MMKernelInputs(list(nodes))


def add_feedback_saver(saver: Callable[[Mapping[Any, float], str, Sequence[Any]], None]) -> Undo:
    """Calls ``saver(milliseconds by choice, operator, inputs)`` with measured times. Some versions of Inductor pass more."""
    savers = get_algorithm_selector_cache().feedback_saver_fns

    def save(timings: Mapping[Any, float], name: str, input_nodes: Sequence[Any], *rest: Any) -> None:
        saver(timings, name, input_nodes)

    savers.append(save)
    return lambda: savers.remove(save) if save in savers else None


class _Changes(threading.local):
    """Changes of this thread that have not been undone. The newest is the last."""

    def __init__(self) -> None:
        self.undos: list[_Undo] = []


class _Undo(contextlib.ExitStack):
    is_due = False


_changes = _Changes()


@contextlib.contextmanager
def _changed(*contexts: contextlib.AbstractContextManager[Any]) -> Iterator[None]:
    """A context that is in all of these. If it ends before one that began later, it is undone when that one ends.

    Each of them restores the value that it found. In another order, values of the plug-in would stay.
    """
    undos = _changes.undos
    with _Undo() as entered:
        for context in contexts:
            entered.enter_context(context)
        undo = entered.pop_all()
    undos.append(undo)
    try:
        yield
    finally:
        undo.is_due = True
        while undos and undos[-1].is_due:
            undos.pop().close()


def traced(see: Callable[[Any], None]) -> contextlib.AbstractContextManager[Any]:
    """A context in which this thread compiles every graph anew and calls ``see`` with it before Inductor changes it."""
    before = config.joint_custom_pre_pass
    # Newer versions of Inductor take several.
    users = before if isinstance(before, (list, tuple)) else () if before is None else (before,)

    def look(graph: Any) -> None:
        for one in users:
            one(graph)
        see(graph)

    return _changed(config.patch(force_disable_caches=True, joint_custom_pre_pass=look))


def measuring(search_space: str | None) -> contextlib.AbstractContextManager[Any]:
    """A context in which this thread benchmarks every GEMM anew."""
    changes: dict[str, Any] = {"max_autotune_gemm": True, "force_disable_caches": True, "autotune_local_cache": False}
    # If this setting is on, Inductor calls no savers.
    changes.update({name: False for name in ("pipeline_max_autotune_gemm",) if name in config._config})
    if search_space is not None:
        changes["max_autotune_gemm_search_space"] = search_space
    return _changed(config.patch(changes), utils.fresh_cache())
