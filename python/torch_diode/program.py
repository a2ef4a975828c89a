"""Runs the `diode` program, which the wheel of `torch-diode` carries."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NoReturn

from ._core import DiodeError


def program() -> str:
    """The path of `diode`: from ``DIODE_PROGRAM``, where pip puts programs, or on the path."""
    named = os.environ.get("DIODE_PROGRAM")
    if named:
        if not os.access(named, os.X_OK):
            raise DiodeError(f"DIODE_PROGRAM: got `{named}`, expected a program that can be run")
        return named
    for folder in _folders():
        if os.access(folder / "diode", os.X_OK):
            return str(folder / "diode")
    found = shutil.which("diode")
    if found is None:
        raise DiodeError(
            "the program `diode` is neither beside this Python nor on the path; the wheel of torch-diode carries it, and "
            "`cargo build --release -p diode-collector` builds it"
        )
    return found


def _folders() -> Iterator[Path]:
    """Where pip puts programs: for this Python, and for this user."""
    yield Path(sys.executable).parent
    yield Path(sysconfig.get_path("scripts"))
    yield Path(sysconfig.get_path("scripts", sysconfig.get_preferred_scheme("user")))


def become(arguments: Sequence[str]) -> NoReturn:
    """Runs `diode` with these arguments in the place of this process, so that signals and its exit code are its own."""
    path = program()
    # `diode tune --measure` times kernels by a Python that has torch, such as this one.
    if importlib.util.find_spec("torch") is not None:
        os.environ.setdefault("DIODE_PYTHON", sys.executable)
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        os.execv(path, [path, *arguments])
    except OSError as error:
        raise DiodeError(f"{path}: {error.strerror}") from None
