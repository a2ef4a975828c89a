"""The build backend of `torch-diode`: maturin's, and the program `diode` among the scripts of its wheels."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import maturin
from maturin import *  # noqa: F403

ROOT = Path(__file__).resolve().parents[1]
# What lies in `scripts` of the folder with this name, maturin puts into the wheel, and pip where programs are.
CARRIED = ROOT / "torch_diode._core.data"


def build_wheel(folder: str, config: Mapping[str, Any] | None = None, metadata: str | None = None) -> str:
    """Builds a wheel, for `pip install .`."""
    with _carried():
        return maturin.build_wheel(folder, config, metadata)


def build_editable(folder: str, config: Mapping[str, Any] | None = None, metadata: str | None = None) -> str:
    """Builds a wheel that points to this folder, for `pip install -e .`."""
    with _carried():
        return maturin.build_editable(folder, config, metadata)


@contextlib.contextmanager
def _carried() -> Iterator[None]:
    program = Path(os.environ.get("DIODE_PROGRAM") or _built())
    try:
        (CARRIED / "scripts").mkdir(parents=True, exist_ok=True)
        shutil.copy2(program, CARRIED / "scripts")
        yield
    finally:
        shutil.rmtree(CARRIED, ignore_errors=True)


def _built() -> Path:
    """The program, built with maturin's profile."""
    words = os.environ.get("MATURIN_PEP517_ARGS", "").split()
    profile = words[words.index("--profile") + 1] if "--profile" in words else "release"
    subprocess.run(["cargo", "build", "--profile", profile, "--bin", "diode"], cwd=ROOT, check=True)
    described = subprocess.check_output(["cargo", "metadata", "--no-deps", "--format-version", "1"], cwd=ROOT)
    folder = Path(json.loads(described)["target_directory"], "debug" if profile == "dev" else profile)
    return folder / ("diode.exe" if os.name == "nt" else "diode")
