"""The log. An error that occurs in every kernel is logged once."""

from __future__ import annotations

import logging
import os
import threading

from .errors import DiodeValueError

logger = logging.getLogger("torch_diode")

_logged: set[str] = set()
_lock = threading.Lock()


def log_once(key: str, level: int, message: str, *arguments: object) -> None:
    """Logs a message, unless a message with this key was logged before."""
    with _lock:
        if key in _logged:
            return
        _logged.add(key)
    logger.log(level, message, *arguments)


def log_all_again() -> None:
    """Lets `log_once` log every message again, for example after a new installation."""
    with _lock:
        _logged.clear()


def set_log_level(level: str | int) -> None:
    """Shows messages of this level and above: ``"DEBUG"``, ``"INFO"``, ``"WARNING"`` or ``"ERROR"``.

    >>> torch_diode.set_log_level("WARNING")
    """
    try:
        logger.setLevel(level.upper() if isinstance(level, str) else level)
    except (TypeError, ValueError):
        raise DiodeValueError(f"log level: got `{level}`, expected DEBUG, INFO, WARNING or ERROR") from None
    if not logger.handlers and not logging.getLogger().handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("torch_diode: %(message)s"))
        logger.addHandler(handler)


def set_level_from_environment() -> None:
    """Sets the level that ``DIODE_LOG_LEVEL`` names. An unknown level is reported and changes nothing."""
    level = os.environ.get("DIODE_LOG_LEVEL")
    if level is None:
        return
    try:
        set_log_level(level)
    except ValueError as error:
        logger.warning("DIODE_LOG_LEVEL: %s", error)
