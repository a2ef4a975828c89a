"""How long a cold compile takes, compared with Inductor's own ways, and how much of it the hook takes."""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import pytest
import torch
from compared import geomean
from figures import Report
from shapes import single_mms
from timing import compiled_cold
from torch._dynamo.utils import counters
from torch._inductor.lookup_table import LookupTableChoices

import torch_diode
from torch_diode.selection import Selector

SECTION = "Compile time"


@pytest.fixture(autouse=True, scope="module")
def warm() -> None:
    """Compiles once, because Inductor's first compile in a process takes longer."""
    torch_diode.install(top_k=5)
    products: dict[Callable[..., Any], list[tuple[int, ...]]] = {
        torch.mm: [(96, 160), (160, 224)],
        torch.addmm: [(224,), (96, 160), (160, 224)],
    }
    for function, inputs in products.items():
        compiled_cold(function, [randn(*size) for size in inputs])
    torch_diode.uninstall()


def randn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)


@pytest.mark.parametrize(("repeated", "limit_ms"), [(False, 3.0), (True, 0.3)], ids=["new", "repeated"])
def test_the_hook_costs_little(repeated: bool, limit_ms: float, report: Report, monkeypatch: pytest.MonkeyPatch) -> None:
    torch_diode.install()
    spent: list[float] = []
    decide = Selector.decide

    def timed(self: Selector, inputs: Any, op: str, settings: Any, offer: Any = None, before: Any = None) -> Any:
        start = time.perf_counter()
        found = decide(self, inputs, op, settings, offer, before)
        # The choice of a tile begins before the lowering and ends when templates are offered. Both
        # steps count as the time of one pick.
        if offer is None:
            spent.append(0.0)
        spent[-1] += (time.perf_counter() - start) * 1e3
        return found

    monkeypatch.setattr(Selector, "decide", timed)
    count = 24
    inputs = [(randn(512, 1024), randn(1024, 1024 if repeated else 1024 + 8 * at)) for at in range(count)]
    torch.compile(lambda pairs: [a @ b for a, b in pairs], dynamic=False)(inputs)
    assert len(spent) == count
    later = spent[1:]
    kind = "a repeated problem" if repeated else "a new problem"
    found = f"{statistics.median(later):.2f} ms, {max(later):.2f} ms"
    report.figure(SECTION, f"in the hook, {kind}, median and greatest of {len(later)}", found, f"≤ {limit_ms:g} ms")
    assert statistics.median(later) <= limit_ms


def test_a_known_answer_takes_microseconds(report: Report) -> None:
    model = torch_diode.models.available()[0].model
    problem = torch_diode.Problem("mm", m=512, n=1024, k=1024, dtype="bfloat16")
    ask = lambda: model.choose(problem, 1, shared_memory=232448)
    ask()
    count = 10_000
    start = time.perf_counter()
    for _ in range(count):
        ask()
    us = (time.perf_counter() - start) / count * 1e6
    report.figure(SECTION, "inside the extension, a repeated problem, mean of 10,000 calls from Python", f"{us:.2f} µs", "≤ 5 µs")
    assert us <= 5


def test_it_costs_no_more_than_the_same_config_by_hand(report: Report) -> None:
    ratios = []
    for shape in single_mms():
        function, inputs = shape.function(), shape.inputs()
        torch_diode.install()
        compiled_cold(function, inputs)
        [pick] = torch_diode.history()
        if pick.picks[0].config.is_library:
            continue
        table = inductors_table(pick)
        ours, forced = [], []
        for _ in range(6):
            torch_diode.install()
            ours.append(compiled_cold(function, inputs)[0])
            torch_diode.uninstall()
            forced.append(by_hand(function, inputs, table))
        ratios.append(min(ours) / min(forced))
        name = f"{shape}: torch_diode and the same config forced by Inductor's lookup table, best of 6"
        report.figure(SECTION, name, f"{min(ours):.3f} s, {min(forced):.3f} s")
        if len(ratios) == 6:
            break
    report.figure(
        SECTION,
        f"torch_diode over the same config by hand, geometric mean of {len(ratios)}",
        f"{geomean(ratios):.3f}×",
        "≤ 1.05×",
    )
    assert geomean(ratios) <= 1.05


def by_hand(function: Callable[..., Any], inputs: Any, table: dict[str, Any]) -> float:
    """Seconds of a compile with Inductor's own lookup table, without the plug-in."""
    counters.clear()
    options = {"max_autotune_gemm": True, "inductor_choices_class": LookupTableChoices, "lookup_table.table": table}
    seconds, _ = compiled_cold(function, inputs, **options)
    assert not [name for name in counters["inductor"] if name.startswith("select_algorithm")], "the table's entry was taken"
    return seconds


def inductors_table(pick: Any) -> dict[str, Any]:
    """A pick in the form of Inductor's lookup table."""
    tile, problem = pick.picks[0].config, pick.problem
    tile_fields = ("template", "block_m", "block_n", "block_k", "group_m", "num_stages", "num_warps")
    fields = ("op", "b", "m", "n", "k", "b_dtype", "out_dtype", "a_layout", "b_layout")
    entry = {
        "problem": {"a_dtype": problem.dtype, "bias": "none", **{name: getattr(problem, name) for name in fields}},
        "configs": [{name: getattr(tile, name) for name in tile_fields}],
    }
    hardware = {"slug": "nvidia-h200", "name": "NVIDIA H200", "vendor": "nvidia", "facts": None}
    table = {"format": "diode-table/1", "hardware": hardware, "method": "unspecified", "entries": [entry]}
    return json.loads(torch_diode.Table.from_json(json.dumps(table)).to_inductor_json(device_agnostic=True))


def test_a_block_of_eight_linears_compiles_six_times_faster(report: Report) -> None:
    layers = [torch.nn.Linear(*sizes) for sizes in [(1024, 4096), (4096, 1024)] * 4]
    block, inputs = torch.nn.Sequential(*layers).cuda().bfloat16(), [randn(2048, 1024)]
    none = min(compiled_cold(block, inputs)[0] for _ in range(2))
    torch_diode.install()
    ours = min(compiled_cold(block, inputs)[0] for _ in range(2))
    torch_diode.uninstall()
    default, _ = compiled_cold(block, inputs, max_autotune_gemm=True)
    found = f"{ours:.2f} s, {default:.2f} s ({default / ours:.1f}×), {none:.2f} s"
    report.figure(SECTION, "a block of 8 linears: torch_diode, default max-autotune, no tuning", found, "≥ 6×")
    assert default / ours >= 6
