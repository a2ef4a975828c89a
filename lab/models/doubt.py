"""How much faster must a tile be predicted to be before the plug-in prefers it to the library?

    python lab/models/doubt.py trained_models/matmul/nvidia-h100

Prints how fast single picks are on the problems in half precision that the model was judged by, and on those of few
rows, also the ones that were timed with likely picks only. The last table is of the doubts that the plug-in has. Needs
torch_diode, but no GPU.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from torch_diode import Config, Dataset, DiodeError, Model, Problem
from torch_diode._core import WEIGHED, weighed

DOUBTS = (0.0, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)
FEW_ROWS, FROM_US = 16, 10
USUAL, ROWS = 0.07, {"1": 1, "2 to 7": 7, "8 to 32": 32, "33 to 64": 64}
Times = dict[Config, float]
Predicted = list[tuple[Config, float]]


def timed(folder: Path, *parts: str) -> Iterator[tuple[Problem, Times]]:
    """The problems in half precision with their times. A file with several kinds of hardware is skipped."""
    for path in sorted(path for part in parts for path in (folder / "data" / part).iterdir()):
        try:
            dataset = Dataset.load(path)
        except DiodeError as error:
            print(f"passed over: {error}", file=sys.stderr)
            continue
        for problem in dataset.problems:
            times = dict(dataset.times(problem))
            if problem.dtype != "float32" and any(config.is_library for config in times):
                yield problem, times


def has_few_rows(problem: Problem, predicted: Predicted) -> bool:
    """Whether reading B takes most of the time, and the library is predicted to take long enough."""
    few = problem.op in ("mm", "addmm") and problem.m <= FEW_ROWS
    return few and any(config.is_library and us >= FROM_US for config, us in predicted)


def table(model: Model, problems: Iterator[tuple[Problem, Times]], counts: Callable[[Problem, Predicted], bool]) -> None:
    speeds: dict[float, list[float]] = {doubt: [] for doubt in DOUBTS}
    tiles = dict.fromkeys(DOUBTS, 0)
    for problem, times in problems:
        choice = model.choose(problem, WEIGHED)
        predicted = [*choice.picks, *choice.near]
        if not counts(problem, predicted):
            continue
        library = next(us for config, us in times.items() if config.is_library)
        for doubt, found in speeds.items():
            first, _ = min(predicted, key=lambda one: one[1] * (1 if one[0].is_library else 1 + doubt))
            if first in times:
                found.append(library / times[first])
                tiles[doubt] += not first.is_library
    print("| doubt | problems | tiles picked | over the library | worst | below 0.98 |\n| --- | --- | --- | --- | --- | --- |")
    for doubt, found in speeds.items():
        mean = math.exp(statistics.fmean(map(math.log, found)))
        below = sum(speed < 0.98 for speed in found)
        print(f"| {100 * doubt:g} % | {len(found)} | {tiles[doubt]} | {mean:.4f} | {min(found):.2f} | {below} |")


def plug_in(model: Model, problems: Iterator[tuple[Problem, Times]]) -> None:
    """What the plug-in's doubts change, which depend on the rows and on the tile. Rows must be aligned, and nothing follows."""
    found: dict[tuple[str, str], list[tuple[float, bool]]] = {}
    for problem, times in problems:
        rows = next((name for name, most in ROWS.items() if problem.m <= most), None)
        aligned = all(size % 8 == 0 for size in (problem.n, problem.k) + ((problem.m,) if problem.a_layout == "column" else ()))
        if rows is None or not aligned or problem.op not in ("mm", "addmm"):
            continue
        choice = model.choose(problem, WEIGHED)
        predicted = [*choice.picks, *choice.near]
        usual = min(predicted, key=lambda one: one[1] * (1 if one[0].is_library else 1 + USUAL))[0]
        library = next(us for config, us in times.items() if config.is_library)
        for name, config in (
            (f"{USUAL:.0%} for all", usual),
            ("the plug-in's", weighed(predicted, problem, None, None)[0].config),
        ):
            if config in times:
                found.setdefault((rows, name), []).append((library / times[config], not config.is_library))
    print(
        "| rows | doubts | problems | tiles picked | over the library | worst tile | tiles below 0.98 |\n| --- "
        + "| --- " * 6
        + "|"
    )
    for (rows, name), speeds in sorted(found.items(), key=lambda one: list(ROWS).index(one[0][0])):
        tiles = [speed for speed, is_tile in speeds if is_tile]
        mean, below = statistics.geometric_mean(speed for speed, _ in speeds), sum(speed < 0.98 for speed in tiles)
        print(f"| {rows} | {name} | {len(speeds)} | {len(tiles)} | {mean:.4f} | {min(tiles, default=1):.2f} | {below} |")


def main() -> None:
    folder = Path(sys.argv[1])
    [file] = folder.glob("*.safetensors")
    model = Model.load(file)
    print("All problems that the model was judged by:\n")
    table(model, timed(folder, "validation"), lambda problem, predicted: True)
    print(f"\nmm and addmm of at most {FEW_ROWS} rows, for which the library is predicted to take {FROM_US} µs or more:\n")
    table(model, timed(folder, "validation", "picks"), has_few_rows)
    print("\nmm and addmm of few, aligned rows, with one doubt and with the plug-in's own:\n")
    plug_in(model, timed(folder, "validation", "picks"))


if __name__ == "__main__":
    main()
