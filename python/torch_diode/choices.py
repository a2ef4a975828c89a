"""Who decides: the installed selector, or that of a handler of its own."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from . import settings
from .selection import Selector

_thread = threading.local()
_active: Selector | None = None


@dataclasses.dataclass(frozen=True)
class Decider:
    """What decides the kernels of a compile, and how it is set."""

    selector: Selector
    settings: settings.Settings
    asked_for: bool
    """Whether it decides also where the user has not asked Inductor to tune."""
    may_leave: bool = True
    """Whether what it does not pick may be left to Inductor."""


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


def decider_for(handler: Any) -> Decider | None:
    """What decides for a handler of Inductor's: its own selector, or the installed one."""
    if getattr(_thread, "paused", False):
        return None
    own: Decider | None = handler.decider() if hasattr(handler, "decider") else None
    if own is not None or _active is None:
        return own
    now = settings.current()
    return Decider(_active, now, now.fast_autotune or settings.names_backend())
