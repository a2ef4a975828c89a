"""torch-diode's handler of choices, with its parameters."""

from __future__ import annotations

from collections.abc import Sequence

from .. import choices, installation, models, settings
from ..heuristics.function import as_heuristic
from ..heuristics.model import ModelHeuristic
from ..inductor import hooks
from ..installation import HeuristicLike, ModelLike
from ..selection import Selector
from ..statistics import Counts, Statistics


class DiodeInductorChoices(hooks.InductorChoices):
    """Picks the kernels of matrix multiplications; everything else is Inductor's own.

    Without arguments it picks with the installed selector, and is Inductor's own handler while nothing is installed. With
    arguments, which are those of torch-diode, it picks with one model of its own. If nothing is installed, it then picks
    only under max-autotune. ``device`` changes nothing: models run on the CPU, in a millisecond.

    >>> torch_diode.DiodeInductorChoices("nvidia-h200", top_k_configs=3).get_stats()["total_calls"]
    0
    """

    def __init__(
        self,
        model_path: ModelLike | None = None,
        device: str | None = None,
        top_k_configs: int | None = None,
        enable_fallback: bool = True,
        performance_threshold: float | None = None,
        *,
        heuristics: Sequence[HeuristicLike] | None = None,
    ) -> None:
        super().__init__()
        self._arguments = (model_path, device, top_k_configs, enable_fallback, performance_threshold)
        self._enable_fallback = enable_fallback
        self._chosen = {"top_k": top_k_configs, "performance_threshold": performance_threshold}
        # Refuses wrong values now, and not in each compile.
        settings.initial({**self._chosen, "fallback_to_autotune": enable_fallback})
        self._own: Selector | None = None
        if heuristics is not None:
            self._own = Selector([as_heuristic(one) for one in heuristics])
        elif any(argument is not None for argument in (model_path, top_k_configs, performance_threshold)):
            every = [listed.model for listed in models.available()]
            found = [models.load(model_path)] if model_path is not None else every
            self._own = Selector([ModelHeuristic(found, found[0].hardware.slug if model_path is not None else None)])
        if self._own is not None:
            installation.check_torch()
            installation.keep_hooks()

    def __reduce__(self) -> tuple[object, ...]:
        # A process that compiles for this one makes its own handler from the same arguments.
        return (DiodeInductorChoices, self._arguments)

    @property
    def selector(self) -> Selector | None:
        """The selector that decides. ``None`` while nothing is installed."""
        return self._own or choices.active_selector()

    def decider(self) -> choices.Decider | None:
        """The handler's own selector and settings. ``None`` if the installed selector decides."""
        if self._own is None:
            return None
        chosen = {name: value for name, value in self._chosen.items() if value is not None}
        now = settings.Settings(**{**settings.current().__dict__, **chosen})
        asked_for = installation.is_installed() and (now.fast_autotune or settings.names_backend())
        return choices.Decider(self._own, now, asked_for, self._enable_fallback)

    def uuid(self) -> tuple[str, str]:
        """The handler's part of the keys of Inductor's graph caches, if Inductor is told to make handlers of this class."""
        return (type(self).__qualname__, self._own.digest() if self._own else "")

    def get_stats(self) -> Counts:
        """Counts how many kernels were picked, by what, and how many were left to Inductor."""
        return self.selector.statistics.get() if self.selector else Statistics().get()

    def reset_stats(self) -> None:
        """Sets every count to zero."""
        if self.selector:
            self.selector.statistics.reset()


def create_diode_choices(
    model_path: ModelLike | None = None,
    device: str | None = None,
    top_k_configs: int | None = None,
    enable_fallback: bool = True,
    performance_threshold: float | None = None,
) -> DiodeInductorChoices:
    """Makes a handler with torch-diode's parameters, for ``torch._inductor.virtualized.V.set_choices_handler``.

    >>> type(torch_diode.create_diode_choices(top_k_configs=3)).__name__
    'DiodeInductorChoices'
    """
    return DiodeInductorChoices(model_path, device, top_k_configs, enable_fallback, performance_threshold)


def install_diode_choices(
    model_path: ModelLike | None = None,
    device: str | None = None,
    top_k_configs: int | None = None,
    enable_fallback: bool = True,
    performance_threshold: float | None = None,
) -> DiodeInductorChoices:
    """Sets a handler with torch-diode's parameters for this thread, installs for all other threads, and returns the handler.

    >>> handler = torch_diode.install_diode_choices()
    >>> torch_diode.is_installed()
    True
    """
    if not installation.is_installed():
        installation.install(model=model_path, top_k=top_k_configs, performance_threshold=performance_threshold)
    handler = DiodeInductorChoices(model_path, device, top_k_configs, enable_fallback, performance_threshold)
    installation.on_uninstall(hooks.set_handler(handler))
    return handler
