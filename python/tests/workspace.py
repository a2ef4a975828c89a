"""Files and programs of the workspace that tests use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "trained_models/matmul/nvidia-h200/matmul-nvidia-h200.safetensors"


def program(name: str, variable: str) -> str:
    """A program of the workspace that cargo built. If it is missing, the test fails and says how to build it."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    places = [os.environ.get(variable, ""), str(target / "debug" / name), str(target / "release" / name)]
    for place in places:
        if place and os.access(place, os.X_OK):
            return place
    pytest.fail(f"{name} is not built; run `cargo build --bin {name}` or set {variable}")
