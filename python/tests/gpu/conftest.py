"""Tests on a real GPU. Without one nothing here is collected, and pytest ends with its code for that.

    python -m pytest python/tests/gpu --gpu-report docs/measurements/plugin.md

It takes a quarter of an hour. With ``--gpu-times FILE`` the longest part goes on where it was interrupted.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

# Inductor's compilers stay, as they do in a program that goes on compiling; it would end them after a minute.
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
    """Takes the figures; its file is written anew with every one of them."""
    return _report


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Neither graphs nor the handler of an earlier test are reused."""
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
