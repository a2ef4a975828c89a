"""Fixtures for every test: a clean torch before and after it, and the programs of the workspace if they are built."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from workspace import program


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Removes the developer's own settings, empties the hub's cache, and uninstalls the plug-in before and after the test."""
    for name in [name for name in os.environ if name.startswith("DIODE_")]:
        if name not in ("DIODE_PROGRAM", "DIODE_SERVER_PROGRAM", "DIODE_COMPAT_DIR"):
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


@pytest.fixture
def tf32() -> Iterator[None]:
    """fp32 products may be computed in TF32."""
    import torch

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.fixture
def diode() -> str:
    return program("diode", "DIODE_PROGRAM")


@pytest.fixture
def diode_server() -> str:
    return program("diode-server", "DIODE_SERVER_PROGRAM")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    import torch

    if not torch.cuda.is_available():
        command = "python -m pytest python/tests/gpu --gpu-report report.md"
        terminalreporter.section("NOT RUN", yellow=True)
        terminalreporter.line(f"The tests in python/tests/gpu: there is no CUDA device. Where there is one: {command}")
