"""Puts the plug-in into Inductor, and takes it out again without a trace.

What is changed, and restored by ``uninstall``: the method of Inductor's handler class that finalises choices, the
lowerings of the four operators, the test for a backend's token, ``inductor_choices_class``, and the entries of our settings.
"""

from __future__ import annotations

import functools
import inspect
import os
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch

from . import messages, models, settings
from ._core import DiodeError, Hardware, __version__
from .heuristics import Heuristic
from .heuristics.function import as_heuristic
from .heuristics.model import ModelHeuristic
from .heuristics.table import table_heuristic

_lock = threading.RLock()
_undo: list[Callable[[], None]] = []

TESTED = "2.11"
OLDEST = (2, 9)


class HandlerFactory:
    """Makes handlers. Its pickled form is part of the key of Inductor's graph cache, and says what decides.

    ``users_class`` is what the user had set in its place, if anything.
    """

    def __init__(self, users_class: Callable[[], Any] | None) -> None:
        self.users_class = users_class

    def __call__(self) -> Any:
        if self.users_class is not None:
            return self.users_class()
        from .predecessor.handler import DiodeInductorChoices

        return DiodeInductorChoices()

    def __deepcopy__(self, memo: Any) -> HandlerFactory:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        from .choices import active_selector

        selector = active_selector()
        digest = selector.digest() if selector is not None else ""
        return (_factory_of, (__version__, digest, self.users_class))


def _factory_of(version: str, digest: str, users_class: Any) -> HandlerFactory:
    return HandlerFactory(users_class)


def install(
    *,
    model: Any = None,
    table: Any = None,
    heuristic: Any = None,
    nearest: bool = False,
    hardware: str | None = None,
    top_k: int | None = None,
    min_confidence: float | None = None,
    performance_threshold: float | None = None,
    fast_autotune: bool | None = None,
    fallback_to_autotune: bool | None = None,
    cache_predictions: bool | None = None,
) -> None:
    """Picks the kernels of every compile from now on, in every thread.

    ``heuristic`` is a function of the problem, or a list of functions and heuristics; it is asked first, then ``table``, then
    ``model`` (by default every model there is). ``hardware`` names the hardware whose model may stand in on a machine that has
    none of its own. The rest are settings, which ``torch._inductor.config`` then holds.

    Raises ``DiodeError`` if this torch cannot be served or a file cannot be read; then nothing has changed.
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
        }
    )
    name = hardware or os.environ.get("DIODE_HARDWARE")
    known = Hardware.find(name) if name else None
    if name and known is None:
        raise DiodeError(f"hardware: got `{name}`, expected a device's name or a slug such as nvidia-h200")
    chain = _heuristics(model, table, heuristic, nearest, known.slug if known else None)
    with _lock:
        uninstall()
        try:
            _change_inductor(chain, known, values)
        except BaseException:
            uninstall()
            raise


def _heuristics(model: Any, table: Any, heuristic: Any, nearest: bool, asked_for: str | None) -> list[Heuristic]:
    several = heuristic if isinstance(heuristic, (list, tuple)) else [] if heuristic is None else [heuristic]
    chain = [as_heuristic(one) for one in several]
    table = table if table is not None else os.environ.get("DIODE_TABLE")
    if table is not None:
        chain.append(table_heuristic(table, nearest=nearest))
    model = model if model is not None else os.environ.get("DIODE_MODEL")
    if model is not None:
        found = [models.load(one) for one in (model if isinstance(model, (list, tuple)) else [model])]
    else:
        found = [listed.model for listed in models.available()]
    chain.append(ModelHeuristic(found, asked_for))
    return chain


def _change_inductor(chain: Sequence[Heuristic], hardware: Hardware | None, values: dict[str, Any]) -> None:
    from torch._inductor import config, virtualized
    from torch._inductor.choices import InductorChoices

    from . import choices
    from .selection import Selector

    settings.add_entries(config, values)
    _undo.append(lambda: settings.remove_entries(config))

    choices.activate(Selector(chain, hardware=hardware))
    _undo.append(lambda: choices.activate(None))

    users_class = config.inductor_choices_class
    config.inductor_choices_class = HandlerFactory(users_class)
    _undo.append(lambda: _restore_class(config, users_class))

    _replace(InductorChoices, "_finalize_template_configs", _with_selector)
    _wrap_lowerings()
    _wrap_backend_test()

    # A handler that this thread has made already is thrown away; other threads make theirs by the new class.
    threads, key = virtualized.threadlocal, virtualized._choices._key
    if type(getattr(threads, key, None)) is InductorChoices:
        delattr(threads, key)
    _undo.append(lambda: _forget_handler(threads, key))


def uninstall() -> None:
    """Takes the plug-in out of Inductor: everything is as it was before ``install``."""
    with _lock:
        while _undo:
            _undo.pop()()
        messages.log_all_again()


def is_installed() -> bool:
    """Whether the plug-in picks kernels."""
    return bool(_undo)


def check_torch() -> None:
    """Raises ``DiodeError`` for a torch whose Inductor lacks what the plug-in needs."""
    release = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if release < OLDEST:
        raise DiodeError(f"torch: got {torch.__version__}, expected {'.'.join(map(str, OLDEST))} or newer")
    try:
        from torch._inductor import config, virtualized
        from torch._inductor.choices import InductorChoices
        from torch._inductor.kernel_inputs import MMKernelInputs
        from torch._inductor.kernel_template_choice import KernelTemplateChoice
        from torch._inductor.lowering import lowerings  # noqa: F401
        from torch._inductor.template_heuristics import get_template_heuristic  # noqa: F401
        from torch._inductor.template_heuristics.params import DictKernelTemplateParams  # noqa: F401
        from torch._inductor.utils import _use_autotune_backend, use_triton_template  # noqa: F401
        from torch.utils._config_module import _ConfigEntry
    except ImportError as error:
        raise DiodeError(f"torch {torch.__version__}: {error}; torch_diode is tested with {TESTED}") from None
    wanted = {
        InductorChoices._finalize_template_configs: [
            "self", "template_choices", "kernel_inputs", "templates", "op_name", "kwarg_overrides"
        ],
        InductorChoices.get_ktc: ["self", "kernel_inputs", "template", "op_name", "kwarg_overrides"],
        KernelTemplateChoice.__init__: ["self", "template", "params", "extra_kwargs", "layout", "inputs"],
        _ConfigEntry.__init__: ["self", "config"],
    }  # fmt: skip
    for function, names in wanted.items():
        if list(inspect.signature(function).parameters) != names:
            raise DiodeError(f"torch {torch.__version__}: {function.__qualname__} has changed; tested with {TESTED}")
    for owner, name in [
        (MMKernelInputs, "shapes_symbolic"), (MMKernelInputs, "strides_symbolic"), (MMKernelInputs, "out_dtype"),
        (config, "inductor_choices_class"), (config, "_config"), (virtualized, "_choices"), (virtualized, "threadlocal"),
    ]:  # fmt: skip
        if not hasattr(owner, name):
            raise DiodeError(f"torch {torch.__version__}: {owner.__name__} has no {name}; tested with {TESTED}")


def _replace(owner: Any, name: str, wrapper: Callable[[Any], Any]) -> None:
    original = getattr(owner, name)
    setattr(owner, name, wrapper(original))
    _undo.append(lambda: setattr(owner, name, original))


def _with_selector(original: Callable[..., Any]) -> Callable[..., Any]:
    """Inductor's method, which now asks the installed selector first. It serves the handlers of every thread, old and new."""
    from torch._inductor import config

    from . import choices

    @functools.wraps(original)
    def finalize(
        self: Any, template_choices: Any, kernel_inputs: Any, templates: Any, op_name: str, kwarg_overrides: Any = None
    ) -> Any:
        selector = choices.active_selector()
        if selector is not None:
            now = settings.current(config)
            found = choices.finalize(self, selector, now, kernel_inputs, templates, op_name, kwarg_overrides)
            if found is not None:
                return found
        return original(self, template_choices, kernel_inputs, templates, op_name, kwarg_overrides)

    return finalize


