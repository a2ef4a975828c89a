"""How long a cold compile takes, against Inductor's own ways, as ratios of one run."""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Optional

import pytest
import torch
from shapes import single_mms

import torch_diode

HERE = Path(__file__).parent


def seconds(method: str, what: Any, limit: float = 1800) -> Optional[float]:
    """Of one compile in a process and cache of its own; None if it has not finished by the limit."""
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
        command = [sys.executable, str(HERE / "compile_once.py"), method, json.dumps(what)]
        try:
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=limit, check=False)
        except subprocess.TimeoutExpired:
            return None
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


def geomean(ratios: list[float]) -> float:
    return math.exp(statistics.fmean(math.log(ratio) for ratio in ratios))


def best(method: str, what: Any, times: int = 3) -> float:
    return min(found for found in (seconds(method, what) for _ in range(times)) if found is not None)


def test_single_mms_compile_three_times_faster_than_default_autotuning(report) -> None:
    ratios, ours_of = [], []
    for shape in single_mms():
        what = [shape.m, shape.n, shape.k]
        ours, default = best("diode", what, 2), seconds("default", what)
        assert default is not None
        ratios.append(default / ours)
        ours_of.append(ours)
        report("Compile time", f"{shape}: ours, default max-autotune", f"{ours:.2f} s, {default:.2f} s")
    report("Compile time", f"{len(ratios)} single mm: default max-autotune over ours, geometric mean", f"{geomean(ratios):.2f}×")
    assert geomean(ratios) >= 3


def test_it_costs_no_more_than_the_same_config_by_hand(report) -> None:
    ratios = []
    for shape in single_mms()[:5]:
        what = [shape.m, shape.n, shape.k]
        ratios.append(best("diode", what) / best("forced", what))
    report("Compile time", "ours over the same config forced by Inductor's lookup table, geometric mean of 5", f"{geomean(ratios):.3f}×")
    assert geomean(ratios) <= 1.05


def test_a_block_of_eight_linears_compiles_six_times_faster(report) -> None:
    ours, default, none = best("diode", "block", 2), seconds("default", "block"), best("none", "block", 2)
    assert default is not None
    found = f"{ours:.2f} s, {default:.2f} s ({default / ours:.1f}×), {none:.2f} s"
    report("Compile time", "a block of 8 linears: ours, default max-autotune, no tuning", found)
    assert default / ours >= 6


def test_exhaustive_autotuning_takes_a_hundred_times_as_long(report) -> None:
    shape = single_mms()[2]
    ours = best("diode", [shape.m, shape.n, shape.k], 2)
    found = seconds("exhaustive", [shape.m, shape.n, shape.k], limit=100 * ours)
    report("Compile time", f"{shape}: EXHAUSTIVE within 100 × our {ours:.2f} s", "not finished" if found is None else f"{found:.0f} s")
    assert found is None


@pytest.mark.parametrize(("repeated", "limit_ms"), [(False, 3.0), (True, 0.3)])
def test_the_hook_costs_little(repeated: bool, limit_ms: float, report, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch_diode.selection import Selector

    torch_diode.install()
    spent: list[float] = []
    select = Selector.select

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        found = select(*arguments)
        spent.append((time.perf_counter() - start) * 1e3)
        return found

    monkeypatch.setattr(Selector, "select", timed)
    for at in range(24):
        torch._dynamo.reset()
        n = 1024 if repeated else 1024 + 8 * at
        a = torch.randn(512, 1024, device="cuda", dtype=torch.bfloat16)
        with torch._inductor.config.patch(force_disable_caches=True):
            torch.compile(torch.mm)(a, torch.randn(1024, n, device="cuda", dtype=torch.bfloat16))
    # The first one also meets what Inductor does once per process.
    median = statistics.median(spent[4:])
    kind = "a repeated shape" if repeated else "a new shape"
    report("Compile time", f"in the hook, {kind}, median and greatest of {len(spent) - 4}", f"{median:.2f} ms, {max(spent[4:]):.2f} ms")
    assert median <= limit_ms
