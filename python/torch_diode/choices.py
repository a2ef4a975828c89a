"""Inductor's handler of choices, with ours in it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Optional

from torch._inductor import config as inductor_config
from torch._inductor.choices import InductorChoices

from . import models, settings
from ._core import DiodeError
from .heuristics import Heuristic, ModelHeuristic
from .kernels import LIBRARY
from .selection import Selector

_thread = threading.local()


class LeftToInductor(Exception):
    """Ends a lowering that only ran with templates for our sake; it is then run as the user has set it."""


class DiodeInductorChoices(InductorChoices):
    """Picks the kernels of matrix multiplications; everything else is Inductor's own.

    Without arguments it picks as ``torch_diode.install`` was told to, and is Inductor's own handler while nothing is
    installed. With arguments, those of torch-diode, it picks by one model and stands alone. ``device`` changes nothing:
    models run on the CPU, in a millisecond.
    """

    def __init__(
        self,
        model_path: Any = None,
        device: Optional[str] = None,
        top_k_configs: Optional[int] = None,
        enable_fallback: bool = True,
        performance_threshold: Optional[float] = None,
        *,
        heuristics: Optional[Sequence[Heuristic]] = None,
    ) -> None:
        super().__init__()
        self._arguments = (model_path, device, top_k_configs, enable_fallback, performance_threshold)
        self._enable_fallback = enable_fallback
        self._chosen = {"top_k": top_k_configs, "performance_threshold": performance_threshold}
        self._own: Optional[Selector] = None
        if heuristics is not None:
            self._own = Selector(heuristics)
        elif any(argument is not None for argument in (model_path, top_k_configs, performance_threshold)):
            every = [listed.model for listed in models.available()]
            found = [models.load(model_path)] if model_path is not None else every
            self._own = Selector([ModelHeuristic(found, found[0].hardware.slug if model_path is not None else None)])

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that compiles for this one makes its own of the same arguments.
        return (DiodeInductorChoices, self._arguments)

    @property
    def selector(self) -> Optional[Selector]:
        """Who decides; ``None`` while nothing is installed."""
        return self._own or active_selector()

    def get_stats(self) -> dict[str, Any]:
        """How many kernels were picked, by what, and how many were left to Inductor."""
        return self.selector.statistics.get() if self.selector else {}

    def reset_stats(self) -> None:
        """Sets every count to zero."""
        if self.selector:
            self.selector.statistics.reset()

    def _finalize_template_configs(
        self,
        template_choices: Any,
        kernel_inputs: Any,
        templates: Any,
        op_name: str,
        kwarg_overrides: Any = None,
    ) -> Any:
        if self._own is None:
            # The class's own method asks the installed selector.
            return super()._finalize_template_configs(
                template_choices, kernel_inputs, templates, op_name, kwarg_overrides
            )
        found = finalize(self, self._own, self._settings(), kernel_inputs, templates, op_name, kwarg_overrides)
        if found is not None:
            return found
        if not self._enable_fallback:
            raise DiodeError(f"{op_name}: nothing was picked, and enable_fallback is False; {self._own.records.all()[-1].why}")
        with paused():
            return super()._finalize_template_configs(
                template_choices, kernel_inputs, templates, op_name, kwarg_overrides
            )

    def _settings(self) -> settings.Settings:
        if settings.NAMES["top_k"] in inductor_config._config:
            now = settings.current(inductor_config).__dict__
        else:
            now = settings.initial({})
        return settings.Settings(**{**now, **{name: value for name, value in self._chosen.items() if value is not None}})


_active: Optional[Selector] = None


def active_selector() -> Optional[Selector]:
    """Who decides for every handler; ``None`` while nothing is installed."""
    return None if getattr(_thread, "paused", False) else _active


def activate(selector: Optional[Selector]) -> None:
    """Lets a selector decide, in every thread at once."""
    global _active
    _active = selector


@contextlib.contextmanager
def paused() -> Iterator[None]:
    before = getattr(_thread, "paused", False)
    _thread.paused = True
    try:
        yield
    finally:
        _thread.paused = before


@contextlib.contextmanager
def for_our_sake() -> Iterator[None]:
    """While a lowering runs with templates that the user has not asked for."""
    _thread.forced = True
    try:
        yield
    finally:
        _thread.forced = False


def finalize(
    handler: Any,
    selector: Selector,
    now: settings.Settings,
    kernel_inputs: Any,
    templates: Sequence[Any],
    op_name: str,
    overrides: Optional[Mapping[str, Any]],
) -> Optional[list[Any]]:
    """The choices to take instead of Inductor's; ``None`` leaves them to Inductor."""
    found = selector.select(handler.get_ktc, kernel_inputs, templates, op_name, overrides, now)
    if found is not None:
        return found
    tunable = any(not template.uid.startswith(LIBRARY) for template in templates)
    if getattr(_thread, "forced", False) and tunable:
        raise LeftToInductor
    if not now.fallback_to_autotune and tunable:
        # The library alone: nothing to benchmark. Where it is not to be had, Inductor decides after all.
        library = [template for template in templates if template.uid.startswith(LIBRARY)]
        choices = (handler.get_ktc(kernel_inputs, template, op_name, (overrides or {}).get(template.uid, {})) for template in library)
        return next(([first] for first in (next(iter(choice), None) for choice in choices) if first is not None), None)
    return None


def create_diode_choices(
    model_path: Any = None,
    device: Optional[str] = None,
    top_k_configs: Optional[int] = None,
    enable_fallback: bool = True,
    performance_threshold: Optional[float] = None,
) -> DiodeInductorChoices:
    """A handler with the parameters of torch-diode, for ``torch._inductor.virtualized.V.set_choices_handler``."""
    return DiodeInductorChoices(model_path, device, top_k_configs, enable_fallback, performance_threshold)

