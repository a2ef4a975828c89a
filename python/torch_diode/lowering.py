"""Brings a decision into Inductor.

A multiplication is decided on before Inductor lowers it. If the library is picked or nothing is known, Inductor lowers it as
without the plug-in, and the code is the same. Only for a tile, Inductor lowers it as if the user had asked to tune.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from . import choices, recording
from ._core import Config, DiodeError
from .heuristics.function import as_heuristic
from .inductor import OPS, TMA, config, foreseen, hooks, kernels, served, views
from .kernels import Offer, grouped_entry, grouped_params
from .selection import Question, Selector

_thread = threading.local()


class _LeftToInductor(Exception):
    """Ends a lowering with templates, so that it begins again without a pick."""

    def __init__(self, by_library: bool) -> None:
        super().__init__()
        self.by_library = by_library


class _Lowering:
    """One multiplication that is being lowered. Inductor may ask for its choices several times: the library's, then tiles."""

    def __init__(
        self, op: str, decider: choices.Decider | None = None, question: Question | None = None, *, by_user: bool = False
    ) -> None:
        self.op = op
        self.decider = decider
        """``None`` if the multiplication is left to Inductor."""
        self.question = question
        self.by_user = by_user
        """Whether the user has asked Inductor to tune."""
        self.plan: Sequence[Any] | None = None
        """Inductor's choices that may stay, the likeliest last."""
        self.libraries: list[Any] = []
        self.served: Any = None
        """The operands, if it is one of those that models are served with."""
        self.params: dict[str, Any] | None = None
        """What a grouped multiplication's tile is made with. Empty as soon as it was made."""
        self.swapped = False
        """Whether the transposes are multiplied."""


def _current() -> _Lowering | None:
    return getattr(_thread, "lowering", None)


@contextlib.contextmanager
def _lowering(lowering: _Lowering) -> Iterator[None]:
    before = _current()
    _thread.lowering = lowering
    try:
        yield
    finally:
        _thread.lowering = before


def lower(op: str, original: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any], target: Any = None) -> Any:
    """Lowers a multiplication with the kernel that is picked for it."""
    by_user = config.autotunes()
    handler = hooks.handler()
    # A multiplication that is lowered within another lowering belongs to one of Inductor's own choices.
    inside = _current() is not None
    decider = None if inside else choices.decider_for(handler)
    by_library = False
    if recording.is_on() and not inside:
        recording.note(op, lambda: _seen(op, arguments, named, target, on_cpu=True))
    if decider is not None and (by_user or decider.asked_for):
        selector, settings = decider.selector, decider.settings
        inputs = selector.unfailing(lambda: _tileable(op, arguments, named, target), op)
        if inputs is None and arguments[0].get_device().type == "cuda":
            selector.record_untiled(op)
        decision = selector.decide(inputs, op, settings) if inputs is not None else None
        if decision is None:
            _refuse_to_leave(decider, op, inputs is not None)
            by_library = inputs is not None and not settings.fallback_to_autotune and kernels.offers_library()
        elif decision.library_alone and not (by_user and hooks.decides_itself(handler)):
            selector.record(decision)
            recording.note_picks(op, inputs, [])
            by_library = True
        else:
            lowering = _Lowering(op, decider, decision.question, by_user=by_user)
            lowering.served = inputs if target is not None else None
            if op in served.GROUPED:
                lowering.params = grouped_params(decision.picks[0].config)
            lowering.swapped = decision.picks[0].config.swap_ab
            try:
                with _lowering(lowering), _tuning(lowering, decision):
                    given, more = arguments, named
                    if lowering.served is not None:
                        given, more = lowering.served.given(swapped=lowering.swapped), {}
                    lowered = original(*given, **more)
                if lowering.params == {}:
                    selector.record(decision)
                    recording.note_picks(op, inputs, [grouped_entry(decision.picks[0].config)])
                    views.mark_picked(lowered)
                elif lowering.plan is None:
                    selector.record_left("fallback_empty_result", "Inductor has no templates for it", op)
                elif lowering.swapped:
                    return served.turned_back(lowered)
                else:
                    views.mark_picked(lowered)
                return lowered
            except _LeftToInductor as left:
                by_library = left.by_library
    with _lowering(_Lowering(op)), config.autotuning(False) if by_library and by_user else contextlib.nullcontext():
        return original(*arguments, **named)


def _seen(op: str, arguments: Sequence[Any], named: Mapping[str, Any], target: Any, *, on_cpu: bool = False) -> Any:
    if target is None:
        return foreseen.inputs_of(op, arguments, named, on_cpu=on_cpu)
    operands = served.Served(op, target, arguments, named)
    return operands if operands.device().type in (("cuda", "cpu") if on_cpu else ("cuda",)) else None


def _tuning(lowering: _Lowering, decision: Any) -> contextlib.AbstractContextManager[Any]:
    """A context in which Inductor offers the template of the pick."""
    if lowering.served is not None:
        wants_tma = decision.picks[0].config.template == TMA and lowering.op not in served.GROUPED
        return served.tuning(tma=wants_tma and lowering.served.may_use_tma())
    return contextlib.nullcontext() if lowering.by_user else config.autotuning(True)


