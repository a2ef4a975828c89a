"""Says which selector decides: the installed one, or a handler's own."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

from . import settings
from .selection import Selector


class _Thread(threading.local):
    def __init__(self) -> None:
        self.instead: Decider | None = None
        """What decides in this thread in place of the installed selector."""
        self.pauses: list[None] = []
        """One entry for each context that leaves this thread to Inductor. Such a context may end in another thread."""


_thread = _Thread()
_active: Selector | None = None


@dataclasses.dataclass(frozen=True)
class Decider:
    """A selector with the settings that it uses for a compile."""

    selector: Selector
    settings: settings.Settings
    asked_for: bool
    """Whether it also decides if the user has not asked Inductor to tune."""
    may_leave: bool = True
    """Whether a kernel may be left to Inductor if nothing is picked for it."""


def active_selector() -> Selector | None:
    """The selector that decides for every handler. ``None`` while nothing is installed."""
    return None if _thread.pauses else _active


def activate(selector: Selector | None) -> None:
    """Makes this selector decide, in every thread at once. ``None`` ends that."""
    global _active
    _active = selector


def is_paused() -> bool:
    """Whether this thread is left to Inductor."""
    return bool(_thread.pauses)


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """A context in which this thread is left to Inductor."""
    pauses = _thread.pauses
    pauses.append(None)
    try:
        yield
    finally:
        pauses.pop()


@contextlib.contextmanager
def decided_by(selector: Selector) -> Iterator[None]:
    """A context in which this selector decides in this thread."""
    before, _thread.instead = _thread.instead, Decider(selector, dataclasses.replace(settings.current(), top_k=1), True)
    try:
        yield
    finally:
        _thread.instead = before


def decider_for(handler: Any) -> Decider | None:
    """The selector for a handler of Inductor, with its settings: the handler's own, or the installed one."""
    if _thread.pauses or _thread.instead is not None:
        return _thread.instead
    own: Decider | None = handler.decider() if hasattr(handler, "decider") else None
    if own is not None or _active is None:
        return own
    now = settings.current()
    return Decider(_active, now, now.fast_autotune or settings.names_backend())
