"""Puts the plug-in into Inductor, and takes it out again without a trace.

``uninstall`` restores everything that is changed: the method of Inductor's handler class that finalizes choices, the
lowerings of multiplications, the call of other operators, the options of FlexAttention, the test for a backend's name, the keys of the graph caches, the functions that Inductor
calls on choices before it benchmarks, what it sends to processes of its own, what older schedulers regard as shared memory,
and the plug-in's settings. While something is recorded, the hooks stay until the recording ends.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import torch

from . import messages, models, settings
from ._core import DiodeError, Hardware, Model, Problem, Table, __version__
from .errors import DiodeTypeError
from .heuristics import Heuristic
from .heuristics.attention import AttentionTable
from .heuristics.function import as_heuristic
from .heuristics.model import ModelHeuristic
from .heuristics.table import table_heuristic
from .inductor import TORCH_TRIED

ModelLike: TypeAlias = Model | str | os.PathLike[str]
"""A model, its file or its name."""

TableLike: TypeAlias = Table | str | os.PathLike[str] | Mapping[str, Sequence[Mapping[str, object]]]
"""A table, its file, or a table in Inductor's form."""

HeuristicLike: TypeAlias = Heuristic | Callable[[Problem], object]
"""A heuristic, or a function of the problem: a config in any form, a list of them, or ``None``, which asks the next."""

_lock = threading.RLock()
_hooks: list[Callable[[], None]] = []
_undo: list[Callable[[], None]] = []
_holders = 0
"""How many contexts need the hooks."""
_is_kept = False
"""Whether a handler needs the hooks."""


def install(
    *,
    model: ModelLike | Sequence[ModelLike] | None = None,
    table: TableLike | None = None,
    heuristic: HeuristicLike | Sequence[HeuristicLike] | None = None,
    nearest: bool = False,
    hardware: Hardware | str | None = None,
    top_k: int | None = None,
    min_confidence: float | None = None,
    performance_threshold: float | None = None,
    fast_autotune: bool | None = None,
    fallback_to_autotune: bool | None = None,
    cache_predictions: bool | None = None,
    pick_unjudged: bool | None = None,
) -> None:
    """Picks the kernels of every compile from now on, in every thread.

    ``heuristic`` is a function of the problem, or a list of functions and heuristics. It is asked first, then ``table``, then
    ``model`` (by default every available model). ``hardware`` names the hardware whose model may stand in on a machine that
    has no model of its own. The other arguments are settings, which ``torch._inductor.config`` then holds.

    Raises ``DiodeError`` if this torch cannot be served or a file cannot be read. Then nothing has changed.

    >>> torch_diode.install(heuristic=lambda problem: "aten" if problem.m <= 16 else None, top_k=3)
    >>> torch_diode.is_installed()
    True
    """
    check_torch()
    values = settings.initial(
        {
            "top_k": top_k,
            "min_confidence": min_confidence,
            "performance_threshold": performance_threshold,
            "fast_autotune": fast_autotune,
            "fallback_to_autotune": fallback_to_autotune,
            "cache_predictions": cache_predictions,
            "pick_unjudged": pick_unjudged,
        }
    )
    if not isinstance(nearest, bool):
        raise DiodeTypeError(f"nearest: got {nearest!r}, expected True or False")
    name = hardware if hardware is not None else os.environ.get("DIODE_HARDWARE") or None
    known = models.hardware_named(name) if name is not None else None
    chain = _heuristics(model, table, heuristic, nearest, known.slug if known else None)
    with _lock:
        uninstall()
        try:
            _put_hooks()
            _activate(chain, known, values)
        except BaseException:
            uninstall()
            raise