def _tileable(op: str, arguments: Sequence[Any], named: Mapping[str, Any], target: Any) -> Any:
    inputs = _seen(op, arguments, named, target)
    if target is not None:
        return inputs if not config.must_not_vary() else None
    return inputs if inputs is not None and foreseen.may_be_tiled(inputs) else None


def finalize(
    original: Callable[..., list[Any]],
    handler: Any,
    template_choices: Any,
    inputs: Any,
    templates: Sequence[Any],
    op: str,
    overrides: Mapping[str, Any] | None,
) -> list[Any]:
    """The choices of one call: the plug-in's, or Inductor's own."""

    def inductors() -> list[Any]:
        return original(handler, template_choices, inputs, templates, op, overrides)

    lowering = _current()
    tunable = any(kernels.is_kernel(template) for template in templates)
    if lowering is None:
        decider = choices.decider_for(handler) if tunable else None
        library = _library_alone(decider, Offer(handler.get_ktc, inputs, templates, op, overrides), op) if decider else None
        return inductors() if library is None else [library]
    if lowering.decider is None or op != lowering.op:
        return inductors()
    if not tunable:
        found = inductors()
        lowering.libraries += [ktc for ktc in found if kernels.is_library(ktc.template)]
        return found
    offer = Offer(handler.get_ktc, inputs, templates, op, overrides, lowering.libraries, swapped=lowering.swapped)
    return _planned(lowering, offer, inputs, hooks.decides_itself(handler))


def _planned(lowering: _Lowering, offer: Offer, inputs: Any, users_handler: bool) -> list[Any]:
    assert lowering.decider is not None
    selector, settings = lowering.decider.selector, lowering.decider.settings
    decision = selector.decide(lowering.served or inputs, lowering.op, settings, offer, lowering.question)
    if decision is None:
        _refuse_to_leave(lowering.decider, lowering.op)
        raise _LeftToInductor(by_library=not settings.fallback_to_autotune and offer.library() is not None)
    selector.record(decision)
    entries = [] if decision.library_alone else [kernels.table_entry(choice) for choice in decision.choices]
    recording.note_picks(lowering.op, lowering.served or inputs, entries)
    if decision.library_alone and not users_handler:
        raise _LeftToInductor(by_library=True)
    # Inductor times the first choice as slower than it is, because a GPU that was idle while compiling starts
    # slowly. So the likeliest choice is last.
    plan = lowering.plan = decision.choices[::-1]
    known = {id(ktc) for ktc in lowering.libraries}
    return [ktc for ktc in plan if id(ktc) not in known]


def _library_alone(decider: choices.Decider, offer: Offer, op: str) -> Any:
    """The library's choice for an operator that the plug-in does not pick. ``None`` if the user lets such kernels be tuned."""
    decider.selector.record_left("fallback_non_mm_op", f"{op} is not among {', '.join(OPS)}", op)
    _refuse_to_leave(decider, op)
    return None if decider.settings.fallback_to_autotune else offer.library()


def _refuse_to_leave(decider: choices.Decider, op: str, decided: bool = True) -> None:
    if decided and not decider.may_leave:
        why = decider.selector.records.all()[-1].why
        raise DiodeError(f"{op}: nothing was picked, and enable_fallback is False; {why}")


def last_word(found: list[Any]) -> list[Any]:
    """Keeps, of the choices from all calls, the picked ones, likeliest last, and those of backends that the user named."""
    lowering = _current()
    if lowering is not None and lowering.params == {}:  # A grouped tile was made, for which there is no template choice.
        return [choice for choice in found if served.is_tile(choice)] or found
    if lowering is None or lowering.plan is None:
        return found
    by_ktc = {id(kernels.ktc_of(choice)): choice for choice in found}
    kept = [by_ktc[id(ktc)] for ktc in lowering.plan if id(ktc) in by_ktc]
    added = [choice for choice in found if kernels.ktc_of(choice) is None] if lowering.by_user else []
    return kept + added if kept else found


def grouped_tile() -> dict[str, Any] | None:
    """What the next tile of a grouped multiplication is made with. Empty if there shall be no other."""
    lowering = _current()
    if lowering is None or lowering.params is None:
        return None
    params, lowering.params = lowering.params, {}
    return params


def is_rewritten(what: str, why: str) -> bool:
    """Whether something is lowered in the other way that was measured to be faster. If so, it is recorded."""
    decider = choices.decider_for(hooks.handler())
    if decider is None or not (config.autotunes() or decider.asked_for) or config.must_not_vary():
        return False
    return decider.selector.record_rule(what, why)


def unseen(op: str, why: str) -> None:
    """Records a multiplication about which there is nothing to decide."""
    decider = choices.decider_for(hooks.handler())
    if decider is not None and (config.autotunes() or decider.asked_for):
        decider.selector.record_left("fallback_non_mm_op", why, op)


def with_tile(tile: Config) -> contextlib.AbstractContextManager[None]:
    """A context in which multiplications get this tile."""
    return choices.decided_by(Selector([as_heuristic(lambda problem: tile)]))


def attention(kind: str, found: Sequence[Any]) -> Any:
    """The options for a kernel of FlexAttention in place of torch's. ``None`` leaves it to torch."""
    decider = choices.decider_for(hooks.handler())
    if decider is None or not (config.autotunes() or decider.asked_for):
        return None
    return decider.selector.unfailing(lambda: decider.selector.attention(kind, found), f"flex_attention {kind}")
