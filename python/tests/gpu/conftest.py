"""Tests on a real GPU. Without a GPU no test here is collected, and pytest ends with its exit code for that.

    python -m pytest python/tests/gpu --gpu-report report.md

The tests take a quarter of an hour. With ``--gpu-times FILE``, the longest part goes on where it was interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Keeps Inductor's compilers running, as in a program that goes on compiling. Inductor would end them after a
# minute.
os.environ.setdefault("TORCHINDUCTOR_QUIESCE_ASYNC_COMPILE_POOL", "0")

import pytest
import torch

sys.path.insert(0, str(Path(__file__).parent))

from figures import Report

collect_ignore_glob = [] if torch.cuda.is_available() else ["test_*.py"]

_report = Report()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--gpu-report", metavar="FILE", help="write date, versions and figures to this Markdown file")
    parser.addoption(
        "--gpu-times", metavar="FILE", help="keep the times of problems here, and do not measure those again that are"
    )


def pytest_configure(config: pytest.Config) -> None:
    path = config.getoption("--gpu-report", default=None)
    _report.path = Path(path) if path else None


@pytest.fixture(scope="session")
def report() -> Report:
    """Collects the figures. Its file is rewritten after each of them."""
    return _report


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Drops the graphs and the handler of earlier tests, so that none is reused."""
    from timing import forget_handler
    from torch._inductor.utils import fresh_cache

    torch._dynamo.reset()
    forget_handler()
    with fresh_cache():
        yield
    torch._dynamo.reset()


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    outcome = "all passed" if exitstatus == 0 else f"not all passed (pytest's code {int(exitstatus)})"
    _report.finish(f"{session.testscollected} tests, {outcome}")