def _heuristics(
    model: ModelLike | Sequence[ModelLike] | None,
    table: TableLike | None,
    heuristic: HeuristicLike | Sequence[HeuristicLike] | None,
    nearest: bool,
    asked_for: str | None,
) -> list[Heuristic]:
    several = heuristic if isinstance(heuristic, (list, tuple)) else [] if heuristic is None else [heuristic]
    chain = [as_heuristic(one) for one in several]
    table = table if table is not None else os.environ.get("DIODE_TABLE") or None
    if table is not None:
        chain.append(table_heuristic(table, nearest=nearest))
    model = model if model is not None else os.environ.get("DIODE_MODEL") or None
    if model is not None:
        several_models: Sequence[ModelLike] = model if isinstance(model, (list, tuple)) else [model]  # type: ignore[list-item]
        found = [models.load(one) for one in several_models]
    else:
        found = [listed.model for listed in models.available()]
    return [*chain, ModelHeuristic(found, asked_for), AttentionTable()]


def _activate(chain: Sequence[Heuristic], hardware: Hardware | None, values: dict[str, Any]) -> None:
    from . import choices
    from .selection import Selector

    _undo.append(settings.add_entries(values))
    choices.activate(Selector(chain, hardware=hardware))
    _undo.append(lambda: choices.activate(None))


def keep_hooks() -> None:
    """Puts the hooks into Inductor until ``uninstall``. Before ``install``, only handlers with a selector of their own pick."""
    global _is_kept
    with _lock:
        _put_hooks()
        _is_kept = True


def _put_hooks() -> None:
    from . import lowering
    from .inductor import attention, config, hooks, rewrites, served, unseen, views

    with _lock:
        if _hooks:
            return
        puts = [
            lambda: hooks.wrap_finalizing(lowering.finalize),
            lambda: hooks.wrap_lowerings(lowering.lower),
            lambda: served.wrap_lowerings(lowering.lower),
            lambda: served.wrap_grouped_tiles(lowering.grouped_tile),
            lambda: rewrites.wrap_rewrites(lowering.is_rewritten, lowering.with_tile),
            lambda: attention.wrap_options(lowering.attention),
            lambda: unseen.note_unseen(lowering.unseen),
            lambda: hooks.add_last_word(lowering.last_word),
            lambda: hooks.salt_graph_keys(_salt),
            views.fuse_through_views,
            lambda: hooks.keep_from_processes(frozenset(settings.NAMES.values())),
            lambda: config.add_backend(settings.BACKEND),
        ]
        for put in puts:
            _hooks.append(put())


@contextlib.contextmanager
def hooked() -> Iterator[None]:
    """A context in which the hooks are in Inductor, whether or not anything is installed. Several may overlap."""
    global _holders
    with _lock:
        _put_hooks()
        _holders += 1
    try:
        yield
    finally:
        with _lock:
            _holders -= 1
            _release_hooks()


def _release_hooks() -> None:
    if not (_holders or _is_kept or is_installed()):
        while _hooks:
            _hooks.pop()()


def _salt() -> Any:
    """What the decisions of this thread depend on. It is part of the keys of Inductor's graph caches."""
    from . import choices
    from .inductor import hooks

    decider = choices.decider_for(hooks.handler())
    return None if decider is None else (__version__, decider.selector.digest(), repr(decider.settings))


def on_uninstall(function: Callable[[], None]) -> None:
    """Makes ``uninstall`` call this function. The function that was added last is called first."""
    _undo.append(function)


def uninstall() -> None:
    """Takes the plug-in out of Inductor, which is then as it was before ``install``.

    >>> torch_diode.uninstall()
    >>> torch_diode.is_installed()
    False
    """
    global _is_kept
    with _lock:
        while _undo:
            _undo.pop()()
        _is_kept = False
        _release_hooks()
        messages.log_all_again()


def is_installed() -> bool:
    """Whether the plug-in picks kernels.

    >>> torch_diode.install()
    >>> torch_diode.is_installed()
    True
    """
    return bool(_undo)


def check_torch() -> None:
    """Raises ``DiodeError`` if this torch's Inductor lacks something that the plug-in needs."""
    try:
        from .inductor import check

        lacking = check.lacking()
    except (ImportError, AttributeError) as error:
        lacking = str(error)
    if lacking is not None:
        tried = f"{TORCH_TRIED[0]} to {TORCH_TRIED[-1]}"
        raise DiodeError(f"torch {torch.__version__}: {lacking}; torch_diode was run with torch {tried}")