def _wrap_lowerings() -> None:
    """With ``fast_autotune`` the four operators, and no others, are lowered as under max-autotune."""
    from torch._inductor.lowering import lowerings

    aten = torch.ops.aten
    for packet in (aten.mm, aten.addmm, aten.bmm, aten.baddbmm):
        for target in (packet, *(getattr(packet, name) for name in packet.overloads())):
            if target in lowerings:
                original = lowerings[target]
                lowerings[target] = _as_under_max_autotune(original)
                _undo.append(functools.partial(lowerings.__setitem__, target, original))


def _as_under_max_autotune(original: Callable[..., Any]) -> Callable[..., Any]:
    from torch._inductor import config

    from . import choices

    @functools.wraps(original)
    def lowering(*arguments: Any, **named: Any) -> Any:
        by_user = config.max_autotune or config.max_autotune_gemm
        asked = config.fast_autotune or settings.names_backend(config)
        if by_user or not asked or choices.active_selector() is None or not _on_gpu(arguments):
            return original(*arguments, **named)
        try:
            with choices.unasked_templates(), config.patch(max_autotune_gemm=True):
                return original(*arguments, **named)
        except choices.LeftToInductor:
            return original(*arguments, **named)

    return lowering


def _on_gpu(arguments: Sequence[Any]) -> bool:
    device = arguments[0].get_device() if arguments and hasattr(arguments[0], "get_device") else None
    return device is not None and device.type == "cuda"


def _wrap_backend_test() -> None:
    """Our token stands for Inductor's own two backends, among which we pick."""
    from torch._inductor import config, utils

    original: Callable[[str], bool] = utils._use_autotune_backend

    @functools.wraps(original)
    def use_backend(backend: str) -> bool:
        by_our_token = backend.upper() in ("ATEN", "TRITON") and settings.names_backend(config)
        return by_our_token or original(backend)

    def put(old: Any, new: Any) -> None:
        modules: dict[str, Any] = dict(sys.modules)
        for name, module in modules.items():
            if name.startswith("torch._inductor") and getattr(module, "_use_autotune_backend", None) is old:
                module._use_autotune_backend = new

    put(original, use_backend)
    _undo.append(lambda: put(use_backend, original))


def _restore_class(config: Any, users_class: Any) -> None:
    # A class that was set since the installation stays.
    if isinstance(config.inductor_choices_class, HandlerFactory):
        config.inductor_choices_class = users_class


def _forget_handler(threads: Any, key: str) -> None:
    from .predecessor.handler import DiodeInductorChoices

    current = getattr(threads, key, None)
    if isinstance(current, DiodeInductorChoices):
        delattr(threads, key)
