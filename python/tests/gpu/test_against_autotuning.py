"""Compares compile time and run time of the picks with the winner of Inductor's autotuning. Both may use the library."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from compared import geomean
from figures import Report
from predecessor_network import PredecessorNetwork
from shapes import Shape, judged, single_mms
from timing import compiled_cold, microseconds
from torch._inductor import config

import torch_diode

DEFAULT, OURS, FIVE, LIBRARY = (
    "Inductor, default max-autotune",
    "torch_diode, top_k = 1",
    "torch_diode, top_k = 5",
    "no tuning (the library)",
)
EXHAUSTIVE = "Inductor, exhaustive"
SHIPPED, RIGHT = "torch-diode as shipped, the best of 5", "its network fed right, the best of 5"

# With so few rows, an exhaustive search takes a minute or two. With more rows it takes far longer.
_EXHAUSTIVE_UP_TO_M, _EXHAUSTIVELY = 16, 2

Times = dict[str, tuple[float, float]]
"""Seconds to compile and microseconds to run, by method."""


class Measured(NamedTuple):
    """For every problem its times, and what the plug-in picked with top_k = 1."""

    times: dict[Shape, Times]
    picks: dict[Shape, str]


def ways() -> dict[str, Callable[[], dict[str, Any]]]:
    """What to do before a compile with each method. It returns the options of the compile."""

    def installed(**arguments: Any) -> dict[str, Any]:
        torch_diode.install(**arguments)
        return {}

    def stock(**options: Any) -> dict[str, Any]:
        torch_diode.uninstall()
        return options

    found = {
        DEFAULT: lambda: stock(max_autotune_gemm=True),
        OURS: lambda: installed(),
        FIVE: lambda: installed(top_k=5),
        LIBRARY: lambda: stock(),
        EXHAUSTIVE: lambda: stock(max_autotune_gemm=True, max_autotune_gemm_search_space="EXHAUSTIVE"),
    }
    if "DIODE_COMPAT_DIR" in os.environ:
        file = Path(os.environ["DIODE_COMPAT_DIR"]) / "v1_model.pt"
        networks = {SHIPPED: PredecessorNetwork(file, fed_right=False), RIGHT: PredecessorNetwork(file, fed_right=True)}
        for name, network in networks.items():
            found[name] = functools.partial(installed, heuristic=network, top_k=5)
    return found


@pytest.fixture(scope="session")
def measured(report: Report, request: pytest.FixtureRequest) -> Measured:
    """Measures every problem by every method that applies to it. The report has each result as soon as it is measured."""
    every = ways()
    kept = Kept(request.config.getoption("--gpu-times"))
    found: dict[Shape, Times] = {}
    picks: dict[Shape, str] = {}
    try:
        with config.patch(shape_padding=False):
            warm_up(every)
            for shape, names in methods_of(judged()).items():
                times, picked = kept.known.get(str(shape)) or measure(
                    shape, {name: every[name] for name in names if name in every}
                )
                kept.keep(shape, times, picked)
                found[shape], picks[shape] = times, picked
                show(shape, times, picked, report)
                summarise(found, picks, report)
    finally:
        torch_diode.uninstall()
    return Measured(found, picks)


def methods_of(shapes: list[Shape]) -> dict[Shape, list[str]]:
    """The methods for each problem."""
    small = [shape for shape in shapes if not shape.linear and 1 < shape.m <= _EXHAUSTIVE_UP_TO_M][:_EXHAUSTIVELY]
    found = {}
    for shape in shapes:
        predecessors = [SHIPPED, RIGHT] if shape in single_mms() or shape in small else []
        found[shape] = [DEFAULT, OURS, FIVE, LIBRARY, *predecessors, *([EXHAUSTIVE] if shape in small else [])]
    return found


class Kept:
    """The measured times, in a file with a line for each problem."""

    def __init__(self, path: str | None) -> None:
        self._path = Path(path) if path else None
        lines = self._path.read_text().splitlines() if self._path and self._path.exists() else []
        self.known: dict[str, tuple[Times, str]] = {name: (times, picked) for name, times, picked in map(json.loads, lines)}

    def keep(self, shape: Shape, times: Times, picked: str) -> None:
        if self._path is not None and str(shape) not in self.known:
            with self._path.open("a") as file:
                file.write(json.dumps([str(shape), times, picked]) + "\n")


def warm_up(every: dict[str, Callable[[], dict[str, Any]]]) -> None:
    """Runs each method once, because its first run in a process takes longer."""
    shape = Shape(96, 224, 160)
    for name in (DEFAULT, OURS, FIVE, LIBRARY):
        compiled_cold(shape.function(), shape.inputs(), **every[name]())


def measure(shape: Shape, methods: dict[str, Callable[[], dict[str, Any]]]) -> tuple[Times, str]:
    """The times by each method, and what the plug-in picked."""
    inputs = shape.inputs()
    seconds, graphs, picked = [], [], ""
    for name, prepare in methods.items():
        options = prepare()
        took, graph = compiled_cold(shape.function(), inputs, **options)
        seconds.append(took)
        graphs.append(graph)
        if name == OURS:
            [pick] = torch_diode.history()
            picked = pick.picks[0].config.label
    return dict(zip(methods, zip(seconds, microseconds(graphs), strict=True), strict=True)), picked


def show(shape: Shape, times: Times, picked: str, report: Report) -> None:
    columns = {name: "{:.2f} s, {:.1f} µs".format(*times[name]) for name in (DEFAULT, OURS, FIVE, LIBRARY)}
    speed = f"{times[DEFAULT][1] / times[OURS][1]:.2f}"
    report.row("Every problem", {"problem": str(shape), **columns, "picked": picked, "speed of the pick": speed})


def relative(found: dict[Shape, Times], name: str, of: int) -> dict[Shape, float]:
    """The seconds or microseconds of default max-autotune / those of a method, by problem."""
    return {shape: times[DEFAULT][of] / times[name][of] for shape, times in found.items() if name in times}


def summarise(found: dict[Shape, Times], picks: dict[Shape, str], report: Report) -> None:
    mms = {shape: times for shape, times in found.items() if not shape.linear}
    tiles = {shape: times for shape, times in mms.items() if picks[shape] != "library"}
    what = "single mm: default max-autotune over torch_diode, geometric mean"
    for name, some, goal in ((what, mms, "≥ 3×"), (f"{what}, where torch_diode picks a Triton kernel", tiles, "")):
        if some:
            report.figure("Compile time", name, f"{geomean(relative(some, OURS, 0).values()):.1f}× ({len(some)} problems)", goal)
    in_all = [sum(times[name][0] for times in found.values()) for name in (DEFAULT, FIVE, OURS)]
    text = "{:.0f} s, {:.0f} s, {:.1f} s; {} problems".format(*in_all, len(found))
    report.figure(
        "Compile time", "all problems together: default max-autotune, torch_diode with top_k = 5 and with top_k = 1", text
    )
    for shape, ratio in longer(found, picks).items():
        report.figure("Compile time", f"{shape}: exhaustive search over torch_diode", f"{ratio:.0f}×", "≥ 100×")
    for name, goal in ((OURS, "≥ 0.99×, none below 0.80×"), (FIVE, "≥ 1.01×"), (LIBRARY, "")):
        speeds = relative(found, name, 1)
        worst = min(speeds, key=lambda shape: speeds[shape])
        text = f"geometric mean {geomean(speeds.values()):.3f}×, worst {speeds[worst]:.2f}× ({worst}); {len(speeds)} problems"
        report.figure("Run time", f"{name}: speed relative to default max-autotune's winner", text, goal)
    for name in (DEFAULT, OURS, FIVE, LIBRARY):
        shares = [min(us for _, us in times.values()) / times[name][1] for times in found.values()]
        text = f"{geomean(shares):.1%}, worst {min(shares):.0%}; within 5 % of it for {sum(share >= 0.95 for share in shares)} of {len(shares)}"
        report.figure("Run time", f"{name}: share of the best by any method", text)
    compare("Compared, on the same mm problems", {shape: times for shape, times in mms.items() if shape in single_mms()}, report)
    compare(
        "Compared, where an exhaustive search ends soon",
        {shape: times for shape, times in mms.items() if EXHAUSTIVE in times},
        report,
    )


def compare(section: str, found: dict[Shape, Times], report: Report) -> None:
    """Adds a row for each method that was measured on all of the problems."""
    for name in (SHIPPED, RIGHT, DEFAULT, EXHAUSTIVE, OURS, FIVE, LIBRARY):
        times = [one[name] for one in found.values() if name in one]
        if not times or len(times) < len(found):
            continue
        speeds = relative(found, name, 1)
        columns = {
            "method": name,
            "problems": str(len(times)),
            "compile, geometric mean": f"{geomean(seconds for seconds, _ in times):.2f} s",
            "compile, longest": f"{max(seconds for seconds, _ in times):.2f} s",
            "run time, geometric mean": f"{geomean(us for _, us in times):.1f} µs",
            "speed relative to default max-autotune": f"{geomean(speeds.values()):.3f}× (worst {min(speeds.values()):.2f}×)",
        }
        report.row(section, columns)


def longer(found: dict[Shape, Times], picks: dict[Shape, str]) -> dict[Shape, float]:
    """How many times as long an exhaustive search takes as compiling the Triton kernel that the plug-in picked."""
    searched = {shape: times for shape, times in found.items() if EXHAUSTIVE in times and picks[shape] != "library"}
    return {shape: times[EXHAUSTIVE][0] / times[OURS][0] for shape, times in searched.items()}


def test_a_single_mm_compiles_three_times_faster_than_by_default_autotuning(measured: Measured) -> None:
    ratios = relative({shape: times for shape, times in measured.times.items() if not shape.linear}, OURS, 0)
    assert len(ratios) >= 10
    assert geomean(ratios.values()) >= 3


def test_an_exhaustive_search_takes_a_hundred_times_as_long(measured: Measured) -> None:
    ratios = longer(*measured)
    assert ratios and min(ratios.values()) >= 100


def test_what_is_picked_runs_as_fast_as_what_autotuning_finds(measured: Measured) -> None:
    speeds = relative(measured.times, OURS, 1)
    assert len(speeds) >= 40
    assert geomean(speeds.values()) >= 0.99


def test_no_pick_is_much_slower(measured: Measured) -> None:
    assert min(relative(measured.times, OURS, 1).values()) >= 0.80


def test_the_best_of_five_is_faster_than_what_autotuning_finds(measured: Measured) -> None:
    assert geomean(relative(measured.times, FIVE, 1).values()) >= 1.01
