"""How much faster must a tile be predicted to be before the plug-in prefers it to the library?

    python trained_models/matmul/doubt.py trained_models/matmul/nvidia-h100

Prints how fast single picks are on the problems in half precision that the model was judged by, and on those of few
rows, also the ones that were timed with likely picks only. Needs torch_diode, but no GPU.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from torch_diode import Config, Dataset, DiodeError, Model, Problem
from torch_diode._core import WEIGHED

DOUBTS = (0.0, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1)
FEW_ROWS, FROM_US = 16, 10
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


def main() -> None:
    folder = Path(sys.argv[1])
    [file] = folder.glob("*.safetensors")
    model = Model.load(file)
    print("All problems that the model was judged by:\n")
    table(model, timed(folder, "validation"), lambda problem, predicted: True)
    print(f"\nmm and addmm of at most {FEW_ROWS} rows, for which the library is predicted to take {FROM_US} µs or more:\n")
    table(model, timed(folder, "validation", "picks"), has_few_rows)


if __name__ == "__main__":
    main()
