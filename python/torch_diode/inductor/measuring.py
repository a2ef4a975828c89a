"""Inductor's own measurements, for code that keeps them."""

from __future__ import annotations

import contextlib
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


def uncached() -> contextlib.AbstractContextManager[Any]:
    """A context in which this thread compiles every graph anew."""
    return config.patch(force_disable_caches=True)


@contextlib.contextmanager
def measuring(search_space: str | None) -> Iterator[None]:
    """A context in which this thread benchmarks every GEMM anew."""
    changes: dict[str, Any] = {"max_autotune_gemm": True, "force_disable_caches": True, "autotune_local_cache": False}
    # If this setting is on, Inductor calls no savers.
    changes.update({name: False for name in ("pipeline_max_autotune_gemm",) if name in config._config})
    if search_space is not None:
        changes["max_autotune_gemm_search_space"] = search_space
    with config.patch(changes), utils.fresh_cache():
        yield
