"""torch-diode's handler of choices, with its parameters."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from torch._inductor import config as inductor_config
from torch._inductor.choices import InductorChoices
from torch._inductor.virtualized import V

from .. import choices, installation, models, settings
from .._core import DiodeError
from ..heuristics import Heuristic
from ..heuristics.model import ModelHeuristic
from ..selection import Selector


class DiodeInductorChoices(InductorChoices):
    """Picks the kernels of matrix multiplications; everything else is Inductor's own.

    Without arguments it picks as ``torch_diode.install`` was told to, and is Inductor's own handler while nothing is
    installed. With arguments, those of torch-diode, it picks by one model and stands alone. ``device`` changes nothing:
    models run on the CPU, in a millisecond.
    """

    def __init__(
        self,
        model_path: Any = None,
        device: str | None = None,
        top_k_configs: int | None = None,
        enable_fallback: bool = True,
        performance_threshold: float | None = None,
        *,
        heuristics: Sequence[Heuristic] | None = None,
    ) -> None:
        super().__init__()
        self._arguments = (model_path, device, top_k_configs, enable_fallback, performance_threshold)
        self._enable_fallback = enable_fallback
        self._chosen = {"top_k": top_k_configs, "performance_threshold": performance_threshold}
        self._own: Selector | None = None
        if heuristics is not None:
            self._own = Selector(heuristics)
        elif any(argument is not None for argument in (model_path, top_k_configs, performance_threshold)):
            every = [listed.model for listed in models.available()]
            found = [models.load(model_path)] if model_path is not None else every
            self._own = Selector([ModelHeuristic(found, found[0].hardware.slug if model_path is not None else None)])

    def __reduce__(self) -> tuple[Any, ...]:
        # A process that compiles for this one makes a handler of its own from the same arguments.
        return (DiodeInductorChoices, self._arguments)

    @property
    def selector(self) -> Selector | None:
        """The selector that decides; ``None`` while nothing is installed."""
        return self._own or choices.active_selector()

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
            return super()._finalize_template_configs(template_choices, kernel_inputs, templates, op_name, kwarg_overrides)
        found = choices.finalize(self, self._own, self._settings(), kernel_inputs, templates, op_name, kwarg_overrides)
        if found is not None:
            return found
        if not self._enable_fallback:
            raise DiodeError(f"{op_name}: nothing was picked, and enable_fallback is False; {self._own.records.all()[-1].why}")
        with choices.paused():
            return super()._finalize_template_configs(template_choices, kernel_inputs, templates, op_name, kwarg_overrides)

    def _settings(self) -> settings.Settings:
        if settings.NAMES["top_k"] in inductor_config._config:
            now = settings.current(inductor_config).__dict__
        else:
            now = settings.initial({})
        return settings.Settings(**{**now, **{name: value for name, value in self._chosen.items() if value is not None}})


def create_diode_choices(
    model_path: Any = None,
    device: str | None = None,
    top_k_configs: int | None = None,
    enable_fallback: bool = True,
    performance_threshold: float | None = None,
) -> DiodeInductorChoices:
    """A handler with the parameters of torch-diode, for ``torch._inductor.virtualized.V.set_choices_handler``."""
    return DiodeInductorChoices(model_path, device, top_k_configs, enable_fallback, performance_threshold)


def install_diode_choices(
    model_path: Any = None,
    device: str | None = None,
    top_k_configs: int | None = None,
    enable_fallback: bool = True,
    performance_threshold: float | None = None,
) -> Any:
    """Sets a handler with the parameters of torch-diode for this thread and those that follow; returns it."""
    arguments = (model_path, device, top_k_configs, enable_fallback, performance_threshold)
    handler = DiodeInductorChoices(*arguments)
    if not installation.is_installed():
        installation.install(model=model_path, top_k=top_k_configs, performance_threshold=performance_threshold)
    inductor_config.inductor_choices_class = installation.HandlerFactory(functools.partial(DiodeInductorChoices, *arguments))
    V.set_choices_handler(handler)
    return handler
