"""Puts the plug-in into Inductor and takes it out again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch._inductor import compile_fx_ext
from torch._inductor.choices import InductorChoices
from torch._inductor.codecache import FxGraphHashDetails
from torch._inductor.lowering import lowerings
from torch._inductor.select_algorithm import get_algorithm_selector_cache
from torch._inductor.virtualized import V

from . import OPS, Undo


def wrap_method(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> Undo:
    """Replaces a method by its wrapper, which keeps the method's name and signature."""
    original = getattr(owner, name)
    setattr(owner, name, functools.wraps(original)(wrapper(original)))
    return lambda: setattr(owner, name, original)


def wrap_finalizing(finalize: Callable[..., Any]) -> Undo:
    """Puts ``finalize(original, handler, choices by template, inputs, templates, operator, overrides)`` in place of the
    method that decides which choices are compiled. It applies to the handlers of every thread, existing and new ones."""

    def wrapper(original: Callable[..., Any]) -> Callable[..., Any]:
        def finalized(
            self: Any, template_choices: Any, kernel_inputs: Any, templates: Any, op_name: str, kwarg_overrides: Any = None
        ) -> Any:
            return finalize(original, self, template_choices, kernel_inputs, templates, op_name, kwarg_overrides)

        return finalized

    return wrap_method(InductorChoices, "_finalize_template_configs", wrapper)


def wrap_lowerings(lower: Callable[..., Any]) -> Undo:
    """Replaces the lowerings of the four operators, and no others, by ``lower(operator, original, arguments, named)``."""
    replaced: dict[Any, Any] = {}
    for op in OPS:
        packet = getattr(torch.ops.aten, op)
        for target in (packet, *(getattr(packet, name) for name in packet.overloads())):
            if target in lowerings:
                replaced[target] = lowerings[target]
                lowerings[target] = _lowering(op, lower, lowerings[target])
    return lambda: lowerings.update(replaced)


def _lowering(op: str, lower: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def lowering(*arguments: Any, **named: Any) -> Any:
        return lower(op, original, arguments, named)

    return lowering


def add_last_word(cut: Callable[[list[Any]], list[Any]]) -> Undo:
    """Calls ``cut`` with a kernel's choices before Inductor benchmarks several of them. It returns the choices that stay."""
    functions = get_algorithm_selector_cache().preprocessing_fns
    functions.append(cut)
    return lambda: functions.remove(cut) if cut in functions else None


def salt_graph_keys(salt: Callable[[], Any]) -> Undo:
    """Adds ``salt()`` to the keys of Inductor's graph caches, in every thread."""

    def wrapper(original: Callable[..., None]) -> Callable[..., None]:
        def init(self: Any, *arguments: Any, **named: Any) -> None:
            original(self, *arguments, **named)
            self.torch_diode = salt()

        return init

    return wrap_method(FxGraphHashDetails, "__init__", wrapper)


def keep_from_processes(names: Collection[str]) -> Undo:
    """Leaves settings out of what Inductor sends to processes that compile for this one. They do not have these settings."""

    def wrapper(original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        def serialize(self: Any) -> Any:
            self.config = {name: value for name, value in self.config.items() if name not in names}
            return original(self)

        return serialize

    return wrap_method(compile_fx_ext._WireProtocolInput, "serialize", wrapper)


def handler() -> Any:
    """This thread's handler of choices."""
    return V.choices


def decides_itself(handler: Any) -> bool:
    """Whether a handler has its own way to finalize choices. Then it is a user's handler."""
    method = handler._finalize_template_configs
    return getattr(method, "__func__", None) is not InductorChoices._finalize_template_configs


def set_handler(new: Any) -> Undo:
    """Sets this thread's handler of choices."""
    before = V.choices
    V.set_choices_handler(new)

    def undo() -> None:
        if V.choices is new:
            V.set_choices_handler(before)

    return undo
