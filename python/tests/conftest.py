"""What every test has: a clean torch before and after, and the programs of the workspace where they are built."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """No settings of the developer's own, an empty cache of the hub, and nothing installed at either end."""
    for name in [name for name in os.environ if name.startswith("DIODE_")]:
        if name not in ("DIODE_PROGRAM", "DIODE_SERVER_PROGRAM"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("DIODE_CACHE_DIR", str(tmp_path / "cache"))
    yield
    import torch_diode

    torch_diode.uninstall()


@pytest.fixture
def gpu() -> Iterator[None]:
    """A simulated H200."""
    import simulated

    with simulated.gpu():
        yield


def program(name: str, variable: str) -> str:
    """A program of the workspace as cargo built it; its absence is a failure with the way to build it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    places = [os.environ.get(variable, ""), str(target / "debug" / name), str(target / "release" / name)]
    for place in places:
        if place and os.access(place, os.X_OK):
            return place
    pytest.fail(f"{name} is not built; run `cargo build --bin {name}` or set {variable}")


@pytest.fixture
def diode() -> str:
    return program("diode", "DIODE_PROGRAM")


@pytest.fixture
def diode_server() -> str:
    return program("diode-server", "DIODE_SERVER_PROGRAM")
