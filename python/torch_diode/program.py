"""Runs the `diode` program."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from ._core import DiodeError


def program() -> str:
    """The path of `diode`: from ``DIODE_PROGRAM``, beside this Python, or on the path."""
    named = os.environ.get("DIODE_PROGRAM")
    beside = Path(sys.executable).parent / "diode"
    found: str | None = named or (str(beside) if beside.is_file() else shutil.which("diode"))
    if found is None or not os.access(found, os.X_OK):
        place = found or "on the path and beside this Python"
        raise DiodeError(
            f"{place}: the program `diode` is not there; build it with `cargo build --release -p diode-collector`, "
            "and put it on the path or name it by DIODE_PROGRAM"
        )
    return found


def run(arguments: Sequence[str]) -> int:
    """Runs `diode` with these arguments in this terminal. Returns its exit code."""
    return subprocess.run([program(), *arguments], check=False).returncode
