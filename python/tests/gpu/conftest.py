"""Tests on a real GPU. Without one nothing here is collected, and pytest ends with its code for that.

    python -m pytest python/tests/gpu --gpu-report docs/plugin-gpu.md
"""

from __future__ import annotations

import datetime
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]

# From lines like `cold compile, 12 single mm | geomean 4.1× …`, by section.
_figures: dict[str, list[tuple[str, str]]] = {}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu-report", metavar="FILE", help="write date, versions and figures to this Markdown file")


@pytest.fixture
def report() -> Any:
    """Adds a figure to the report: section, what was measured, what came out."""

    def add(section: str, what: str, found: str) -> None:
        _figures.setdefault(section, []).append((what, found))
        print(f"{section}: {what}: {found}")

    return add


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No graph of an earlier test is reused."""
    from torch._inductor.utils import fresh_cache

    torch._dynamo.reset()
    with fresh_cache():
        yield
    torch._dynamo.reset()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    path = session.config.getoption("--gpu-report")
    if path is None or not _figures:
        return
    import triton

    import torch_diode

    outcome = "all tests passed" if exitstatus == 0 else f"not all tests passed (pytest's code {int(exitstatus)})"
    lines = [
        "# The plug-in on a GPU",
        "",
        "Written by `python -m pytest python/tests/gpu --gpu-report docs/plugin-gpu.md`.",
        "",
        f"{datetime.date.today().isoformat()}, {torch.cuda.get_device_name()}, driver and runtime CUDA {torch.version.cuda}, "
        f"torch {torch.__version__}, triton {triton.__version__}, Python {platform.python_version()}, "
        f"torch_diode {torch_diode.__version__}; {session.testscollected} tests, {outcome}.",
    ]
    for section, rows in _figures.items():
        lines += ["", f"## {section}", "", "| measured | found |", "|---|---|"]
        lines += [f"| {what} | {found} |" for what, found in rows]
    Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
