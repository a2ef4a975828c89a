"""Registers the plug-in on import, and keeps the outcome."""

from __future__ import annotations

import importlib.util
import logging
import os
import sys
from typing import TypedDict

from . import machine, messages
from ._core import DISTRIBUTION, __version__
from .inductor import TORCH_TRIED

_DISTRIBUTIONS = ("torch-diode", "torch-diode-lib")

_outcome = "not_started"
_words = ""
_errors: list[str] = []


def register(asked: bool = DISTRIBUTION == "torch-diode") -> None:
    """Registers if that is wanted and possible. Never raises: the importing program goes on without the plug-in."""
    try:
        set_outcome(*_try_to_register(asked))
    except Exception as error:  # An error in the user's torch must not end the user's program.
        set_outcome("failed", f"{type(error).__name__}: {error}", logging.WARNING)


def _try_to_register(asked: bool) -> tuple[str, str, int]:
    both = _installed_twice()
    if both:
        return "refused", both, logging.WARNING
    if not asked:
        return "not_started", "torch-diode-lib waits for torch_diode.install()", logging.DEBUG
    if os.environ.get("DIODE_DISABLE", "0") not in ("", "0"):
        return "not_started", "DIODE_DISABLE is set", logging.INFO
    if not machine.has_gpu():
        return "no_gpu", "there is no GPU; torch_diode.install() installs it all the same", logging.DEBUG
    if not torch_available():
        return "interface_unavailable", "there is no torch; pip install torch", logging.INFO
    from . import installation

    installation.install()
    return "success", "installed", logging.INFO


def set_outcome(outcome: str, words: str, level: int) -> None:
    """Keeps the outcome of a registration, and logs it."""
    global _outcome, _words
    _outcome, _words = outcome, words
    _errors[:] = [words] if outcome in ("refused", "failed", "interface_unavailable") else []
    messages.logger.log(level, "%s: %s", outcome, words)


def outcome() -> str:
    """The outcome of the last registration: ``success``, ``no_gpu`` and so on."""
    return _outcome


def why_not_installed() -> str:
    """Why nothing picks kernels in this process, and what to do."""
    if _outcome == "no_gpu":
        return "this machine shows no GPU, so that the import registered nothing; torch_diode.install() does it all the same"
    if _outcome == "success":
        return "torch_diode.uninstall() has ended it; torch_diode.install() begins again"
    return f"{_words or 'nothing has registered it'}; torch_diode.install() does"


def _installed_twice() -> str:
    import importlib.metadata

    there = []
    for name in _DISTRIBUTIONS:
        try:
            importlib.metadata.version(name)
            there.append(name)
        except importlib.metadata.PackageNotFoundError:
            pass
    if len(there) < 2:
        return ""
    return (
        "torch-diode and torch-diode-lib are both installed and hold the same files; "
        "pip uninstall both, then install the one you want"
    )


def torch_available() -> bool:
    """Whether torch can be imported. This does not import it."""
    return importlib.util.find_spec("torch") is not None


def is_installed() -> bool:
    """Whether the plug-in picks kernels. This loads nothing: what was never loaded is not installed."""
    installation = sys.modules.get(f"{__package__}.installation")
    return installation is not None and installation.is_installed()


class ImportStatus(TypedDict):
    """What happened when the package was imported."""

    distribution: str
    version: str
    torch_available: bool
    torch_tried: list[str]
    integrations_attempted: int
    integrations_successful: int
    status: str
    installed: bool
    errors: list[str]


def get_import_status() -> ImportStatus:
    """Says what happened when the package was imported, and whether the plug-in picks kernels now.

    >>> torch_diode.get_import_status()["status"] in ("success", "no_gpu", "not_started", "interface_unavailable")
    True
    """
    return {
        "distribution": DISTRIBUTION,
        "version": __version__,
        "torch_available": torch_available(),
        "torch_tried": list(TORCH_TRIED),
        "integrations_attempted": 0 if _outcome in ("not_started", "no_gpu") else 1,
        "integrations_successful": int(_outcome == "success"),
        "status": _outcome,
        "installed": is_installed(),
        "errors": list(_errors),
    }
