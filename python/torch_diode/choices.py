"""Which selector decides, and what a handler of Inductor's does with its decision."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from . import settings
from .kernels import LIBRARY
from .selection import Selector

_thread = threading.local()


class LeftToInductor(Exception):
    """Ends a lowering that ran with templates which the user has not asked for; it is then run as the user has set it."""


_active: Selector | None = None


def active_selector() -> Selector | None:
    """The selector that decides for every handler; ``None`` while nothing is installed."""
    return None if getattr(_thread, "paused", False) else _active


def activate(selector: Selector | None) -> None:
    """Lets a selector decide, in every thread at once."""
    global _active
    _active = selector


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """While this thread is left to Inductor."""
    before = getattr(_thread, "paused", False)
    _thread.paused = True
    try:
        yield
    finally:
        _thread.paused = before


@contextlib.contextmanager
def unasked_templates() -> Iterator[None]:
    """While a lowering runs with templates that the user has not asked for."""
    _thread.unasked = True
    try:
        yield
    finally:
        _thread.unasked = False


def finalize(
    handler: Any,
    selector: Selector,
    now: settings.Settings,
    kernel_inputs: Any,
    templates: Sequence[Any],
    op_name: str,
    overrides: Mapping[str, Any] | None,
) -> list[Any] | None:
    """The choices to take instead of Inductor's; ``None`` leaves them to Inductor."""
    found = selector.select(handler.get_ktc, kernel_inputs, templates, op_name, overrides, now)
    if found is not None:
        return found
    tunable = any(not template.uid.startswith(LIBRARY) for template in templates)
    if getattr(_thread, "unasked", False) and tunable:
        raise LeftToInductor
    if not now.fallback_to_autotune and tunable:
        # The library alone: nothing to benchmark. Where it is not offered, Inductor decides after all.
        library = [template for template in templates if template.uid.startswith(LIBRARY)]
        choices = (
            handler.get_ktc(kernel_inputs, template, op_name, (overrides or {}).get(template.uid, {})) for template in library
        )
        return next(([first] for first in (next(iter(choice), None) for choice in choices) if first is not None), None)
    return None
