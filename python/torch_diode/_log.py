"""Messages to people. A thing that goes wrong in every kernel is said once."""

from __future__ import annotations

import logging
import os
import threading

logger = logging.getLogger("torch_diode")

_said: set[str] = set()
_lock = threading.Lock()


def once(key: str, level: int, message: str, *arguments: object) -> None:
    """Logs a message, unless one of this key was logged before."""
    with _lock:
        if key in _said:
            return
        _said.add(key)
    logger.log(level, message, *arguments)


def forget() -> None:
    """Says everything anew, as after a new installation."""
    with _lock:
        _said.clear()


def set_log_level(level: str | int) -> None:
    """Shows messages from this level on: ``"DEBUG"``, ``"INFO"``, ``"WARNING"`` or ``"ERROR"``."""
    logger.setLevel(level.upper() if isinstance(level, str) else level)
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("torch_diode: %(message)s"))
        logger.addHandler(handler)


def from_environment() -> None:
    """Honours ``DIODE_LOG_LEVEL``; a level that nobody knows is named and left alone."""
    level = os.environ.get("DIODE_LOG_LEVEL")
    if level is None:
        return
    try:
        set_log_level(level)
    except ValueError:
        logger.warning("DIODE_LOG_LEVEL: got `%s`, expected DEBUG, INFO, WARNING or ERROR", level)
